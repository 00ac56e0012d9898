"""The default scheduler's groups: held until they can be tried, tried as one unit, tried again after a while."""

import asyncio
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_gpucluster.embedded.feed import ADDED, DELETED
from pytest_gpucluster.embedded.fitting import ENDED, NodeRoom
from pytest_gpucluster.embedded.native import names
from pytest_gpucluster.embedded.native.gates import Gates
from pytest_gpucluster.embedded.native.plan import Plan, plan, plan_in_domain
from pytest_gpucluster.embedded.native.protection import group_of
from pytest_gpucluster.embedded.objects import Key, Obj, get_condition, namespace_of, set_condition, uid_of
from pytest_gpucluster.embedded.placing import NAME, Placer, waits_for
from pytest_gpucluster.embedded.runtime import Runtime

LONGEST_BACKOFF = 10
"""Largest back-off of a single pod, in periods (10 s in Kubernetes); that of a group is longer by the root of its size.
"""


@dataclass
class Queued:
    """A group with pods that wait.

    Attributes:
        turn: Where it stands among groups of its priority: the one that has waited longest comes first.
        members: Its waiting pods by uid, in the order in which they came.
        held: Whether it may not be tried: its PodGroup is missing, or has fewer pods than its minCount.
        failures: Trials in a row that failed.
        due: Time of the loop from which it may be tried.
    """

    turn: int
    members: dict[str, Obj] = field(default_factory=dict)
    held: bool = True
    failures: int = 0
    due: float = 0.0


