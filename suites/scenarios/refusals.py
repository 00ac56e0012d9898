"""Gangs that must be refused: larger than the cluster, and invalid ones."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.plain import schedulers
from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import all_bound
from pytest_gpucluster.scenario.programs import image, speaking
from pytest_gpucluster.workload import GangSpec, Role

from .common import HOLD, looked_at, told, volcano_only

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
        stage.wait("the control is bound", all_bound(control, 4), budget="bind")
        stage.delete(control)


def _seen(stage: Stage, gang: Handle) -> Callable[[Live], bool]:
    """Report whether the scheduler has looked at a gang; one that makes pods for it has, too."""
    looked = looked_at(stage, gang)
    volcano = stage.dialect.name == schedulers.VOLCANO
    return lambda live: looked(live) or (volcano and bool(live.pods_of(gang)))


def _gang(stage: Stage, name: str, resource: str, members: int) -> GangSpec:
    return GangSpec(
        name, roles=(Role("worker", members, HOLD),), resources={resource: 4}, image=image(stage, "python")
    )


def _min_above_replicas(job: Manifest) -> None:
    job["spec"]["minAvailable"] = 3


def _duplicate_task(job: Manifest) -> None:
    job["spec"]["tasks"].append(job["spec"]["tasks"][0])
    job["spec"]["minAvailable"] = 4


def _unknown_plugin(job: Manifest) -> None:
    job["spec"]["plugins"] = {"nosuch": []}


def _invalid_policy(job: Manifest) -> None:
    job["spec"]["policies"] = [{"event": "PodFailed", "action": "ExplodeJob"}]


def _mpi_without_master(job: Manifest) -> None:
    job["spec"]["plugins"] = {"mpi": ["--master=mpimaster", "--worker=worker"]}


INVALID: dict[str, Callable[[Manifest], None]] = {
    "min-available-above-replicas": _min_above_replicas,
    "duplicate-task": _duplicate_task,
    "unknown-plugin": _unknown_plugin,
    "invalid-policy": _invalid_policy,
    "mpi-without-master": _mpi_without_master,
}
"""Name of the case -> what is wrong with an otherwise valid Job of two workers."""


def run_invalid(stage: Stage) -> None:
    """Create each invalid Job for real, so that an accepted one shows what it would have made."""
    volcano_only(stage, "the invalid Jobs that must be rejected")
    told(stage, cases=sorted(INVALID))
    for case, spoil in INVALID.items():
        spec = GangSpec(
            f"{stage.name}-{case}",
            roles=(Role("worker", 2, HOLD),),
            resources={stage.profile.gpu_resource: 1},
            image=image(stage, "python"),
        )
        job = stage.dialect.write(spec)
        spoil(job)
        handle = stage.submit(job, role=f"case:{case}", case=case, expect_refusal=True)
        if handle.ok:
            stage.delete(handle)
    stage.window("after the refusals")


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
)
