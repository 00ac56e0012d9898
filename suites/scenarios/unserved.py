"""A Job whose schedulerName nobody serves: what no scheduler looks at is no refusal."""

import dataclasses

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import all_bound, exist
from pytest_gpucluster.scenario.programs import image
from pytest_gpucluster.workload import GangSpec, Role, WorkloadError

from .common import HOLD, told

NOBODY = "gpucluster-nobody"
"""Name of a scheduler that does not exist. On a live cluster the real one cannot be stopped."""


def run(stage: Stage) -> None:
    """Submit the same small gang twice: to the declared scheduler, and to one that does not exist."""
    if not stage.dialect.places:
        raise WorkloadError(f"{stage.dialect.name} does not place the pods that it admits")
    told(stage, members=2, min_member=2, nobody=NOBODY)
    served, unserved = stage.dialect, dataclasses.replace(stage.dialect, scheduler=NOBODY)
    gangs = {
        role: stage.submit(
            dialect.write(
                GangSpec(
                    f"{stage.name}-{role}", roles=(Role("worker", 2, HOLD),), image=image(stage, "python")
                )
            ),
            role=role,
        )
        for role, dialect in (("subject", unserved), ("control", served))
    }
    if gangs["control"].ok:
        stage.wait("the control is bound", all_bound(gangs["control"], 2), budget="bind")
    if gangs["subject"].ok:
        stage.wait("all members exist", exist(gangs["subject"], 2), budget="enqueue")
        stage.window("unserved", last=True)


unserved = Scenario(
    name="unserved",
    summary="a gang for a scheduler that does not exist, beside the same gang for the declared one",
    run=run,
    needs=Needs(seconds=2, pods_run=False),
    rests=(names.POD_GROUP, names.NATIVE_POD_GROUP, "Event"),
)
