"""What a scheduling session works on: tasks, gangs, nodes and queues, taken from the store at its start."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from pytest_gpucluster.embedded.objects import (
    Obj,
    annotations_of,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.amounts import Amounts, add, amounts, pod_requests

IGNORED_PREFIXES = ("requests.", "limits.", "count/")
"""Keys of a PodGroup's minResources that speak of quota and that no gate compares."""


class State(Enum):
    """State of a task within a session; the values are the words of Volcano's messages."""

    PENDING = "Pending"
    ALLOCATED = "Allocated"
    PIPELINED = "Pipelined"
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


OCCUPYING = frozenset({State.ALLOCATED, State.BINDING, State.BOUND, State.RUNNING, State.RELEASING})
"""States in which a task takes room on its node."""
ALLOCATED_STATES = frozenset({State.ALLOCATED, State.BINDING, State.BOUND, State.RUNNING})
"""States that count as a queue's allocation."""
READY_STATES = ALLOCATED_STATES | {State.SUCCEEDED}
"""States in which a task counts towards its gang's minimum."""


@dataclass(eq=False)
class Task:
    """A pod as the scheduler sees it.

    Attributes:
        pod: The stored pod; not to be changed.
        request: What it asks for.
        state: Its state in this session.
        node: Name of its node, empty without one.
        offered: State that it had in an attempt that was discarded, None without one.
        offered_node: The node of that attempt.
        refused: Why no node takes it, empty when none was asked or one does.
        nominated: The node on which others are evicted for it, empty when none are.
    """

    pod: Obj
    request: Amounts
    state: State
    node: str
    offered: State | None = None
    offered_node: str = ""
    refused: str = ""
    nominated: str = ""

    @property
    def name(self) -> str:
        """Name of the pod."""
        return name_of(self.pod)

    @property
    def namespace(self) -> str:
        """Namespace of the pod."""
        return namespace_of(self.pod)

    @property
    def role(self) -> str:
        """Name of the Job's task that it belongs to."""
        return annotations_of(self.pod).get(names.TASK_SPEC, "")

    @property
    def is_best_effort(self) -> bool:
        """Whether it asks for nothing."""
        return not self.request


@dataclass(eq=False)
class Gang:
    """A PodGroup with its tasks.

    Attributes:
        group: The stored PodGroup; not to be changed.
        tasks: Its tasks, by name.
        priority: Value of its PriorityClass.
        phase: Its phase, as this session leaves it.
        is_judged: Whether the gang rule applies (not without the gang plugin).
        are_roles_judged: Whether the gang rule applies to each role too.
        is_promised: Whether what it was admitted for is set aside.
        was_refused: Whether this session refused it at a gate or found no place for it.
    """

    group: Obj
    tasks: list[Task]
    priority: int = 0
    phase: str = ""
    is_judged: bool = True
    are_roles_judged: bool = True
    is_promised: bool = True
    was_refused: bool = False

    @property
    def name(self) -> str:
        """Name of the PodGroup."""
        return name_of(self.group)

    @property
    def namespace(self) -> str:
        """Namespace of the PodGroup."""
        return namespace_of(self.group)

    @property
    def uid(self) -> str:
        """Uid of the PodGroup."""
        return uid_of(self.group)

    @property
    def queue(self) -> str:
        """Name of its queue."""
        return str(self.group["spec"].get("queue") or names.DEFAULT_QUEUE)

    @property
    def minimum(self) -> int:
        """Members without which none may start."""
        return int(self.group["spec"].get("minMember") or 0)

    @property
    def minimum_by_role(self) -> dict[str, int]:
        """Members of each role without which none may start."""
        return {k: int(v) for k, v in (self.group["spec"].get("minTaskMember") or {}).items()}

    @property
    def minimum_resources(self) -> Amounts | None:
        """What its minimum asks for, None when the PodGroup does not say."""
        stated = self.group["spec"].get("minResources")
        if stated is None:
            return None
        return {
            name: value
            for name, value in amounts(stated).items()
            if not name.startswith(IGNORED_PREFIXES) and name != "pods"
        }

    def count(self, *states: State) -> int:
        """Return the number of tasks in some states."""
        return sum(task.state in states for task in self.tasks)

    def in_state(self, *states: State) -> list[Task]:
        """Return the tasks in some states, by name."""
        return [task for task in self.tasks if task.state in states]

    def allocated(self) -> Amounts:
        """Return what its tasks have been given."""
        out: Amounts = {}
        for task in self.tasks:
            if task.state in ALLOCATED_STATES:
                add(out, task.request)
        return out

    def ready(self, also: Iterable[State] = ()) -> int:
        """Return how many tasks count towards the minimum: placed, succeeded, or asking for nothing."""
        states = READY_STATES | {*also}
        return sum(
            task.state in states or (task.state is State.PENDING and task.is_best_effort)
            for task in self.tasks
        )

    def is_ready(self, also: Iterable[State] = ()) -> bool:
        """Report whether the gang's minimums are met, in all and by role."""
        states = {*also}
        if self.ready(states) < self.minimum:
            return False
        by_role = self.minimum_by_role
        if not self.are_roles_judged or self.minimum < sum(by_role.values()):
            return True  # Volcano ignores the minimums of roles where the Job's own is lower
        return all(
            sum(
                task.state in READY_STATES | states or (task.state is State.PENDING and task.is_best_effort)
                for task in self.tasks
                if task.role == role
            )
            >= least
            for role, least in by_role.items()
        )

    def can_still_be_met(self, failed_roles: Collection[str]) -> bool:
        """Report whether looking at further tasks can lead anywhere once tasks of some roles found no place.

        Where it cannot, Volcano looks at none of them: they count as unschedulable, whatever room there is for them.
        """
        if self.minimum == len(self.tasks):
            return False
        by_role = self.minimum_by_role if self.are_roles_judged else {}
        if self.minimum < sum(by_role.values()):
            left = sum(task.state is State.PENDING and task.role not in failed_roles for task in self.tasks)
            return self.ready() + left >= self.minimum
        return all(
            sum(task.state in READY_STATES for task in self.tasks if task.role == role)
            >= by_role.get(role, 0)
            for role in failed_roles
        )

    def is_starving(self) -> bool:
        """Report whether it may take room from others: it lacks members of its minimum, and has pods without a place.

        Members by role do not matter here (Volcano v1.14.4).
        """
        placed = self.count(*READY_STATES, State.PIPELINED)
        lacks = placed < self.minimum or not self.is_judged
        return lacks and placed < len(self.tasks)

    def is_valid(self) -> bool:
        """Report whether enough pods exist that have neither failed nor are on their way out."""
        lost = self.count(State.FAILED, State.UNKNOWN, State.RELEASING)
        return len(self.tasks) - lost >= self.minimum


