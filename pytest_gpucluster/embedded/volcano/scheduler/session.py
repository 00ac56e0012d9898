"""One scheduling session: a snapshot of the store, the actions in turn, and what it says at the end."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.objects import (
    Obj,
    annotations_of,
    get_condition,
    is_deleting,
    name_of,
    namespace_of,
    set_condition,
)
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.amounts import Amounts, add, amounts, lacking, show_all, total
from pytest_gpucluster.embedded.volcano.scheduler import conditions, order
from pytest_gpucluster.embedded.volcano.scheduler.allocate import Allocation
from pytest_gpucluster.embedded.volcano.scheduler.gates import Overcommit, Proportion
from pytest_gpucluster.embedded.volcano.scheduler.grudges import Grudges
from pytest_gpucluster.embedded.volcano.scheduler.model import (
    ALLOCATED_STATES,
    OCCUPYING,
    Gang,
    NodeRoom,
    QueueShare,
    State,
    Task,
    new_task,
)
from pytest_gpucluster.embedded.volcano.scheduler.settings import Settings
from pytest_gpucluster.embedded.volcano.scheduler.statement import Room
from pytest_gpucluster.embedded.volcano.scheduler.taking import Taking
from pytest_gpucluster.embedded.volcano.scheduler.victims import Voters

QUOTA_TEXT = "queue resource quota insufficient: insufficient "
OVERUSED_TEXT = "resource in cluster is overused: overused "
WAITING_PHASES = ("", "Pending")


@dataclass
class Snapshot:
    """What a session sees."""

    nodes: list[NodeRoom]
    gangs: list[Gang]
    queues: list[QueueShare]
    others: list[Task] = field(default_factory=list)
    cluster: Amounts = field(default_factory=dict)

    def used(self) -> Amounts:
        """Return what all pods use on all nodes."""
        return total(node.used for node in self.nodes)


def take_snapshot(
    store: Store,
    settings: Settings,
    *,
    without_gang_rule: bool = False,
    without_role_rule: bool = False,
    serves_any_name: bool = False,
) -> Snapshot:
    """Return nodes, gangs and queues as they are now.

    Pods of other schedulers count once they have a node; before, only those that name this scheduler do. A gang whose
    queue does not exist is ignored, as Volcano does: its PodGroup never gets a phase.

    Args:
        store: The store.
        settings: The configuration.
        without_gang_rule: Judge no gang (the scheduler runs without its gang plugin).
        without_role_rule: Judge gangs by their number of members only (a defect).
        serves_any_name: Take the pods of gangs whatever scheduler they name (a defect).
    """
    rooms = {name_of(n): _room(n) for n in store.peek_all("Node") if not is_deleting(n)}
    members: dict[tuple[str, str], list[Task]] = {}
    others: list[Task] = []
    for pod in store.peek_all("Pod"):
        task = new_task(pod)
        room = rooms.get(task.node)
        if room is not None and task.state in OCCUPYING:
            room.take(task.request)
            if task.state is State.RELEASING:
                room.release(task.request)
        group = annotations_of(pod).get(names.GROUP_NAME)
        if group is None:
            others.append(task)
        elif task.node or serves_any_name or pod["spec"].get("schedulerName") == names.SCHEDULER:
            members.setdefault((task.namespace, group), []).append(task)
    queues = [QueueShare(queue) for queue in store.peek_all(names.QUEUE)]
    known = {queue.name for queue in queues}
    gangs = [
        Gang(
            group=group,
            tasks=sorted(members.get((namespace_of(group), name_of(group)), []), key=order.task_key),
            priority=_priority(store, group) if settings.has("priority") else 0,
            phase=str((group.get("status") or {}).get("phase") or ""),
            is_judged=settings.has("gang") and not without_gang_rule,
            are_roles_judged=not without_role_rule,
        )
        for group in store.peek_all(names.POD_GROUP)
        if not is_deleting(group) and (group["spec"].get("queue") or names.DEFAULT_QUEUE) in known
    ]
    nodes = [rooms[name] for name in sorted(rooms)]
    return Snapshot(nodes, gangs, queues, others, total(node.total for node in nodes))


def _room(node: Obj) -> NodeRoom:
    status = node.get("status") or {}
    return NodeRoom(node, amounts(status.get("allocatable") or status.get("capacity")))


def _priority(store: Store, group: Obj) -> int:
    name = group["spec"].get("priorityClassName")
    found = store.peek("PriorityClass", None, name) if name else None
    return int((found or {}).get("value") or 0)


class Session:
    """One pass of the scheduler."""

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        has: Callable[[str], bool],
        grudges: Grudges,
        settings: Settings,
    ) -> None:
        """Take a snapshot.

        Args:
            store: The store.
            recorder: Where events are reported.
            has: Whether a named defect is on.
            grudges: What two of the defects remember between sessions.
            settings: The configuration.
        """
        self._store = store
        self._recorder = recorder
        self._grudges = grudges
        self._settings = settings
        self._has = has
        self._uid = str(uuid.uuid4())
        self.seen = take_snapshot(
            store,
            settings,
            without_gang_rule=has("gang.binds-partially"),
            without_role_rule=has("gang.ignores-task-minimum"),
            serves_any_name=has("scheduler.serves-any-name"),
        )
        if has("queue.ignores-priority"):
            for gang in self.seen.gangs:
                gang.priority = 0
        over_large = [gang for gang in self.seen.gangs if self._is_over_large(gang)]
        if has("refusal.silent"):
            self.seen.gangs = [gang for gang in self.seen.gangs if gang not in over_large]
        if has("refusal.binds-over-large"):
            for gang in over_large:
                gang.is_judged = gang.is_promised = False
        self._waved_through = {gang.uid for gang in over_large if has("refusal.binds-over-large")}
        self._overcommit = Overcommit(
            self.seen.cluster,
            self.seen.used(),
            self.seen.gangs,
            settings.overcommit_factor(),
            forgets=has("queue.forgets-promises"),
        )
        self._proportion = Proportion(
            self.seen.cluster,
            self.seen.queues,
            self.seen.gangs,
            is_enforced=settings.has("proportion"),
            ignores_capability=has("queue.ignores-capability"),
        )
        if has("refusal.reserves"):
            for gang in self.seen.gangs:
                if gang.phase == "Pending" and self._never_fits_its_queue(gang):
                    self._admit(gang)
        self._room = Room(self.seen.nodes, self.seen.gangs, self._proportion)
        self.placed: list[tuple[Task, str]] = []

    @property
    def evicted(self) -> list[tuple[Task, Gang, str]]:
        """Return the pods to evict, with their gangs and why."""
        return self._room.evicted

    def _never_fits_its_queue(self, gang: Gang) -> bool:
        queue = self._proportion.queue_of(gang)
        want = gang.minimum_resources or {}
        return queue is not None and bool(lacking(want, queue.may_have, want))

    def _is_over_large(self, gang: Gang) -> bool:
        want = gang.minimum_resources or {}
        return bool(lacking(want, self.seen.cluster, want))

    def run(self) -> None:
        """Run the actions of the configuration in turn, and write what was decided; see `placed` and `evicted`."""
        for action in self._settings.actions:
            match action:
                case "enqueue":
                    self._enqueue()
                case "allocate":
                    self._allocation().allocate()
                case "backfill":
                    self._allocation().backfill()
                case "preempt" if not self._has("preemption.never-takes"):
                    self._taking().preempt()
                case "reclaim" if not self._has("preemption.never-gives-back"):
                    self._taking().reclaim()
        for _, gang, why in self.evicted:
            self._recorder.event(gang.group, "Normal", "Evict", why)
        for gang in self.seen.gangs:
            self._close(gang)
        self._grudges.note(self.seen.gangs, self.seen.others)
        self._write_queues()

    def _allocation(self) -> Allocation:
        if "enqueue" not in self._settings.actions:
            for gang in self.seen.gangs:
                gang.phase = "Inqueue" if gang.phase in WAITING_PHASES else gang.phase
        return Allocation(
            self.seen.nodes, self.seen.gangs, self._proportion, self.seen.cluster, self.placed,
            excluded=self._grudges.uids,
        )  # fmt: skip

    def _taking(self) -> Taking:
        ignored = ("gang",) if self._has("preemption.ignores-minimum") else ()
        voters = Voters(self._settings, self._room, self.seen.cluster, ignored=ignored)
        return Taking(self._room, voters, self.seen.cluster)

    def _enqueue(self) -> None:
        waiting = [gang for gang in self.seen.gangs if gang.phase in WAITING_PHASES]
        while waiting:
            gang = min(waiting, key=self._enqueue_key)
            waiting.remove(gang)
            queue = self._proportion.queue_of(gang)
            why = "" if gang.uid in self._waved_through else self._refusal(gang)
            if why:
                gang.was_refused = True
                self._recorder.event(gang.group, "Normal", "Unschedulable", why)
            elif queue is not None and queue.is_open:
                gang.phase = "Inqueue"
                if gang.is_promised:
                    self._admit(gang)

    def _admit(self, gang: Gang) -> None:
        """Set aside what a gang asks for, at both gates."""
        self._overcommit.admit(gang)
        self._proportion.admit(gang)

    def _enqueue_key(self, gang: Gang) -> tuple[object, ...]:
        queue = self._proportion.queue_of(gang)
        first = order.queue_key(queue) if queue else ()
        return (*first, *order.gang_key(gang, self.seen.cluster))

    def _refusal(self, gang: Gang) -> str:
        """Return the text of the first gate that refuses a gang, empty when all let it pass.

        The gates of a tier that let it pass decide; those of later tiers are not asked.
        """
        if gang.minimum_resources is None:
            return ""
        gates = {"overcommit": self._beyond_cluster, "proportion": self._beyond_queue}
        for tier in self._settings.tiers_of(gates, "enableJobEnqueued"):
            for name in tier:
                why = gates[name](gang)
                if why:
                    return why
            if tier:
                return ""
        return ""

    def _beyond_cluster(self, gang: Gang) -> str:
        overused = self._overcommit.refuses(gang)
        return OVERUSED_TEXT + ", ".join(overused) if overused else ""

    def _beyond_queue(self, gang: Gang) -> str:
        queue = self._proportion.queue_of(gang)
        if queue is None or not queue.is_open:
            return ""  # a queue that is not open says nothing
        short = self._proportion.refuses(gang)
        return QUOTA_TEXT + ", ".join(short) if short else ""

    def _close(self, gang: Gang) -> None:
        fit = conditions.fit_text(gang)
        condition = conditions.new_condition(gang, fit, self._uid, self._store.now())
        old = gang.group.get("status") or {}
        new = conditions.next_status(gang, condition)
        if self._has("gang.never-reports-short") and conditions.falls_short(old, new):
            return
        changed = conditions.differs(old, new)
        if changed:
            self._store.mutate(
                names.POD_GROUP,
                gang.namespace,
                gang.name,
                lambda group: group.__setitem__("status", new),
            )
        if new["phase"] in conditions.HELD_PHASES:
            text = conditions.waiting_text(gang, fit)
            self._recorder.event(gang.group, "Warning", "Unschedulable", text)
        elif changed:
            self._recorder.event(gang.group, "Normal", "Scheduled", "pod group is ready")
        for task in gang.in_state(State.PENDING, State.PIPELINED, State.ALLOCATED):
            self._report_unplaced(task, fit)

    def _report_unplaced(self, task: Task, fit: str) -> None:
        reason, message = conditions.pod_verdict(task, fit)
        present = get_condition(task.pod, "PodScheduled") or {}
        nominated = str((task.pod.get("status") or {}).get("nominatedNodeName") or "")
        is_known = (present.get("reason"), present.get("message")) == (reason, message)
        if is_known and task.nominated in ("", nominated):
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "reason": reason,
            "message": message,
        }
        now = self._store.now()

        def write(pod: Obj) -> None:
            status = pod.setdefault("status", {})
            set_condition(status.setdefault("conditions", []), condition, now)
            if task.nominated:
                status["nominatedNodeName"] = task.nominated

        self._store.mutate("Pod", task.namespace, task.name, write, subresource="status")
        self._recorder.event(task.pod, "Warning", "FailedScheduling", message)

    def _write_queues(self) -> None:
        given: dict[str, Amounts] = {queue.name: {} for queue in self.seen.queues}
        for gang in self.seen.gangs:
            tasks = gang.in_state(*ALLOCATED_STATES)
            for name in (gang.queue, names.ROOT_QUEUE):
                if tasks and name in given:
                    add(given[name], gang.allocated())
                    add(given[name], {"pods": amounts({"pods": len(tasks)})["pods"]})
        for queue in self.seen.queues:
            allocated = {"cpu": "0", "memory": "0", **show_all(given[queue.name])}
            self._write_queue(queue, allocated)

    def _write_queue(self, queue: QueueShare, allocated: dict[str, str]) -> None:
        status = queue.queue.get("status") or {}
        if status.get("allocated") == allocated or not status.get("state"):
            return

        def write(obj: Obj) -> None:
            obj.setdefault("status", {}).update({"allocated": allocated, "reservation": {}})

        self._store.mutate(names.QUEUE, None, queue.name, write, subresource="status")
