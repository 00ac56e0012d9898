"""Gangs of every further scheduler that the profile declares, on slots: scarce, and two for the room of one.

The sizes are such that Volcano's gates at enqueue let them pass too (see `scarcity`), and that all of it goes onto one
set of nodes: three nodes of 8 hold three members of 5, or six of 3.
"""

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import NO_FURTHER, Needs, NotApplicable, Scenario, SlotPool, Stage, tried
from pytest_gpucluster.scenario.predicates import all_bound, bound, exist, phase
from pytest_gpucluster.scenario.programs import image
from pytest_gpucluster.workload import Dialect, GangSpec, Role, filler

from .common import FILLER, HOLD, told
from .scarcity import compete

NODES, PER_NODE = 3, 8
MEMBERS, SIZE = 3, 5
"""The scarce gang: one member a node."""
HELD = 4
"""Slots that the blocker holds on one node: no member has a place there."""
PAIR, PAIR_SIZE = 4, 3
"""Each of the two gangs: two members per node, four of six places."""


def run(stage: Stage) -> None:
    """Try the gangs of one scheduler after the other."""
    ways = tried(stage.profile)
    if not ways:
        raise NotApplicable(NO_FURTHER)
    spoken = [(way.title, stage.speaks(*way)) for way in ways]
    pool = stage.slots(nodes=NODES, per_node=PER_NODE)
    told(
        stage,
        schedulers=[way.title for way in ways],
        resource=pool.resource,
        currency="slots",
        total=pool.total,
    )
    for title, dialect in spoken:
        stage.note("tries", scheduler=title)
        _scarce(stage, title, dialect, pool)
        _pair(stage, title, dialect, pool)


def _gang(
    stage: Stage, title: str, role: str, spec: tuple[int, int, tuple[str, ...]], pool: SlotPool
) -> GangSpec:
    members, size, command = spec
    return GangSpec(
        f"{stage.name}-{title}-{role}",
        roles=(Role("worker", members, command),),
        resources={pool.resource: size},
        image=image(stage, "python"),
    )


def _scarce(stage: Stage, title: str, dialect: Dialect, pool: SlotPool) -> None:
    """Submit a gang of three where two fit, watch, make room, and let it run."""
    name = f"{stage.name}-{title}-blocker"
    blocker = stage.submit(
        filler(name, {pool.resource: HELD}, image(stage, "python"), HOLD), role=f"{title}:blocker"
    )
    stage.wait("the blocker is bound", lambda live: bound(live.pods_of(blocker)) == 1, budget="bind")
    stage.note("scarce", resource=pool.resource, total=pool.total, free=pool.total - HELD)
    wanted = _gang(stage, title, "scarce", (MEMBERS, SIZE, HOLD), pool)
    gang = stage.gang(wanted, role=f"{title}:subject", dialect=dialect)
    made = gang.ok and stage.wait("all members exist", exist(gang, MEMBERS), budget="enqueue")
    if made:
        stage.window("scarce")
    stage.delete(blocker, note="room-made", wait=False)
    if made and stage.wait("all members are bound", all_bound(gang, MEMBERS), budget="bind"):
        stage.wait(
            "all members run",
            lambda live: sum(phase(pod) == "Running" for pod in live.pods_of(gang)) == MEMBERS,
            budget="start",
        )
    if gang.ok:
        stage.delete(gang)


def _pair(stage: Stage, title: str, dialect: Dialect, pool: SlotPool) -> None:
    """Submit two gangs at once, each fits, not both; let the winner end and the loser run."""
    command = ("sleep", str(round(stage.profile.window_length() + 1.0, 1)))
    gangs = [
        stage.gang(
            _gang(stage, title, side, (PAIR, PAIR_SIZE, command), pool),
            role=f"{title}:{side}",
            dialect=dialect,
        )
        for side in ("left", "right")
    ]
    compete(stage, gangs)


further = Scenario(
    name="further",
    summary="for each further way to write a gang: a gang of 3 where 2 fit, and two gangs of 4 for the room of one",
    run=run,
    needs=Needs(
        slot_nodes=NODES,
        slots_per_node=PER_NODE,
        nodes=NODES,
        seconds=16,
        gang=False,
        further=True,
        permissions=FILLER,
    ),
    # A pod that names a PodGroup is placed by its minimum: whether the group was there must be known.
    rests=(names.POD_GROUP, names.NATIVE_POD_GROUP),
)