@dataclass(eq=False)
class NodeRoom:
    """A node and the room that is left on it."""

    node: Obj
    total: Amounts
    used: Amounts = field(default_factory=dict)
    releasing: Amounts = field(default_factory=dict)
    promised: Amounts = field(default_factory=dict)
    pods: int = 0

    @property
    def name(self) -> str:
        """Name of the node."""
        return name_of(self.node)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the node."""
        return labels_of(self.node)

    def idle(self) -> Amounts:
        """Return what is free now."""
        out = dict(self.total)
        add(out, self.used, -1)
        return out

    def free_soon(self) -> Amounts:
        """Return what is free once the pods that are ending are gone and those that wait for it have taken it."""
        out = self.idle()
        add(out, self.releasing)
        add(out, self.promised, -1)
        return out

    def take(self, request: Amounts, times: int = 1) -> None:
        """Put a request on the node, or take it off with `times=-1`."""
        add(self.used, request, times)
        self.pods += times

    def promise(self, request: Amounts, times: int = 1) -> None:
        """Promise what becomes free to a task that waits for it, or take the promise back with `times=-1`."""
        add(self.promised, request, times)

    def release(self, request: Amounts, times: int = 1) -> None:
        """Count a task as ending, or as not ending after all with `times=-1`."""
        add(self.releasing, request, times)


@dataclass(eq=False)
class QueueShare:
    """A queue: what it was given, what is reserved in it, and what it may have."""

    queue: Obj
    allocated: Amounts = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)
    reserved: Amounts = field(default_factory=dict)
    elastic: Amounts = field(default_factory=dict)
    may_have: Amounts = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    pods: int = 0

    @property
    def name(self) -> str:
        """Name of the queue."""
        return name_of(self.queue)

    @property
    def weight(self) -> int:
        """Weight against other queues."""
        return int(self.queue["spec"].get("weight") or 1)

    @property
    def is_open(self) -> bool:
        """Whether it takes new work."""
        return (self.queue.get("status") or {}).get("state") == "Open"

    @property
    def is_reclaimable(self) -> bool:
        """Whether other queues may take back what it has above its share."""
        return self.queue["spec"].get("reclaimable") is not False

    def share(self) -> Fraction:
        """Return the largest part of its deserved resources that it already has."""
        shares = [
            self.allocated.get(name, Fraction(0)) / value for name, value in self.deserved.items() if value
        ]
        return max(shares, default=Fraction(0))


def state_of(pod: Obj) -> State:
    """Return the state of a pod when a session opens."""
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    if phase in ("Running", "Pending") and is_deleting(pod):
        return State.RELEASING
    match phase:
        case "Running":
            return State.RUNNING
        case "Pending":
            return State.BOUND if pod["spec"].get("nodeName") else State.PENDING
        case "Succeeded":
            return State.SUCCEEDED
        case "Failed":
            return State.FAILED
    return State.UNKNOWN


def new_task(pod: Obj) -> Task:
    """Return the task of a pod."""
    spec = pod["spec"]
    return Task(pod, pod_requests(spec), state_of(pod), str(spec.get("nodeName") or ""))
