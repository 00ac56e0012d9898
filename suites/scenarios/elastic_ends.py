"""Elastic jobs that come to an end: one of which a rank fails each time, and one that loses the host of its store.

A third one meets at the same store as the first, and must not notice.
"""

from collections.abc import Callable

from pytest_gpucluster.profile import Elastic
from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import job_ended, phase
from pytest_gpucluster.scenario.programs import payloads_of

from .common import LOGS, PAYLOAD, told
from .elastic import JOBS, PACE, PROGRAMS, SERVICES, Meeting, declared, job, meeting, unusable, worlds

MEMBERS = 2
RESTARTS = 2
"""Of each agent of the storm: three attempts show that they are counted."""
CRASHES = 1
"""Index of the member that fails: not the one that a new world begins with."""
TRIES = 20
"""Members that the job which loses its host may make again: the Job itself must not end what is left."""


def storm(stage: Stage, elastic: Elastic, payload: str, where: Meeting) -> Handle:
    """Submit the job of which one rank fails in its first step, each time."""
    wanted = job(
        stage, elastic, where, payload, name=f"{stage.name}-storm", members=(MEMBERS, MEMBERS), restarts=RESTARTS,
        more=(f"--crash={CRASHES}",),
    )  # fmt: skip
    return stage.submit(stage.contrast.write(wanted), role="storm")


def inert(stage: Stage, elastic: Elastic, payload: str) -> Handle:
    """Submit the job whose store is inside its first worker; it could go on with one worker."""
    wanted = job(
        stage, elastic, Meeting("c10d", ""), payload, name=f"{stage.name}-inert", members=(1, MEMBERS),
        restarts=elastic.max_restarts, lost=TRIES,
    )  # fmt: skip
    return stage.submit(stage.contrast.write(wanted), role="inert")


def neighbour(stage: Stage, elastic: Elastic, payload: str, where: Meeting) -> Handle:
    """Submit a job of one worker that meets at the same store as the storm, under an id of its own."""
    wanted = job(
        stage, elastic, where, payload, name=f"{stage.name}-neighbour", members=(1, 1), restarts=RESTARTS,
    )  # fmt: skip
    return stage.submit(stage.contrast.write(wanted), role="neighbour")


def trains(stage: Stage, gang: Handle) -> Callable[[Live], bool]:
    """Report whether a whole world of a job has taken steps."""
    return lambda _: any(world.whole for world in worlds(stage, gang.name))


def lose_host(stage: Stage, gang: Handle) -> None:
    """Kill the worker that has the store inside, and wait until the other one ends, or goes on alone."""
    before = {world.name for world in worlds(stage, gang.name)}
    pods = stage.live.pods_of(gang)
    first = min(pods, key=lambda pod: str(pod["metadata"]["name"]))
    others = {pod["metadata"]["uid"] for pod in pods} - {first["metadata"]["uid"]}
    stage.remove_pod(first, grace=0)

    def shown(live: Live) -> bool:
        left = [pod for pod in live.pods_of(gang) if pod["metadata"]["uid"] in others]
        ended = all(phase(pod) in ("Failed", "Succeeded") for pod in left)
        return ended or any(world.name not in before and world.whole for world in worlds(stage, gang.name))

    # What is left has noticed at once, or does not at all.
    stage.wait("the worker that is left ends, or goes on", shown, budget="run")


def made_again(stage: Stage, gang: Handle) -> Callable[[Live], str]:
    """Tell when a member of a job was made again: its agents' restarts do not bound it."""
    first = {str(pod["metadata"]["uid"]) for pod in stage.live.pods_of(gang)}

    def check(live: Live) -> str:
        new = [pod for pod in live.pods_of(gang) if pod["metadata"]["uid"] not in first]
        return f"{new[0]['metadata']['name']} was made in place of a member that had ended" if new else ""

    return check


def run(stage: Stage) -> None:
    """Let the jobs run at the same time; two of them end."""
    elastic = declared(stage)
    told(stage, elastic=elastic.model_dump(), members=MEMBERS, pace=PACE, attempts=RESTARTS + 1)
    payload = payloads_of(stage, *PROGRAMS)
    where = Meeting("c10d", "") if elastic.backend == "c10d" else meeting(stage, elastic, payload)
    hosted = inert(stage, elastic, payload)
    failing, beside = storm(stage, elastic, payload, where), neighbour(stage, elastic, payload, where)
    jobs = [gang for gang in (hosted, failing, beside) if gang.ok]
    for gang in jobs:
        stage.follow(gang)
    if hosted.ok and stage.wait(
        "the job with its store inside trains", trains(stage, hosted), budget="torch"
    ):
        lose_host(stage, hosted)
    if failing.ok:
        again = made_again(stage, failing)
        stage.wait(
            "the job of which a rank fails has ended",
            job_ended(failing),
            budget="torch",
            unless=lambda live: again(live) or unusable(stage, where),
        )
    if beside.ok:
        steps = max((world.steps for world in worlds(stage, beside.name)), default=0)

        def goes_on(_: Live) -> bool:
            return any(world.steps > steps for world in worlds(stage, beside.name))

        stage.wait(
            "the job beside it goes on", goes_on, budget="torch", unless=lambda _: unusable(stage, where)
        )
    for gang in jobs:
        stage.delete(gang, wait=False)
    stage.wait("all are gone", lambda live: not any(live.pods_of(gang) for gang in jobs), budget="delete")


elastic_ends = Scenario(
    name="elastic-ends",
    summary="elastic jobs that end: a rank fails each time, or the worker with the store inside is lost",
    run=run,
    needs=Needs(seconds=35, torch=True, gang=False, permissions=PAYLOAD + LOGS + SERVICES + JOBS),
    kinds=("Pod", "Job.batch", "Event", "Service", "ConfigMap", "Node"),
)
