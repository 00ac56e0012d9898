"""Indexed Jobs with a headless Service: members find each other by name, wait for names, and train a step."""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import finished
from pytest_gpucluster.scenario.programs import image, payloads_of
from pytest_gpucluster.workload import GangSpec, Role

from .common import LOGS, PAYLOAD, told

PROGRAM = "members.py"
MEMBERS = 2
GIVE_UP = 1.0
"""Seconds that a member waits for a name that nobody has."""
PATIENCE = 60.0
"""Longest wait for names that come: twice the 30 s for which a DNS server may keep that there is no such name."""
KINDS = ("Pod", names.BATCH_JOB, "Event", "Service", "ConfigMap")
SERVICES = ("create,delete services",)
JOBS = ("create,delete jobs.batch",)


def member_names(job: str, service: str, count: int) -> list[str]:
    """Return the names that members of an Indexed Job have in a Service, by index."""
    return [f"{job}-{index}.{service}" for index in range(count)]


def headless(name: str, job: str) -> dict[str, Any]:
    """Return the Service that names the pods of a Job before they are ready.

    A member that waits for the others in an init container is not ready; without `publishNotReadyAddresses` all
    would wait for each other.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": job},
        },
    }


def indexed_job(stage: Stage, spec: GangSpec, service: str) -> dict[str, Any]:
    """Return the Indexed Job of a gang of one role, its pods named in a Service.

    It is Kubernetes' own, placed by its own scheduler: names depend on neither.
    """
    job: dict[str, Any] = stage.contrast.write(spec)
    job["spec"]["template"]["spec"]["subdomain"] = service
    return job


def wait_first(pod: dict[str, Any], python: str, wanted: list[str], within: float) -> None:
    """Let a pod wait in an init container until all wanted names are known."""
    main = pod["containers"][0]
    init = {
        "name": "wait-for-names",
        "image": python,
        "command": ["python", f"/workspace/{PROGRAM}"],
        "args": ["wait", *wanted, f"--within={within:g}"],
        "env": [*main["env"][:-1], {"name": "GPUCLUSTER_CONTAINER", "value": "wait-for-names"}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "volumeMounts": list(main["volumeMounts"]),
    }
    pod["initContainers"] = [init]


def waiting_job(
    stage: Stage, name: str, payload: str, wanted: list[str], *, members: int, within: float
) -> dict[str, Any]:
    """Return the Indexed Job whose members wait in an init container until all wanted names are known."""
    program = f"/workspace/{PROGRAM}"
    python = image(stage, "python")
    role = Role("member", members, ("python", program), ("say",))
    job = indexed_job(stage, GangSpec(name, roles=(role,), image=python, payload=payload), name)
    wait_first(job["spec"]["template"]["spec"], python, wanted, within)
    return job


def condition(live: Live, job: Handle, *types: str) -> bool:
    """Report whether a batch Job has one of these conditions."""
    found: Mapping[str, Any] = live.get(job.kind, job.name) or {}
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(c.get("type") in types and c.get("status") == "True" for c in conditions)


def ended(job: Handle) -> Callable[[Live], bool]:
    """Report whether a batch Job has come to its end."""
    return lambda live: condition(live, job, "Complete", "Failed")


def _told(stage: Stage, job: Handle) -> Callable[[Live], bool]:
    """Report whether each member has written its first line: that it waits."""

    def check(live: Live) -> bool:
        pods = live.pods_of(job)
        return len(pods) == MEMBERS and all(stage.heard(pod) for pod in pods)

    return check


def patience_of(stage: Stage, part: float = 1.0) -> float:
    """Return how long names that come are waited for: on a small cluster no longer than a run, or a part of it."""
    return min(PATIENCE, float(stage.profile.budgets["run"]) * part)


def run_waiting(stage: Stage) -> None:
    """Let members wait for names that come late, and meanwhile another one for a name that never comes."""
    # As long as the other member may take to give up on a busy machine.
    patience = patience_of(stage)
    told(stage, members=MEMBERS, within=patience, give_up=GIVE_UP)
    payload = payloads_of(stage, PROGRAM)
    late, never = f"{stage.name}-late", f"{stage.name}-never"
    come, lack = member_names(late, late, MEMBERS), member_names(never, never, 1)
    held = stage.submit(
        waiting_job(stage, late, payload, come, members=MEMBERS, within=patience), role="held"
    )
    if not held.ok:
        return
    stage.follow(held)
    if stage.wait("all members wait for names", _told(stage, held), budget="start"):
        # One member: when one of several gives up, its Job ends the others. It begins when the others have looked, so
        # that they have looked for as long as it does, however busy the machine.
        vain = waiting_job(stage, never, payload, lack, members=1, within=GIVE_UP)
        unanswered = stage.submit(vain, role="unanswered")
        if unanswered.ok:
            stage.follow(unanswered)
            gave_up = finished(unanswered, 1)
            stage.wait("the member that waits for a name that nobody has gave up", gave_up, budget="run")
        stage.submit(headless(late, late), role="names")
        stage.wait("the members that found their names have ended", ended(held), budget="run")


def run_world(stage: Stage) -> None:
    """Let an Indexed Job form a group by its names, over gloo, and take one step of DDP."""
    interface = stage.profile.interface
    told(stage, members=MEMBERS, world=MEMBERS)
    payload, job = payloads_of(stage, PROGRAM), stage.name
    wanted = member_names(job, job, MEMBERS)
    role = Role(
        "member",
        MEMBERS,
        ("python", f"/workspace/{PROGRAM}"),
        ("train", *wanted, f"--within={patience_of(stage, 0.5):g}"),
        field_env={"POD_IP": "status.podIP"},
        # As the manifests of the documents set it; a cluster that declares no interface leaves the choice to gloo.
        env={"GLOO_SOCKET_IFNAME": interface} if interface else {},
    )
    spec = GangSpec(job, roles=(role,), image=image(stage, "torch"), payload=payload)
    stage.submit(headless(job, job), role="names")
    world = stage.submit(indexed_job(stage, spec, job), role="subject")
    if world.ok:
        stage.follow(world)
        stage.wait("the world has ended", ended(world), budget="torch")
        stage.delete(world)


name_wait = Scenario(
    name="name-wait",
    summary="init containers wait for names of members: names that come late, and a name that never comes",
    run=run_waiting,
    needs=Needs(seconds=4, gang=False, permissions=PAYLOAD + LOGS + SERVICES + JOBS),
    kinds=KINDS,
)

indexed_world = Scenario(
    name="indexed-world",
    summary="an Indexed Job with a headless Service trains one step over gloo",
    run=run_world,
    needs=Needs(seconds=15, torch=True, gang=False, permissions=PAYLOAD + LOGS + SERVICES + JOBS),
    kinds=KINDS,
)
