"""Gangs that cannot go on: a rendezvous that nobody hosts, a name that nobody has, ranks that stand still."""

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import Handle, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import exist, finished, job_ended
from pytest_gpucluster.scenario.programs import headless, image, payloads_of
from pytest_gpucluster.workload import GangSpec, Role

from .common import LOGS, PAYLOAD, PayloadCommand, told

WITHIN = 1.0
"""Seconds that each member tries to find, and then to reach, its rendezvous."""
LONGER = 0.8
"""Seconds that the pod at the endpoint stays longer than the other: what is refused by a pod is told from a pod that
is gone."""
CLOSED_PORT = 29999
WRONG_SUBDOMAIN = "nowhere"
STALLS = ("1:import", "2:restore", "3:data")
"""Rank 0 goes through; each of the others stands still in a place of its own."""
BOUND = 1.0
"""Seconds that a rank may stay in one place."""


def unreachable_gang(
    name: str, image: str, payload: str, *args: str, service: str = "", subdomain: str = ""
) -> GangSpec:
    """Return a gang of which no member hosts the rendezvous.

    Args:
        name: its name.
        image: its image.
        payload: ConfigMap with its program.
        args: further arguments.
        service: Service under which its members look for their master, "" where the pytorch plugin tells them.
        subdomain: the Service under which they have names.
    """
    told = {"MASTER_ADDR": f"master-0.{service}", "MASTER_PORT": "23456"} if service else {}
    join = ("join", "--members=2", *args)
    return GangSpec(
        name,
        roles=(
            Role("master", 1, PayloadCommand, (*join, f"--within={WITHIN + LONGER:g}")),
            Role("worker", 1, PayloadCommand, (*join, f"--within={WITHIN:g}")),
        ),
        image=image,
        plugins={} if service else {"pytorch": ("--master=master", "--worker=worker")},
        payload=payload,
        subdomain=subdomain,
        env=told,
    )


def run_unreachable(stage: Stage) -> None:
    """Let one gang try a port on which nobody listens, and one a name under a subdomain that has no Service."""
    told(stage, within=WITHIN + LONGER)
    payload, python = payloads_of(stage, "gang.py"), image(stage, "python")
    port, name, closed = f"{stage.name}-port", f"{stage.name}-name", f"--port={CLOSED_PORT}"
    if stage.dialect.names_members:
        nameless = stage.dialect.write(unreachable_gang(name, python, payload))
        for task in nameless["spec"]["tasks"]:
            task["template"]["spec"]["subdomain"] = WRONG_SUBDOMAIN
        jobs = [
            stage.gang(unreachable_gang(port, python, payload, closed), role="endpoint"),
            stage.submit(nameless, role="subdomain"),
        ]
    else:
        specs = {
            "endpoint": unreachable_gang(port, python, payload, closed, service=port, subdomain=port),
            "subdomain": unreachable_gang(name, python, payload, service=name, subdomain=WRONG_SUBDOMAIN),
        }
        for spec in specs.values():
            stage.dialect.write(spec)  # Whether it can be written at all, before anything is made.
        for service in (port, name):
            headless(stage, service, {names.LABEL_GANG: service})
        jobs = [stage.gang(spec, role=role) for role, spec in specs.items()]
    _to_their_end(stage, jobs, 2, "both gangs have ended by themselves")


def run_stalled(stage: Stage) -> None:
    """Let three of four ranks stand still outside any collective."""
    told(stage, bound=BOUND, stalls=list(STALLS))
    payload = payloads_of(stage, "stall.py")
    args = (f"--bound={BOUND:g}", *(f"--stall={stall}" for stall in STALLS))
    command = ("python", "/workspace/stall.py")
    # Ranks by argument: what the plugins number is judged elsewhere.
    ranks = tuple(
        Role(f"rank-{rank}", 1, command, (*args, f"--rank={rank}")) for rank in range(1 + len(STALLS))
    )
    spec = GangSpec(stage.name, roles=ranks, image=image(stage, "python"), payload=payload)
    jobs = [stage.gang(spec, role="stalled")]
    _to_their_end(stage, jobs, len(ranks), "every rank has ended by itself")


def _to_their_end(stage: Stage, jobs: list[Handle], members: int, what: str) -> None:
    made = [job for job in jobs if job.ok]
    for job in made:
        stage.follow(job)
    there = [exist(job, 1) for job in made]
    # Pods in a PodGroup of ours have no Job that ends.
    ends = [finished(job, members) if job.kind == names.NATIVE_POD_GROUP else job_ended(job) for job in made]
    if len(made) == len(jobs) and stage.wait(
        "members exist", lambda live: all(each(live) for each in there), budget="enqueue"
    ):
        stage.wait(what, lambda live: all(ended(live) for ended in ends), budget="run")


unreachable = Scenario(
    name="unreachable",
    summary="two gangs whose rendezvous cannot be reached: a closed port, a subdomain without a Service",
    run=run_unreachable,
    needs=Needs(seconds=4, pods_run=True, mixed=True, named=True, permissions=PAYLOAD + LOGS),
)

stalled = Scenario(
    name="stalled",
    summary="three of four ranks stand still in an import, a checkpoint and a data loader",
    run=run_stalled,
    needs=Needs(seconds=4, pods_run=True, mixed=True, permissions=PAYLOAD + LOGS),
)
