"""Two Jobs at once, each a world of its own; one of them trains."""

from collections.abc import Callable

from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import job_ended, phase
from pytest_gpucluster.scenario.programs import headless, image, payloads_of, speaking
from pytest_gpucluster.workload import GangSpec, Role

from .common import LOGS, PAYLOAD, room, told
from .world import NODES, PLUGINS, by_index, by_plugin

PROGRAM = "/workspace/ranks.py"
PATIENCE = 60
"""Seconds in which launchers must meet: what torch takes for a connection."""


def job(stage: Stage, name: str, payload: str, torch: str, *more: str) -> GangSpec:
    """Return one Job: a launcher of one rank on each of two members, with an id and an endpoint of its own.

    Both Jobs meet at the same port, as all do that leave it at its default.
    """
    named = stage.dialect.names_members
    endpoint = by_plugin(stage.namespace) if named else by_index(name, stage.namespace)
    within = f"--within={meeting(stage)}"
    args = (PROGRAM, f"--nodes={NODES}", f"--id={name}", f"--endpoint={endpoint}", within, *more)
    members = (("master", 1), ("worker", NODES - 1)) if named else (("worker", NODES),)
    address, interface = {"POD_IP": "status.podIP"}, stage.profile.interface
    # As the manifests of the documents set it; a cluster that declares no interface leaves the choice to gloo.
    over = {"GLOO_SOCKET_IFNAME": interface} if interface else {}
    return GangSpec(
        name,
        roles=tuple(
            Role(role, count, ("python",), args, field_env=address, env=over) for role, count in members
        ),
        resources={stage.profile.gpu_resource: 1},
        image=torch,
        payload=payload,
        plugins=PLUGINS if named else {},
        subdomain="" if named else name,
    )


def meeting(stage: Stage) -> int:
    """Return how long launchers look for each other; one that connects in vain may take twice as long."""
    return int(min(PATIENCE, float(stage.profile.budgets["torch"]) / 3))


def over(handle: Handle) -> Callable[[Live], bool]:
    """Report whether a Job has ended, or one of its members has failed: its world does not form any more."""
    ended = job_ended(handle)
    return lambda live: ended(live) or any(phase(pod) == "Failed" for pod in live.pods_of(handle))


def run(stage: Stage) -> None:
    """Let both Jobs form their worlds at the same time, one of them train, and both end."""
    told(stage, members=NODES, min_member=NODES, nnodes=NODES, nproc=1, world=NODES)
    room(stage, 2 * NODES)
    payload, torch = payloads_of(stage, "ranks.py"), image(stage, "torch")
    dialect = speaking(stage, {stage.profile.gpu_resource: 2 * NODES})
    jobs = []
    for role, more in (("left", ("--train",)), ("right", ())):
        name = f"{stage.name}-{role}"
        if not stage.dialect.names_members:
            headless(stage, name)
        jobs.append(stage.gang(job(stage, name, payload, torch, *more), role=role, dialect=dialect))
    made = [handle for handle in jobs if handle.ok]
    for handle in made:
        stage.follow(handle)
    ends = [over(handle) for handle in made]
    if len(made) == len(jobs):
        stage.wait("both worlds have ended", lambda live: all(end(live) for end in ends), budget="torch")


two_jobs = Scenario(
    name="two-jobs",
    summary="two Jobs of torchrun at the same time; the ranks of one train with DDP and FSDP2",
    run=run,
    needs=Needs(
        named=True,
        gpus=2 * NODES,
        seconds=18,
        gpu_seconds=2 * NODES * 18,
        torch=True,
        permissions=PAYLOAD + LOGS,
    ),
)
