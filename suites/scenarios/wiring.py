"""The pytorch plugin left out, or with names that do not match: what goes missing must be seen."""

from pytest_gpucluster.scenario import Handle, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import exist, finished
from pytest_gpucluster.scenario.programs import image, payloads_of
from pytest_gpucluster.workload import GangSpec, Role

from .common import LOGS, PAYLOAD, PayloadCommand, told

CASES: dict[str, dict[str, tuple[str, ...]]] = {
    "no-plugin": {},
    "wrong-master": {"pytorch": ("--master=chief", "--worker=worker")},
    "wrong-worker": {"pytorch": ("--master=master", "--worker=workers")},
}
"""Role of the Job -> its plugins."""


def run(stage: Stage) -> None:
    """Run one master and two workers for each case; each member only says what it sees."""
    told(stage, members=3, min_member=3, cases=sorted(CASES))
    payload = payloads_of(stage, "gang.py")
    jobs: list[Handle] = []
    for case, plugins in CASES.items():
        spec = GangSpec(
            f"{stage.name}-{case}",
            roles=(
                Role("master", 1, (*PayloadCommand, "env")),
                Role("worker", 2, (*PayloadCommand, "env")),
            ),
            resources={stage.profile.gpu_resource: 1},
            image=image(stage, "python"),
            plugins=plugins,
            payload=payload,
        )
        jobs.append(stage.submit(stage.dialect.write(spec), role=case))
    made = [job for job in jobs if job.ok]
    there, done = [exist(job, 3) for job in made], [finished(job, 3) for job in made]
    if stage.wait("all members exist", lambda live: all(each(live) for each in there), budget="enqueue"):
        stage.wait("all members have ended", lambda live: all(each(live) for each in done), budget="run")
    for job in made:
        stage.logs(job)


miswired = Scenario(
    name="miswired",
    summary="three Jobs whose pytorch plugin is absent or names tasks that do not exist",
    run=run,
    needs=Needs(gpus=9, seconds=5, gpu_seconds=18, permissions=PAYLOAD + LOGS),
)
