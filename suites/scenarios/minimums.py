"""A gang that may start with fewer than all its members: which minimum holds it, in all and role by role.

One leader of 6 slots and four workers of 2, of which two suffice. minAvailable is left out, so that admission must
make it 1 + 2 = 3. The sizes are such that the gang passes the gates at enqueue (its minimum of 10 slots is there in
sum at any time) and meets the gang gate with two different shortages, one after the other:

| slots on the nodes | would fit | what must hold the gang |
| --- | --- | --- |
| 7 and 3 | leader and 1 worker | the Job's minimum: 2 of 3 |
| 5 and 5 | 4 workers, no leader | the role's minimum: the sum of 3 is there |
| 7 and 5 | leader and 2 workers | nothing: bound, while two surplus workers wait |
"""

from pytest_gpucluster.scenario import Handle, Needs, Scenario, SlotPool, Stage
from pytest_gpucluster.scenario.predicates import all_bound, exist
from pytest_gpucluster.scenario.programs import image
from pytest_gpucluster.workload import GangSpec, Role

from .common import HOLD, judged, refused, told

LEADER, WORKER = 6, 2
"""Slots of a member of each role."""
WORKERS, NEEDED = 4, 2
MINIMUM = 1 + NEEDED
FEW, NO_LEADER, ENOUGH = (7, 3), (5, 5), (7, 5)
"""Slots on the first and on the second node."""

ALIKE = 4
ALIKE_FEW, ALIKE_ENOUGH = (8, 3), (8, 4)
"""The same where roles are not gated: all members have one size, so that it does not matter who is tried first. First
two of the three fit that are needed, then three."""


def _spec(name: str, image: str, resource: str, *, by_role: bool) -> GangSpec:
    """Return the gang; only Volcano knows minimums of roles."""
    leader, worker = (LEADER, WORKER) if by_role else (ALIKE, ALIKE)
    needed = NEEDED if by_role else None
    return GangSpec(
        name,
        roles=(
            Role("leader", 1, HOLD, resources={resource: leader}),
            Role("worker", WORKERS, HOLD, min_available=needed, resources={resource: worker}),
        ),
        image=image,
        min_available=MINIMUM,
    )


def run(stage: Stage) -> None:
    """Let the gang wait for the Job's minimum, then for the leader's; then let it start without its surplus.

    If the scheduler has no API of its own, no role is gated and no minimum defaulted: the gang waits for its minimum.
    """
    own = stage.dialect.own_api
    spec = _spec(stage.name, image(stage, "python"), "", by_role=own)
    stage.dialect.write(spec)  # Whether it can be written at all, before nodes are touched.
    pool = stage.slots(nodes=2, per_node=FEW if own else ALIKE_FEW)
    told(
        stage,
        members=1 + WORKERS,
        min_member=MINIMUM,
        role_minimums={"leader": 1, "worker": NEEDED} if own else {},
        omitted=["minAvailable"] if own else [],
        resource=pool.resource,
        currency="slots",
        total=pool.total,
    )
    spec = _spec(stage.name, image(stage, "python"), pool.resource, by_role=own)
    gang = _without_minimum(stage, spec) if own else stage.gang(spec)
    if not gang.ok:
        return
    if stage.wait("all members exist", exist(gang, 1 + WORKERS), budget="enqueue"):
        stage.wait("two members would fit", judged(gang, 2), budget="enqueue")
        stage.window("fewer than the minimum fit")
        if own:
            pool = _resize(stage, pool, NO_LEADER)
            # Of the workers it may say nothing: Volcano looks at no further member once a task cannot have its minimum.
            stage.wait("no leader would fit", refused(gang, "leader"), budget="enqueue")
            stage.window("no leader fits")
        _resize(stage, pool, ENOUGH if own else ALIKE_ENOUGH)
        stage.wait("the minimum is bound", all_bound(gang, MINIMUM), budget="bind")
    stage.delete(gang)


def _without_minimum(stage: Stage, spec: GangSpec) -> Handle:
    """Submit the Job without minAvailable, which admission must fill in."""
    job = stage.dialect.write(spec)
    job["spec"]["minAvailable"] = MINIMUM - 1
    # Accepted without a word: that roles are not gated then is for a diagnosis to say.
    stage.submit(job, role="dry-run", dry_run=True, case="minimum-below-roles")
    del job["spec"]["minAvailable"]
    return stage.submit(job, role="subject")


def _resize(stage: Stage, pool: SlotPool, counts: tuple[int, int]) -> SlotPool:
    return stage.resize_slots(pool, dict(zip(pool.nodes, counts, strict=True)))


minimums = Scenario(
    name="minimums",
    summary="1 leader and 4 workers of which 2 suffice: too few fit, then no leader fits, then the minimum fits",
    run=run,
    needs=Needs(slot_nodes=2, slots_per_node=8, nodes=2, seconds=4, pods_run=False, mixed=True),
)
