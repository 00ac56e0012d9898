"""Gangs that compete by priority within a queue, and queues that compete by weight.

Every scenario has a queue of its own, so that no pod of anybody else can be evicted for ours. The sizes are such that
whoever is to be let in passes enqueue: at most a fifth of all slots at a time while all of them are held (overcommit),
and in one queue no more than what its gangs hold above their minimums (proportion). Recorded for Volcano v1.14.4: g4,
where that is not so and nothing is preempted, and g5, where it is.
"""

import dataclasses
from collections.abc import Callable

from pytest_gpucluster.evidence.objects import component_versions
from pytest_gpucluster.scenario import Handle, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import all_bound, bound, exist
from pytest_gpucluster.scenario.programs import image
from pytest_gpucluster.workload import GangSpec, Role, filler

from .common import FILLER, HOLD, own_api_only, told
from .inventory import namespace_of

HIGH = 1000
SLOTS = 20
"""On one node: four members of five, or ten of two."""

OWN = (
    "create queues.scheduling.volcano.sh", "delete queues.scheduling.volcano.sh",
    "create,delete,list,watch priorityclasses.scheduling.k8s.io",
)  # fmt: skip
READS = "get configmaps in {volcano}"


@dataclasses.dataclass(frozen=True)
class Wish:
    """A gang of one task.

    Attributes:
        members: how many pods.
        size: slots of each.
        minimum: members that must start together, None for all.
        priority: name of its priority class, "" for none.
    """

    members: int
    size: int
    minimum: int | None = None
    priority: str = ""


def _submit(stage: Stage, role: str, wish: Wish, *, resource: str, queue: str, name: str = "") -> Handle:
    spec = GangSpec(
        name or f"{stage.name}-{role}",
        roles=(Role("worker", wish.members, HOLD),),
        resources={resource: wish.size},
        min_available=wish.minimum,
        image=image(stage, "python"),
    )
    manifest = dataclasses.replace(stage.dialect, queue=queue).write(spec)
    if wish.priority:
        manifest["spec"]["priorityClassName"] = wish.priority
    return stage.submit(manifest, role=role)


def _configuration(stage: Stage) -> None:
    """Read the scheduler's configuration, where nothing was taken: whether it has the action decides the row."""
    space = namespace_of(stage, "volcano")
    stage.read(
        "v1",
        "ConfigMap",
        component_versions.SCHEDULER_CONFIG,
        case=component_versions.CONFIG,
        namespace=space,
    )


def run_priorities(stage: Stage) -> None:
    """Let priority decide who gets room that appears, then who gives room up, and how far."""
    own_api_only(stage, "priorities within a queue")
    slots = stage.slots(nodes=1, per_node=SLOTS)
    told(stage, resource=slots.resource, currency="slots", total=slots.total)
    queue, high = stage.queue(), stage.priority(HIGH)
    if not (queue.ok and high.ok):
        return

    def submit(role: str, wish: Wish) -> Handle:
        return _submit(stage, role, wish, resource=slots.resource, queue=queue.name)

    # Of gangs that came in the same second the one whose name is first would be served first, without priorities.
    elastic = _order(stage, slots.resource, submit, high.name)
    if elastic is None or not stage.wait("the elastic gang is bound", all_bound(elastic, 4), budget="bind"):
        return
    # One of its two members must start: the other is what this gang has above its minimum, which proportion counts.
    urgent = submit("urgent", Wish(2, 2, 1, high.name))
    if urgent.ok and stage.wait("the urgent gang is bound", all_bound(urgent, 2), budget="bind"):
        _tempt(stage, submit("tempted", Wish(1, 3, priority=high.name)))
    else:
        _configuration(stage)


def _order(stage: Stage, resource: str, submit: Callable[[str, Wish], Handle], high: str) -> Handle | None:
    """Let a gang of no priority wait, then one of high priority; make room for one of them, and then for the other.

    Returns:
        The gang of no priority, None when it was refused.
    """
    fill = filler(f"{stage.name}-blocker", {resource: SLOTS}, image(stage, "python"), HOLD)
    blocker = stage.submit(fill, role="blocker")
    stage.wait("the blocker is bound", all_bound(blocker, 1), budget="bind")
    elastic, late = submit("elastic", Wish(4, 5, 3)), submit("late", Wish(3, 5, priority=high))
    both = [gang for gang in (elastic, late) if gang.ok]
    if len(both) == 2:
        stage.window("both wait")
    stage.delete(blocker, note="room-made", wait=False)
    if len(both) < 2:
        return elastic if elastic.ok else None
    if stage.wait("one gang is bound", lambda live: any(all_bound(g, 3)(live) for g in both), budget="bind"):
        stage.window("one has the room")
    stage.delete(late, note="room-made", wait=False)
    return elastic


def _tempt(stage: Stage, tempted: Handle) -> None:
    """Watch a gang want what could only be taken below another's minimum."""
    if not tempted.ok:
        return
    if stage.wait("its member exists", exist(tempted, 1), budget="enqueue"):
        stage.window("nothing more to take", last=True)


LENT, MEMBERS, SIZE = 10, 2, 2
"""Members of the borrower that fit; members of each of the lender's gangs; slots of every member."""
GANGS = 4
"""Gangs of the lender: three fill its three quarters of twenty as far as whole gangs can, the fourth keeps wanting."""


def run_fair_share(stage: Stage) -> None:
    """Let a queue of weight 1 borrow all; then let one of weight 3 ask for its share, gang by gang."""
    own_api_only(stage, "shares of queues by weight")
    slots = stage.slots(nodes=1, per_node=SLOTS)
    told(stage, resource=slots.resource, currency="slots", total=slots.total)
    small, large = stage.queue("small", weight=1), stage.queue("large", weight=3)
    if not (small.ok and large.ok):
        return
    # Two members more than fit: it goes on wanting while the other does.
    wish = Wish(LENT + 2, SIZE, MEMBERS)
    borrower = _submit(stage, "borrower", wish, resource=slots.resource, queue=small.name)
    if not borrower.ok or not stage.wait("everything is borrowed", all_bound(borrower, LENT), budget="bind"):
        return
    lender = [
        _submit(
            stage, "lender", Wish(MEMBERS, SIZE), resource=slots.resource, queue=large.name,
            name=f"{stage.name}-lender-{index}",
        )
        for index in range(GANGS)
    ]  # fmt: skip
    due = (GANGS - 1) * MEMBERS
    back = stage.wait(
        "the lender has its share back",
        lambda live: (
            sum(bound(live.pods_of(gang)) for gang in lender) >= due
            and bound(live.pods_of(borrower)) <= SLOTS // SIZE - due
        ),
        budget="finish",
    )
    stage.window("both want more", last=back)
    if not back:
        _configuration(stage)


priorities = Scenario(
    name="priorities",
    summary="a gang of no priority and urgent ones of its queue: who gets room that appears, and who gives room up",
    run=run_priorities,
    needs=Needs(
        slot_nodes=1, slots_per_node=SLOTS, seconds=4, pods_run=False, permissions=(*OWN, *FILLER, READS)
    ),
)

fair_share = Scenario(
    name="fair-share",
    summary="a queue of weight 1 borrows everything, one of weight 3 wants its share back",
    run=run_fair_share,
    needs=Needs(
        slot_nodes=1,
        slots_per_node=SLOTS,
        seconds=4,
        pods_run=False,
        # Reclaim may take from any queue that has more than its share, ours or not.
        alone=True,
        permissions=(*OWN[:2], READS),
    ),
)
