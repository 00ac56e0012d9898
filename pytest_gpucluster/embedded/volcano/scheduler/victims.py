"""Which tasks may be evicted for another: what each plugin of the configuration says, tier by tier."""

from collections.abc import Callable, Iterable

from pytest_gpucluster.embedded.volcano.amounts import Amounts, add
from pytest_gpucluster.embedded.volcano.scheduler import order
from pytest_gpucluster.embedded.volcano.scheduler.model import READY_STATES, Gang, State, Task
from pytest_gpucluster.embedded.volcano.scheduler.settings import Settings
from pytest_gpucluster.embedded.volcano.scheduler.statement import Room

Member = tuple[Task, Gang]
Vote = Callable[[Member, list[Member]], list[Member]]
"""Takes who wants room and who might be evicted; returns who may be."""

CRITICAL = ("system-cluster-critical", "system-node-critical")


class Voters:
    """The plugins that say who may be evicted."""

    def __init__(
        self, settings: Settings, room: Room, cluster: Amounts, *, ignored: Iterable[str] = ()
    ) -> None:
        """Take the configuration and what the session sees.

        Args:
            settings: The configuration.
            room: The nodes, gangs and queues.
            cluster: Total of the cluster.
            ignored: Plugins whose vote is passed over (a defect).
        """
        self._room = room
        self._cluster = cluster
        left_out = set(ignored)
        preempt: dict[str, Vote] = {
            "priority": _lower_priority,
            "gang": _above_minimum,
            "conformance": _not_critical,
            "drf": self._larger_share,
        }
        reclaim: dict[str, Vote] = {
            "gang": _above_minimum,
            "conformance": _not_critical,
            "proportion": self._above_share,
        }
        self._preempt = [
            [preempt[name] for name in tier if name not in left_out]
            for tier in settings.tiers_of(preempt, "enablePreemptable")
        ]
        self._reclaim = [
            [reclaim[name] for name in tier if name not in left_out]
            for tier in settings.tiers_of(reclaim, "enableReclaimable")
        ]

    def preemptable(self, taker: Member, among: list[Member]) -> list[Member]:
        """Return who may be evicted for a task of the same queue, who goes first at the front."""
        return self._in_order(_decide(self._preempt, taker, among))

    def reclaimable(self, taker: Member, among: list[Member]) -> list[Member]:
        """Return who may be evicted for a task of another queue, who goes first at the front."""
        return self._in_order(_decide(self._reclaim, taker, among))

    def _in_order(self, chosen: list[Member]) -> list[Member]:
        """Sort: the queue, gang and task that would be served last goes first."""

        def key(member: Member) -> tuple[object, ...]:
            task, gang = member
            queue = self._room.proportion.queue_of(gang)
            of_queue = order.queue_key(queue) if queue else ()
            return (of_queue, order.gang_key(gang, self._cluster), order.task_key(task))

        return sorted(chosen, key=key, reverse=True)

    def _above_share(self, taker: Member, among: list[Member]) -> list[Member]:
        """Those whose queue has more than its share, until it has not (plugin proportion)."""
        del taker
        had: dict[str, Amounts] = {}
        chosen = []
        for task, gang in among:
            queue = self._room.proportion.queue_of(gang)
            if queue is None:
                continue
            left = had.setdefault(queue.name, dict(queue.allocated))
            if self._room.proportion.exceeds(left, queue.deserved):
                add(left, task.request, -1)
                chosen.append((task, gang))
        return chosen

    def _larger_share(self, taker: Member, among: list[Member]) -> list[Member]:
        """Those whose gang keeps no smaller share of the cluster than the taker's gets (plugin drf)."""
        task, gang = taker
        gets = gang.allocated()
        add(gets, task.request)
        wants = order.share_of(gets, self._cluster)
        left: dict[str, Amounts] = {}
        chosen = []
        for one, other in among:
            keeps = left.setdefault(other.uid, other.allocated())
            add(keeps, one.request, -1)
            if wants <= order.share_of(keeps, self._cluster):
                chosen.append((one, other))
        return chosen


def _decide(tiers: list[list[Vote]], taker: Member, among: list[Member]) -> list[Member]:
    """Return on whom the first tier agrees that leaves anybody.

    A tier in which one plugin spares everybody does not protect them: the next tier is asked as if it had not
    spoken (`Session.Preemptable` and `Reclaimable` of v1.14.4). That is how proportion in a later tier overrules
    gang in the first. And where plugins agree on nobody, though each names somebody, the next one of the tier begins
    anew. That is how conformance behind gang overrules it.
    """
    for tier in tiers:
        agreed: list[Member] | None = None
        for vote in tier:
            chosen = vote(taker, among)
            if not chosen:
                agreed = None
                break
            agreed = chosen if agreed is None else [member for member in agreed if member in chosen] or None
        if agreed is not None:
            return agreed
    return []


def _lower_priority(taker: Member, among: list[Member]) -> list[Member]:
    task, gang = taker
    return [
        (one, other)
        for one, other in among
        if (_priority(one) < _priority(task) if other is gang else other.priority < gang.priority)
    ]


def _priority(task: Task) -> int:
    return int(task.pod["spec"].get("priority") or 0)


def _above_minimum(taker: Member, among: list[Member]) -> list[Member]:
    """Those that their gang has above its minimum (plugin gang)."""
    del taker
    left: dict[str, int] = {}
    chosen = []
    for task, gang in among:
        placed = left.setdefault(gang.uid, gang.count(*READY_STATES))
        if placed > gang.minimum:
            left[gang.uid] = placed - 1
            chosen.append((task, gang))
    return chosen


def _not_critical(taker: Member, among: list[Member]) -> list[Member]:
    del taker
    return [
        (task, gang)
        for task, gang in among
        if task.pod["spec"].get("priorityClassName") not in CRITICAL and task.namespace != "kube-system"
    ]


def may_be_evicted(task: Task, *states: State) -> bool:
    """Report whether a task is in one of some states and not marked as one that must stay."""
    meta = task.pod["metadata"]
    marks = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    return task.state in states and str(marks.get("volcano.sh/preemptable", "true")).lower() != "false"
