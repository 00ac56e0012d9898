"""The actions allocate and backfill: which pod goes to which node, all of a gang or none."""

from collections.abc import Collection, Iterable

from pytest_gpucluster.embedded.volcano.amounts import Amounts, add
from pytest_gpucluster.embedded.volcano.scheduler import nodes, order
from pytest_gpucluster.embedded.volcano.scheduler.gates import Proportion
from pytest_gpucluster.embedded.volcano.scheduler.model import (
    Gang,
    NodeRoom,
    QueueShare,
    State,
    Task,
)


class Allocation:
    """Places the tasks of a session's gangs."""

    def __init__(
        self,
        rooms: list[NodeRoom],
        gangs: Iterable[Gang],
        proportion: Proportion,
        cluster: Amounts,
        placed: list[tuple[Task, str]],
        *,
        excluded: Collection[str] = (),
    ) -> None:
        """Take nodes, gangs and shares.

        Args:
            rooms: The nodes, by name.
            gangs: All gangs; those that have not passed enqueue are left alone.
            proportion: The queues and their shares.
            cluster: Total of the cluster.
            placed: Takes what is to be bound.
            excluded: Uids of gangs that are passed over (a defect).
        """
        self._rooms = rooms
        self._proportion = proportion
        self._cluster = cluster
        self._gangs = [
            gang
            for gang in gangs
            if gang.phase not in ("", "Pending") and gang.uid not in excluded and self._may(gang)
        ]
        self._placed = placed

    def _may(self, gang: Gang) -> bool:
        queue = self._proportion.queue_of(gang)
        if queue is None or not queue.is_open:
            return False
        return gang.is_valid() or not gang.is_judged

    def allocate(self) -> None:
        """Place gangs: the first of the queue with the smallest share, until nothing more can be placed.

        A gang that became ready, and every gang without the gang rule, takes its turn again for each
        further pod, so that such gangs are served alternately.
        """
        waiting = {
            gang.uid: (gang, [t for t in gang.in_state(State.PENDING) if not t.is_best_effort])
            for gang in self._gangs
        }
        while True:
            turns = [(g, tasks) for g, tasks in waiting.values() if tasks and not self._overused(g)]
            if not turns:
                return
            gang, tasks = min(turns, key=lambda turn: self._turn(turn[0]))
            if not self._try(gang, tasks):
                del waiting[gang.uid]

    def _turn(self, gang: Gang) -> tuple[object, ...]:
        return (*order.queue_key(self._queue(gang)), *order.gang_key(gang, self._cluster))

    def _queue(self, gang: Gang) -> QueueShare:
        queue = self._proportion.queue_of(gang)
        if queue is None:
            raise LookupError(gang.queue)
        return queue

    def _overused(self, gang: Gang) -> bool:
        return self._proportion.overused(self._queue(gang))

    def _try(self, gang: Gang, tasks: list[Task]) -> bool:
        """Place tasks until the gang is ready; take all back when it does not become ready.

        Args:
            gang: The gang.
            tasks: Its unplaced tasks; those that were tried are removed.

        Returns:
            Whether something was placed for good, so that the gang gets another turn.
        """
        attempt: list[Task] = []
        failed_roles: set[str] = set()
        queue = self._queue(gang)
        while tasks:
            task = tasks.pop(0)
            if not self._proportion.gives(queue, task.request):
                continue
            if task.role in failed_roles:
                task.refused = _skip_text(task)
                continue
            room, state, why = self._find(task)
            if room is None:
                task.refused = why
                failed_roles.add(task.role)
                if gang.is_judged and not gang.can_still_be_met(failed_roles):
                    break
                continue
            self._place(task, room, state, queue)
            attempt.append(task)
            if state is State.ALLOCATED and (not gang.is_judged or gang.is_ready()):
                self._commit(attempt)
                return True
        if gang.is_judged and not gang.is_ready({State.PIPELINED}):
            self._take_back(attempt, queue)
        if not gang.is_ready():
            gang.was_refused = True
        return False

    def _find(self, task: Task) -> tuple[NodeRoom | None, State, str]:
        reasons: list[str] = []
        now: list[NodeRoom] = []
        soon: list[NodeRoom] = []
        nominated = str((task.pod.get("status") or {}).get("nominatedNodeName") or "")
        kept = [r for r in self._rooms if r.name == nominated and not nodes.refusals(task, r, r.free_soon())]
        for room in kept or self._rooms:
            found = nodes.refusals(task, room, room.free_soon())
            reasons += found
            if not found:
                fits = not nodes.refusals(task, room, room.idle())
                (now if fits else soon).append(room)
        if now:
            return nodes.best(task, now), State.ALLOCATED, ""
        if soon:
            return nodes.best(task, soon), State.PIPELINED, ""
        return None, State.PENDING, nodes.no_node_text(reasons, len(self._rooms))

    def _place(self, task: Task, room: NodeRoom, state: State, queue: QueueShare) -> None:
        task.state, task.node = state, room.name
        _hold(room, task, state)
        add(queue.allocated, task.request)

    def _commit(self, attempt: list[Task]) -> None:
        for task in attempt:
            if task.state is State.ALLOCATED:
                task.state = State.BINDING
                self._placed.append((task, task.node))

    def _take_back(self, attempt: list[Task], queue: QueueShare) -> None:
        rooms = {room.name: room for room in self._rooms}
        for task in attempt:
            _hold(rooms[task.node], task, task.state, -1)
            add(queue.allocated, task.request, -1)
            task.offered, task.offered_node = task.state, task.node
            task.state, task.node = State.PENDING, ""

    def backfill(self) -> None:
        """Place tasks that ask for nothing, one by one and outside the gang rule.

        Also those that preempt pipelined before: they wait for nothing, so they give up their place and are looked at
        anew.
        """
        for gang in self._gangs:
            for task in [*gang.in_state(State.PENDING), *gang.in_state(State.PIPELINED)]:
                if not task.is_best_effort:
                    continue
                task.state, task.node = State.PENDING, ""
                room, state, why = self._find(task)
                if room is None:
                    task.refused = why
                    continue
                self._place(task, room, state, self._queue(gang))
                self._commit([task])


def _hold(room: NodeRoom, task: Task, state: State, times: int = 1) -> None:
    if state is State.PIPELINED:
        room.promise(task.request, times)
    else:
        room.take(task.request, times)


def _skip_text(task: Task) -> str:
    return f"Task {task.name} with role spec {task.role} has already predicated failed, skip"
