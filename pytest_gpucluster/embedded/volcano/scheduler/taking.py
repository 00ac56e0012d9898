"""The actions preempt and reclaim: room for a gang from others of its queue, or from queues above their share."""

from collections.abc import Iterable, Iterator

from pytest_gpucluster.embedded.volcano.amounts import Amounts, add, lacking
from pytest_gpucluster.embedded.volcano.scheduler import nodes, order
from pytest_gpucluster.embedded.volcano.scheduler.model import Gang, NodeRoom, QueueShare, State, Task
from pytest_gpucluster.embedded.volcano.scheduler.statement import Room, Statement
from pytest_gpucluster.embedded.volcano.scheduler.victims import Member, Voters, may_be_evicted

PREEMPT, RECLAIM = "preempt", "reclaim"
WAITING_PHASES = ("", "Pending")


class Taking:
    """Evicts tasks for gangs that lack members of their minimum."""

    def __init__(self, room: Room, voters: Voters, cluster: Amounts) -> None:
        """Take what the session sees and who says who may be evicted."""
        self._room = room
        self._voters = voters
        self._cluster = cluster

    def preempt(self) -> None:
        """Take room from gangs of the same queue: first across gangs, then within each gang."""
        for _, gangs in self._starving():
            for gang in gangs:
                self._preempt_for(gang)
            for gang in gangs:
                self._within(gang)

    def _preempt_for(self, gang: Gang) -> None:
        """Evict for one gang until it has its minimum; take all back when it does not come to that."""
        statement = Statement(self._room)
        for task in _waiting(gang):
            if not gang.is_starving():
                break
            self._preempt(statement, (task, gang), across=True)
        self._end(statement, gang)

    def _within(self, gang: Gang) -> None:
        for task in _waiting(gang):
            statement = Statement(self._room)
            done = self._preempt(statement, (task, gang), across=False)
            statement.commit()
            if not done:
                return

    def _preempt(self, statement: Statement, taker: Member, *, across: bool) -> bool:
        """Evict for one task on the best node on which that helps; return whether it did."""
        task, gang = taker
        queue = self._room.proportion.queue_of(gang)
        if queue is None or _never_preempts(task):
            return False
        for node in nodes.ranked(task, self._takes(task)):
            among = [
                (one, other)
                for one, other in self._room.on(node)
                if may_be_evicted(one, State.BOUND, State.RUNNING)
                and (other is not gang if across else other is gang)
                and other.queue == gang.queue
                and not (task.is_best_effort and not one.is_best_effort)
            ]
            chosen = self._voters.preemptable(taker, among)
            if not _would_do(task, node, chosen):
                continue
            evicted = False
            for one, other in chosen:
                if self._fits(queue, task, node):
                    break
                statement.evict(one, other, PREEMPT)
                evicted = True
            if self._fits(queue, task, node):
                statement.promise(task, gang, node, evicted=evicted)
                return True
        return False

    def _fits(self, queue: QueueShare, task: Task, node: NodeRoom) -> bool:
        gives = self._room.proportion.gives(queue, task.request)
        return gives and not lacking(task.request, node.free_soon(), task.request)

    def reclaim(self) -> None:
        """Take room for queues below their share from queues above theirs."""
        for queue, gangs in self._starving():
            for gang in gangs:
                if self._room.proportion.overused(queue):
                    break
                statement = Statement(self._room)
                for task in _waiting(gang):
                    if not gang.is_starving():
                        break
                    if _never_preempts(task) or not self._room.proportion.gives(queue, task.request):
                        continue
                    self._reclaim(statement, (task, gang))
                self._end(statement, gang)

    def _reclaim(self, statement: Statement, taker: Member) -> None:
        task, gang = taker
        for node in self._takes(task):
            among = [
                (one, other)
                for one, other in self._room.on(node)
                if may_be_evicted(one, State.RUNNING) and self._is_foreign(other, gang)
            ]
            chosen = self._voters.reclaimable(taker, among) if among else []
            if not among or not _would_do(task, node, chosen):
                continue
            for one, other in chosen:
                statement.evict(one, other, RECLAIM)
                if not lacking(task.request, node.free_soon(), task.request):
                    break
            statement.promise(task, gang, node, evicted=bool(chosen))
            return

    def _is_foreign(self, other: Gang, gang: Gang) -> bool:
        queue = self._room.proportion.queue_of(other)
        return other.queue != gang.queue and queue is not None and queue.is_reclaimable

    def _takes(self, task: Task) -> list[NodeRoom]:
        """Return the nodes that would take a task if they were empty."""
        return [node for node in self._room.nodes.values() if not nodes.refusals(task, node, node.total)]

    def _starving(self) -> Iterator[tuple[QueueShare, list[Gang]]]:
        """Yield the queues that have starving gangs, and these, each in the order in which they are served."""
        found: dict[str, tuple[QueueShare, list[Gang]]] = {}
        for gang in self._room.gangs:
            queue = self._room.proportion.queue_of(gang)
            valid = gang.is_valid() or not gang.is_judged
            if queue is None or gang.phase in WAITING_PHASES or not valid or not gang.is_starving():
                continue
            found.setdefault(queue.name, (queue, []))[1].append(gang)
        for queue, gangs in sorted(found.values(), key=lambda each: order.queue_key(each[0])):
            yield queue, sorted(gangs, key=lambda gang: order.gang_key(gang, self._cluster))

    def _end(self, statement: Statement, gang: Gang) -> None:
        if not gang.is_judged or gang.is_ready({State.PIPELINED}):
            statement.commit()
        else:
            statement.discard()


def _waiting(gang: Gang) -> list[Task]:
    return sorted(gang.in_state(State.PENDING), key=order.task_key)


def _never_preempts(task: Task) -> bool:
    return bool(task.pod["spec"].get("preemptionPolicy") == "Never")


def _would_do(task: Task, node: NodeRoom, chosen: Iterable[Member]) -> bool:
    """Report whether a node has room for a task once all chosen ones are gone."""
    free = node.free_soon()
    for one, _ in chosen:
        add(free, one.request)
    return not lacking(task.request, free, task.request)
