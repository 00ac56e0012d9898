"""What an action tries: evictions and promises that are kept together or taken back together."""

from collections.abc import Callable, Iterable

from pytest_gpucluster.embedded.volcano.amounts import add
from pytest_gpucluster.embedded.volcano.scheduler.gates import Proportion
from pytest_gpucluster.embedded.volcano.scheduler.model import Gang, NodeRoom, State, Task


class Room:
    """The nodes, gangs and queues on which actions work, with who belongs to whom.

    Attributes:
        nodes: The nodes, by name.
        gangs: All gangs.
        proportion: The queues and their shares.
        evicted: Tasks that are evicted, with their gangs and why.
    """

    def __init__(self, nodes: Iterable[NodeRoom], gangs: Iterable[Gang], proportion: Proportion) -> None:
        """Take what a session sees."""
        self.nodes = {node.name: node for node in nodes}
        self.gangs = list(gangs)
        self.proportion = proportion
        self.evicted: list[tuple[Task, Gang, str]] = []

    def on(self, node: NodeRoom) -> list[tuple[Task, Gang]]:
        """Return the members of gangs that hold room on a node, by gang and name."""
        return [(task, gang) for gang in self.gangs for task in gang.tasks if task.node == node.name]


class Statement:
    """A series of evictions and promises."""

    def __init__(self, room: Room) -> None:
        """Act on a room; nothing is done yet."""
        self._room = room
        self._undo: list[Callable[[], None]] = []
        self._evicted: list[tuple[Task, Gang, str]] = []

    def evict(self, task: Task, gang: Gang, why: str) -> None:
        """Count a task as ending."""
        before = task.state
        node, queue = self._room.nodes[task.node], self._room.proportion.queue_of(gang)
        task.state = State.RELEASING
        node.release(task.request)
        if queue is not None:
            add(queue.allocated, task.request, -1)

        def undo() -> None:
            task.state = before
            node.release(task.request, -1)
            if queue is not None:
                add(queue.allocated, task.request)

        self._undo.append(undo)
        self._evicted.append((task, gang, why))

    def promise(self, task: Task, gang: Gang, node: NodeRoom, *, evicted: bool) -> None:
        """Promise a task a place on a node; with `evicted`, one for which others are evicted."""
        queue = self._room.proportion.queue_of(gang)
        task.state, task.node = State.PIPELINED, node.name
        task.nominated = node.name if evicted else ""
        node.promise(task.request)
        if queue is not None:
            add(queue.allocated, task.request)

        def undo() -> None:
            task.offered, task.offered_node = State.PIPELINED, node.name
            task.state, task.node, task.nominated = State.PENDING, "", ""
            node.promise(task.request, -1)
            if queue is not None:
                add(queue.allocated, task.request, -1)

        self._undo.append(undo)

    def commit(self) -> None:
        """Keep what was done."""
        self._room.evicted += self._evicted
        self._undo, self._evicted = [], []

    def discard(self) -> None:
        """Take back what was done, last first."""
        for undo in reversed(self._undo):
            undo()
        self._undo, self._evicted = [], []
