"""The gates of enqueue: overcommit (the cluster) and proportion (the queue)."""

from collections.abc import Iterable
from fractions import Fraction

from pytest_gpucluster.embedded.volcano.amounts import (
    INFINITE,
    ZERO,
    Amounts,
    add,
    amounts,
    lacking,
    total,
)
from pytest_gpucluster.embedded.volcano.scheduler.model import Gang, QueueShare, State

OVERCOMMIT_FACTOR = Fraction(6, 5)
"""How much of the cluster may be promised (`overcommit-factor`, Volcano's default)."""


class Overcommit:
    """Refuses gangs beyond 1.2 x the cluster less what is used, counting what was promised already."""

    def __init__(
        self,
        cluster: Amounts,
        used: Amounts,
        gangs: Iterable[Gang],
        factor: Fraction = OVERCOMMIT_FACTOR,
        *,
        forgets: bool = False,
    ) -> None:
        """Take the cluster's total, what all pods use, the gangs, and how much of the cluster may be promised.

        `forgets` counts no promise (a defect).
        """
        self._forgets = forgets
        self._room = {name: value * factor for name, value in cluster.items()}
        add(self._room, used, -1)
        self._promised: Amounts = total(promised_to(gang) for gang in gangs)

    def refuses(self, gang: Gang) -> list[str]:
        """Return the resources for which a gang is refused."""
        want = gang.minimum_resources or {}
        return lacking(total([{} if self._forgets else self._promised, want]), self._room, want)

    def admit(self, gang: Gang) -> None:
        """Count a gang that was admitted."""
        add(self._promised, gang.minimum_resources or {})


class Proportion:
    """Refuses gangs beyond what their queue may have; shares the cluster between queues by weight."""

    def __init__(
        self,
        cluster: Amounts,
        queues: Iterable[QueueShare],
        gangs: Iterable[Gang],
        *,
        is_enforced: bool = True,
        ignores_capability: bool = False,
    ) -> None:
        """Take the cluster's total, the queues, and the gangs, whose amounts are added to their queues.

        Args:
            cluster: Total of the cluster.
            queues: The queues.
            gangs: All gangs.
            is_enforced: Whether the plugin is in force; else it only counts.
            ignores_capability: Leave the queues without a limit of their own (a defect).
        """
        self.is_enforced = is_enforced
        self._queues = {queue.name: queue for queue in queues}
        for gang in gangs:
            self._count(gang)
        guarantees = {name: _guarantee(queue) for name, queue in self._queues.items()}
        everyone = total(guarantees.values())
        for name, queue in self._queues.items():
            queue.may_have = dict(cluster)
            add(queue.may_have, everyone, -1)
            add(queue.may_have, guarantees[name])
            stated = {} if ignores_capability else amounts(queue.queue["spec"].get("capability"))
            for resource, limit in stated.items():
                queue.may_have[resource] = min(limit, queue.may_have.get(resource, ZERO))
        sharing = [queue for queue in self._queues.values() if queue.name != "root"]
        for resource in sorted({name for q in sharing for name in q.requested}):
            _share_out(resource, cluster.get(resource, ZERO), sharing)

    def queue_of(self, gang: Gang) -> QueueShare | None:
        """Return the queue of a gang, None when there is none."""
        return self._queues.get(gang.queue)

    def refuses(self, gang: Gang) -> list[str]:
        """Return the resources for which a gang is refused."""
        queue = self._queues[gang.queue]
        want = gang.minimum_resources or {}
        would = total([want, queue.allocated, queue.reserved])
        add(would, queue.elastic, -1)
        return lacking(would, queue.may_have, want)

    def admit(self, gang: Gang) -> None:
        """Count a gang that was admitted."""
        add(self._queues[gang.queue].reserved, gang.minimum_resources or {})

    def gives(self, queue: QueueShare, request: Amounts) -> bool:
        """Report whether a queue is open and its share covers one more task."""
        if not self.is_enforced:
            return True
        return queue.is_open and not lacking(total([queue.allocated, request]), queue.deserved, request)

    def overused(self, queue: QueueShare) -> bool:
        """Report whether a queue has all of its share."""
        return self.is_enforced and not self.exceeds(queue.deserved, queue.allocated)

    def exceeds(self, one: Amounts, other: Amounts) -> bool:
        """Report whether there is more of some resource in one amount than in another."""
        return bool(lacking(one, other, one))

    def _count(self, gang: Gang) -> None:
        queue = self._queues.get(gang.queue)
        if queue is None:
            return
        given = gang.allocated()
        add(queue.allocated, given)
        add(queue.requested, given)
        for task in gang.in_state(State.PENDING):
            add(queue.requested, task.request)
        add(queue.reserved, promised_to(gang))
        minimum = gang.minimum_resources
        if minimum is not None:
            add(queue.elastic, {k: max(v - minimum.get(k, ZERO), ZERO) for k, v in given.items()})


def promised_to(gang: Gang) -> Amounts:
    """Return what is set aside for a gang: its minimum while Inqueue, the rest of it while Running."""
    minimum = gang.minimum_resources
    if minimum is None or not gang.is_promised:
        return {}
    if gang.phase == "Inqueue":
        return minimum
    placed = gang.count(State.BINDING, State.BOUND, State.RUNNING, State.ALLOCATED)
    if gang.phase == "Running" and placed >= gang.minimum:
        given = gang.allocated()
        return {k: max(v - given.get(k, ZERO), ZERO) for k, v in minimum.items()}
    return {}


def _guarantee(queue: QueueShare) -> Amounts:
    return amounts((queue.queue["spec"].get("guarantee") or {}).get("resource"))


def _share_out(resource: str, there_is: Fraction, queues: list[QueueShare]) -> None:
    """Divide one resource between queues by weight, none getting more than it asks or may have."""
    limits = {
        q.name: min(q.requested.get(resource, ZERO), q.may_have.get(resource, INFINITE)) for q in queues
    }
    hungry = {q.name: q.weight for q in queues if limits[q.name] > 0}
    given = dict.fromkeys(limits, ZERO)
    left = there_is
    while hungry and left > 0:
        unit = left / sum(hungry.values())
        sated = [n for n, weight in hungry.items() if limits[n] - given[n] <= unit * weight]
        if not sated:
            for name, weight in hungry.items():
                given[name] += unit * weight
            break
        for name in sated:
            left -= limits[name] - given[name]
            given[name] = limits[name]
            del hungry[name]
    for queue in queues:
        queue.deserved[resource] = given[queue.name]