class Groups:
    """The groups in the queue of the default scheduler. Where their gate is off there are none."""

    def __init__(self, runtime: Runtime, placer: Placer) -> None:
        """Schedule on a runtime's store; its scheduler period stands for the one second of Kubernetes."""
        self._store = runtime.store
        self._placer = placer
        self._on = Gates.of(runtime.config).groups
        self._period = runtime.scheduler_period
        self._has = runtime.has
        self._queue: dict[Key, Queued] = {}
        self._turns = itertools.count()

    @property
    def followed(self) -> list[str]:
        """Kinds to follow beside pods and nodes."""
        return [names.POD_GROUP] if self._on else []

    def note(self, kind: str, key: str, obj: Obj) -> bool:
        """Take in a change; True when it is about a PodGroup or about a pod that waits here."""
        if not self._on:
            return False
        if key == names.POD_GROUP:
            self._look_again((namespace_of(obj), obj["metadata"]["name"]))
            return True
        name = group_of(obj)
        if name is None:
            return False
        at = (namespace_of(obj), name)
        if kind == DELETED or not waits_for(obj, NAME):
            self._leave(at, uid_of(obj))
            if kind == ADDED:
                self._look_again(at)  # also a pod that has its node already makes the group more
            return False
        queued = self._queue.setdefault(at, Queued(next(self._turns)))
        new = uid_of(obj) not in queued.members
        queued.members[uid_of(obj)] = obj
        if new:
            self._look_again(at)
        return True

    def _leave(self, at: Key, uid: str) -> None:
        queued = self._queue.get(at)
        if queued is not None:
            queued.members.pop(uid, None)
            if not queued.members:
                del self._queue[at]

    def _look_again(self, at: Key) -> None:
        queued = self._queue.get(at)
        if queued is not None:
            queued.held = self._must_wait(at)

    def _pods(self, at: Key) -> list[Obj]:
        """Return the pods of a group that have not ended."""
        return self._store.peek_all(
            "Pod", at[0], lambda p: group_of(p) == at[1] and p.get("status", {}).get("phase") not in ENDED
        )

    def _must_wait(self, at: Key) -> bool:
        """Report whether a group may not be tried yet; nothing is said about that anywhere."""
        group = self._store.peek(names.POD_GROUP, *at)
        if group is None:
            return True
        pods = self._pods(at)
        gated = any(pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName") for pod in pods)
        return gated or len(pods) < self._minimum(group)

    def _minimum(self, group: Obj) -> int:
        gang = group["spec"]["schedulingPolicy"].get("gang")
        return 1 if gang is None or self._has("native.binds-partially") else int(gang["minCount"])

    def _domain(self, group: Obj) -> str:
        """Return the label of the level within one domain of which a group is to be placed, empty for anywhere."""
        asked = (group["spec"].get("schedulingConstraints") or {}).get("topology") or []
        return str(asked[0]["key"]) if asked and not self._has("native.ignores-topology") else ""

    def next_due(self) -> float | None:
        """Return the time of the loop at which a group is to be tried next, None when none is."""
        due = [q.due for q in self._queue.values() if not q.held and math.isfinite(q.due)]
        return min(due, default=None)

    def try_due(self, look_round: Callable[[], list[NodeRoom]]) -> None:
        """Try every group that is due, in their order; `look_round` returns the nodes with the room they have."""
        now = asyncio.get_running_loop().time()
        rooms: list[NodeRoom] | None = None
        while ready := [(at, q) for at, q in self._queue.items() if not q.held and q.due <= now]:
            rooms = look_round() if rooms is None else rooms
            at, queued = min(ready, key=lambda r: (-self._priority(r[0]), r[1].turn))
            self._try(at, queued, rooms, now)

    def _priority(self, at: Key) -> int:
        group = self._store.peek(names.POD_GROUP, *at)
        return int((group or {"spec": {}})["spec"].get("priority") or 0)

    def _try(self, at: Key, queued: Queued, rooms: list[NodeRoom], now: float) -> None:
        group = self._store.peek(names.POD_GROUP, *at)
        if group is None:
            queued.held = True
            return
        pods = [*queued.members.values()]
        minimum = self._minimum(group)
        there = [str(pod["spec"]["nodeName"]) for pod in self._pods(at) if pod["spec"].get("nodeName")]
        scheduled, key = len(there), self._domain(group)
        tried = _checked(group, pods) or (
            plan_in_domain(pods, rooms, key, minimum=minimum, there=there)
            if key
            else plan(pods, rooms, minimum=minimum, scheduled=scheduled)
        )
        queued.turn = next(self._turns)
        if tried.short is None:
            queued.failures = 0
            self._settle(at, tried, rooms, waiting=minimum - scheduled - 1)
        else:
            queued.failures += 1
            never = self._has("native.forgets-room")
            queued.due = math.inf if never else self._next_trial(now, queued.failures, len(pods))
            self._refuse(at, pods, tried)
        queued.held = self._must_wait(at)

    def _next_trial(self, now: float, failures: int, size: int) -> float:
        """Return when a refused group is tried again: the back-off doubles, and ends with the next whole period."""
        periods = min(2.0 ** (failures - 1), LONGEST_BACKOFF * math.sqrt(size))
        return (math.floor(now / self._period + periods) + 1) * self._period

    def _settle(self, at: Key, tried: Plan, rooms: list[NodeRoom], *, waiting: int) -> None:
        """Bind what fits; the first `waiting` pods have only a nominated node until the last of the quorum is bound."""
        self._tell(at, "True", names.SCHEDULED, "")
        by_name = {room.name: room for room in rooms}
        for pod, node in tried.places[: max(waiting, 0)]:
            self._placer.nominate(pod, node)
        for pod, node in tried.places[max(waiting, 0) :] + tried.places[: max(waiting, 0)]:
            if self._placer.bind(pod, node):
                by_name[node].place(pod)
            self._leave(at, uid_of(pod))
        for pod, text in tried.refusals:
            self._placer.refuse(pod, text)

    def _refuse(self, at: Key, pods: list[Obj], tried: Plan) -> None:
        if self._has("native.never-says"):
            return
        short = str(tried.short)
        reason = names.SCHEDULER_ERROR if tried.error else names.UNSCHEDULABLE
        own = {uid_of(pod): text for pod, text in tried.refusals}
        whole = short if tried.error else f"pod group is unschedulable, {short}"
        for pod in pods:
            self._placer.refuse(pod, own.get(uid_of(pod), whole), reason)
        self._tell(at, "False", reason, short)

    def _tell(self, at: Key, status: str, reason: str, message: str) -> None:
        """Write the condition of a group; once it is true it stays so, whatever becomes of the pods."""
        group = self._store.peek(names.POD_GROUP, *at)
        before = None if group is None else get_condition(group, names.INITIALLY_SCHEDULED)
        if before is not None and before["status"] == "True":
            return
        condition: Obj = {
            "type": names.INITIALLY_SCHEDULED,
            "status": status,
            "reason": reason,
            "message": message,
        }

        def change(obj: Obj) -> None:
            conditions = obj.setdefault("status", {}).setdefault("conditions", [])
            set_condition(conditions, condition, self._store.now())

        self._store.mutate(names.POD_GROUP, *at, change, subresource="status")


def _checked(group: Obj, pods: list[Obj]) -> Plan | None:
    """Return the refusal of a group whose pods have another priority than the group, None when all agree."""
    wanted = int(group["spec"].get("priority") or 0)
    for pod in pods:
        found = int(pod["spec"].get("priority") or 0)
        if found != wanted:
            rule = "all pods in a single pod group should have the same priority as the pod group's priority"
            return Plan(short=f"{rule}, got {found} and {wanted}", error=True)
    return None
