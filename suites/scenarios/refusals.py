"""Gangs that must be refused: larger than the cluster, and invalid ones."""

import copy
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log.api_answers import CONTROL
from pytest_gpucluster.plain import names, schedulers
from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.programs import image, speaking
from pytest_gpucluster.workload import GangSpec, Role

from .common import HOLD, looked_at, own_api_only, placed, told

Manifest = dict[str, Any]


def run_over_large(stage: Stage) -> None:
    """Submit 5 x 4 of 16 slots and watch; then a control of 4 x 4 on the same queue, which must run."""
    slots = stage.slots(nodes=2, per_node=8)
    quota = stage.dialect.scarce == schedulers.QUOTA
    told(
        stage,
        members=5,
        min_member=5,
        resource=slots.resource,
        currency="quota" if quota else "slots",
        total=slots.total,
        size=4,
    )
    dialect = speaking(stage, {slots.resource: slots.total})
    gang = stage.gang(_gang(stage, stage.name, slots.resource, 5), dialect=dialect)
    if gang.ok:
        stage.wait(
            "the scheduler has looked at the gang",
            _seen(stage, gang),
            budget="enqueue",
        )
        stage.window("over-large")
        stage.delete(gang)
    wanted = _gang(stage, f"{stage.name}-control", slots.resource, 4)
    control = stage.gang(wanted, role="control", dialect=dialect)
    if control.ok:
        placed(stage, control, 4)
        stage.delete(control)


def _seen(stage: Stage, gang: Handle) -> Callable[[Live], bool]:
    """Report whether the scheduler has looked at a gang; one that makes pods for it has, too."""
    looked = looked_at(stage, gang)
    follow = stage.dialect.pods_follow
    return lambda live: looked(live) or (follow and bool(live.pods_of(gang)))


def _gang(stage: Stage, name: str, resource: str, members: int) -> GangSpec:
    return GangSpec(
        name, roles=(Role("worker", members, HOLD),), resources={resource: 4}, image=image(stage, "python")
    )


def _minimum(job: Manifest, *, wrong: bool) -> None:
    job["spec"]["minAvailable"] = 3 if wrong else 2


def _second_task(job: Manifest, *, wrong: bool) -> None:
    task = copy.deepcopy(job["spec"]["tasks"][0])
    task["name"] = task["name"] if wrong else "second"
    job["spec"]["tasks"].append(task)
    job["spec"]["minAvailable"] = 4


def _plugin(job: Manifest, *, wrong: bool) -> None:
    job["spec"]["plugins"] = {"nosuch" if wrong else "env": []}


def _policy(job: Manifest, *, wrong: bool) -> None:
    job["spec"]["policies"] = [{"event": "PodFailed", "action": "ExplodeJob" if wrong else "AbortJob"}]


def _mpi(job: Manifest, *, wrong: bool) -> None:
    job["spec"]["plugins"] = {"mpi": ["--master=mpimaster", "--worker=worker"]}
    if not wrong:
        job["spec"]["tasks"].append(
            {**copy.deepcopy(job["spec"]["tasks"][0]), "name": "mpimaster", "replicas": 1}
        )
        job["spec"]["minAvailable"] = 3


INVALID: dict[str, Callable[..., None]] = {
    "min-available-above-replicas": _minimum,
    "duplicate-task": _second_task,
    "unknown-plugin": _plugin,
    "invalid-policy": _policy,
    "mpi-without-master": _mpi,
}
"""Name of the case -> what makes a valid Job of two workers one of the case, with its one thing wrong or right."""


def run_invalid(stage: Stage) -> None:
    """Create each invalid Job for real, so that an accepted one shows what it would have made.

    Beside it the same Job, with the one wrong thing right, is tried dry: only then a refusal is one of that thing.
    """
    own_api_only(stage, "the invalid Jobs that must be rejected")
    told(stage, cases=sorted(INVALID))
    for case, shape in INVALID.items():
        spec = GangSpec(
            f"{stage.name}-{case}",
            roles=(Role("worker", 2, HOLD),),
            resources={stage.profile.gpu_resource: 1},
            image=image(stage, "python"),
        )
        wrong, right = stage.dialect.write(spec), stage.dialect.write(spec)
        shape(wrong, wrong=True)
        shape(right, wrong=False)
        handle = stage.submit(wrong, role=f"case:{case}", case=case, expect_refusal=True)
        if handle.ok:
            stage.delete(handle)
        stage.submit(right, role=f"case:{case}", dry_run=True, case=f"{CONTROL}{case}", expect_refusal=True)
    stage.window("after the refusals", last=True)


over_large = Scenario(
    name="over-large",
    summary="a gang of 20 slots of 16, then a control of 16",
    run=run_over_large,
    needs=Needs(slot_nodes=2, slots_per_node=8, nodes=2, seconds=4, pods_run=False),
)

invalid_jobs = Scenario(
    name="invalid",
    summary="Jobs that admission must reject",
    run=run_invalid,
    needs=Needs(seconds=2, pods_run=False),
    rests=(names.VC_JOB, names.POD_GROUP),
)
