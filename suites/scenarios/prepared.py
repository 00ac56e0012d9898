"""What members do before their launcher starts: they wait for the network, and go on; or wait in vain, and end."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.workload import GangSpec, Role

from .common import LOGS, PAYLOAD, image, payloads_of, phase, told
from .indexed import JOBS, KINDS, SERVICES, headless, indexed_job, member_names, patience_of

PROGRAM = "/workspace/ready.py"
MEMBERS = 2
GIVE_UP = 1.0
"""Seconds that a member waits for an interface that no pod has."""
NO_INTERFACE = "wg-none0"
"""A tunnel that is not there."""
GATE = "wait-for-network"
LINES = 3
"""What a member says: that it waits, that the network is there, that its launcher starts."""


def gated(stage: Stage, name: str, payload: str, *, members: int, gate: tuple[str, ...]) -> dict[str, Any]:
    """Return the Indexed Job whose members wait for the network in an init container.

    It is Kubernetes' own, placed by its own scheduler: what happens inside a member depends on neither.
    """
    python = image(stage, "python")
    role = Role("member", members, ("python", PROGRAM), ("launch", "--hold"))
    job = indexed_job(stage, GangSpec(name, roles=(role,), image=python, payload=payload), name)
    pod = job["spec"]["template"]["spec"]
    main = pod["containers"][0]
    pod["initContainers"] = [
        {
            "name": GATE,
            "image": python,
            "command": ["python", PROGRAM],
            "args": ["network", *gate],
            "env": [*main["env"][:-1], {"name": "GPUCLUSTER_CONTAINER", "value": GATE}],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            "volumeMounts": list(main["volumeMounts"]),
        }
    ]
    return job


def _gates(live: Live, job: Handle) -> list[str]:
    """Return the state in which the wait of each member is: `waiting`, `running`, `terminated`."""
    return [
        state
        for pod in live.pods_of(job)
        for status in (pod.get("status") or {}).get("initContainerStatuses") or []
        if status.get("name") == GATE
        for state in status.get("state") or {}
    ]


def run(stage: Stage) -> None:
    """Let members wait for peers whose names come late, beside one that waits for an interface that no pod has."""
    patience, interface = patience_of(stage), stage.profile.interface
    told(stage, members=MEMBERS, within=patience, give_up=GIVE_UP)
    payload = payloads_of(stage, "ready.py")
    late, never = f"{stage.name}-late", f"{stage.name}-never"
    over = (f"--interface={interface}",) if interface else ()
    gate = (*member_names(late, late, MEMBERS), *over, f"--within={patience:g}")
    nowhere = (f"--interface={NO_INTERFACE}", f"--within={GIVE_UP:g}")
    jobs = [
        stage.submit(gated(stage, late, payload, members=MEMBERS, gate=gate), role="held"),
        stage.submit(gated(stage, never, payload, members=1, gate=nowhere), role="unanswered"),
    ]
    held, unanswered = jobs
    made = [job for job in jobs if job.ok]
    for job in made:
        stage.follow(job)

    def launched(live: Live) -> bool:
        pods = live.pods_of(held)
        return len(pods) == MEMBERS and all(stage.heard(pod) >= LINES for pod in pods)

    # The members wait for as long as the other one does in vain: long enough for a look that finds nothing.
    if len(made) == len(jobs) and stage.wait(
        "all members wait for the network",
        lambda live: _gates(live, held).count("running") == MEMBERS,
        budget="start",
    ):
        vain = "the member that waits for an interface in vain gave up"
        if stage.wait(vain, lambda live: "terminated" in _gates(live, unanswered), budget="run"):
            stage.submit(headless(late, late), role="names")
            stage.wait("the members' launchers have started", launched, budget="run", unless=_failed(held))
    for job in made:
        stage.delete(job)


def _failed(job: Handle) -> Callable[[Live], str]:
    def check(live: Live) -> str:
        failed = [pod["metadata"]["name"] for pod in live.pods_of(job) if phase(pod) == "Failed"]
        return f"{failed[0]} has failed" if failed else ""

    return check


prepared = Scenario(
    name="prepared",
    summary="init containers wait for the network: peers that come late, and an interface that never comes",
    run=run,
    needs=Needs(seconds=4, gang=False, permissions=PAYLOAD + LOGS + SERVICES + JOBS),
    kinds=KINDS,
)
