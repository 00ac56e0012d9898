"""Two Jobs that name two schedulers: the Job one and a task template another, and the reverse."""

from typing import Any

from pytest_gpucluster.scenario import Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import exist
from pytest_gpucluster.scenario.programs import image
from pytest_gpucluster.workload import GangSpec, Role

from .common import HOLD, own_api_only, told

OTHER = "default-scheduler"

FIELDS = {
    "in-template": "spec.tasks[1].template.spec.schedulerName",
    "on-job": "spec.schedulerName",
}
"""Role of the Job -> the field that is at fault."""


def _misnamed(job: dict[str, Any], role: str) -> dict[str, Any]:
    """Let one field name another scheduler than the declared one."""
    tasks = job["spec"]["tasks"]
    if role == "in-template":
        tasks[1]["template"]["spec"]["schedulerName"] = OTHER
    else:
        job["spec"]["schedulerName"] = OTHER
        # Left out here, so that the pods of this task get the Job's; the other template keeps the right name.
        del tasks[1]["template"]["spec"]["schedulerName"]
    return job


def run(stage: Stage) -> None:
    """Create both and wait for their pods: these show whom each name went to."""
    own_api_only(stage, "Jobs that name their scheduler in two places")
    told(stage, cases=FIELDS)
    jobs = []
    for role in FIELDS:
        spec = GangSpec(
            f"{stage.name}-{role}",
            roles=(Role("leader", 1, HOLD), Role("worker", 1, HOLD)),
            image=image(stage, "python"),
        )
        jobs.append(stage.submit(_misnamed(stage.dialect.write(spec), role), role=role))
    made = [job for job in jobs if job.ok]
    there = [exist(job, 2) for job in made]
    stage.wait("the members of both exist", lambda live: all(each(live) for each in there), budget="enqueue")


misnamed = Scenario(
    name="misnamed",
    summary="a Job whose task template names another scheduler than the Job, and the reverse",
    run=run,
    needs=Needs(seconds=2, pods_run=False),
)
