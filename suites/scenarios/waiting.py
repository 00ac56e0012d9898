"""The pytorch plugin with a port of its own, and workers that wait for their master: one that comes late, one never."""

from pytest_gpucluster.scenario import Handle, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import finished, job_ended
from pytest_gpucluster.scenario.programs import image, payloads_of
from pytest_gpucluster.workload import GangSpec, Role

from .common import LOGS, PAYLOAD, PayloadCommand, told

PORT = 29500
LATE = 1.2
"""Seconds after which the late master listens: after the waiting worker's first try, before its second (2 s later)."""
PATIENCE = 60
"""Seconds that workers wait for the late master."""
GIVE_UP = 2
"""Seconds that a worker waits for the master that never listens."""


def held(name: str, image: str, payload: str) -> GangSpec:
    """Return a gang whose worker is held back until the late master listens; a side task has no part in it."""
    meet = (f"--master={name}-master-0.{name}", "--members=2")
    waits = ("--wait-master-enabled=true", f"--wait-master-timeout={PATIENCE}")
    return GangSpec(
        name,
        roles=(
            Role("master", 1, PayloadCommand, ("meet", *meet, f"--late={LATE}"), ends_job=True),
            Role("worker", 1, PayloadCommand, ("meet", *meet)),
            Role("side", 1, (*PayloadCommand, "env")),
        ),
        image=image,
        plugins={"pytorch": ("--master=master", "--worker=worker", f"--port={PORT}", *waits)},
        payload=payload,
    )


def unanswered(name: str, image: str, payload: str) -> GangSpec:
    """Return a gang whose master never listens, with the default port."""
    waits = ("--wait-master-enabled=true", f"--wait-master-timeout={GIVE_UP}")
    return GangSpec(
        name,
        roles=(
            Role("master", 1, (*PayloadCommand, "idle")),
            Role("worker", 1, (*PayloadCommand, "env")),
        ),
        image=image,
        plugins={"pytorch": ("--master=master", "--worker=worker", *waits)},
        payload=payload,
    )


def run(stage: Stage) -> None:
    """Run both side by side: the late master lets its worker go, the silent one's worker gives up."""
    told(stage, give_up=GIVE_UP, port=PORT)
    payload, python = payloads_of(stage, "gang.py"), image(stage, "python")
    jobs: list[Handle] = []
    for role, spec in (("held", held), ("unanswered", unanswered)):
        wanted = spec(f"{stage.name}-{role}", python, payload)
        jobs.append(stage.submit(stage.dialect.write(wanted), role=role))
    late, silent = jobs
    for job in jobs:
        if job.ok:
            stage.follow(job)
    if all(job.ok for job in jobs) and stage.wait(
        "all members exist", lambda live: len(live.pods_of(late)) == 3 and len(live.pods_of(silent)) == 2,
        budget="enqueue",
    ):  # fmt: skip
        gave_up, ended = finished(silent, 1), job_ended(late)
        stage.wait(
            "the worker of the silent master has given up and the job of the late master has ended",
            lambda live: gave_up(live) and ended(live),
            budget="run",
        )


waiting = Scenario(
    name="waiting",
    summary="workers held back for a late master on port 29500, and for one that never listens",
    run=run,
    needs=Needs(seconds=5, pods_run=True, permissions=PAYLOAD + LOGS),
)
