"""A running gang loses a member and the slot under it; later the slot comes back."""

from collections.abc import Callable

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import all_bound, bound, phase
from pytest_gpucluster.scenario.programs import image, speaking
from pytest_gpucluster.workload import GangSpec, Role

from .common import HOLD, HOLD_UNFINISHED, answers, told

PER_NODE = 8
MEMBERS = 4
SIZE = 4
"""Slots of each member: with 7 left on a node, one of its two members has no place."""


def run(stage: Stage) -> None:
    """Take a slot away, delete the member on it, watch what the gang's object says, give the slot back."""
    pool = stage.slots(nodes=2, per_node=PER_NODE)
    told(
        stage, members=MEMBERS, min_member=MEMBERS, resource=pool.resource, currency="slots", total=pool.total
    )
    command = HOLD_UNFINISHED if stage.dialect.kind == names.BATCH_JOB else HOLD
    spec = GangSpec(
        stage.name,
        roles=(Role("worker", MEMBERS, command),),
        resources={pool.resource: SIZE},
        image=image(stage, "python"),
        # A batch Job makes a lost member again only so often.
        max_retry=3,
    )
    gang = stage.gang(spec, dialect=speaking(stage, {pool.resource: pool.total}))
    if not gang.ok:
        return
    if stage.wait("all members are bound", all_bound(gang, MEMBERS), budget="bind") and stage.wait(
        "the gang runs, and its object says so", _runs(stage, gang), budget="start"
    ):
        member = min(stage.live.pods_of(gang), key=lambda pod: pod["metadata"]["name"])
        node, uid = member["spec"]["nodeName"], member["metadata"]["uid"]
        pool = stage.resize_slots(pool, {node: PER_NODE - 1})
        stage.remove_pod(member)
        # Whether it is made again at once is not asked: where its gang counts as Pending it waits for its slot.
        stage.wait("the lost member is gone", lambda live: live.by_uid(uid) is None, budget="delete")
        stage.window("short of a member", unless=lambda live: bound(live.pods_of(gang)) == MEMBERS)
        stage.resize_slots(pool, {node: PER_NODE})
        stage.wait("the gang is whole again", all_bound(gang, MEMBERS), budget="bind")


def _runs(stage: Stage, gang: Handle) -> Callable[[Live], bool]:
    """Report whether the scheduler says that the gang runs, if it ever does, and every member does, if pods run."""
    pods_run = "pods-run" in stage.cluster.features
    dialect = stage.dialect

    def check(live: Live) -> bool:
        said = any(dialect.runs(obj) for obj in answers(live, gang, dialect))
        return said and not (pods_run and any(phase(pod) != "Running" for pod in live.pods_of(gang)))

    return check


lost_slot = Scenario(
    name="lost",
    summary="a gang of 4 loses a member and its slot, waits for it, and gets the slot back",
    run=run,
    needs=Needs(
        slot_nodes=2,
        slots_per_node=PER_NODE,
        nodes=2,
        seconds=4,
        pods_run=False,
        permissions=("delete pods",),
    ),
    rests=(names.POD_GROUP, names.NATIVE_POD_GROUP),
)
