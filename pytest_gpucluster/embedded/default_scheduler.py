"""The default scheduler: one pod at a time, in the order of arrival, each on the emptiest node that fits.

Pods that belong to a group are left to `native.groups`.
"""

import asyncio

from pytest_gpucluster.embedded.feed import ADDED, DELETED, Subscription
from pytest_gpucluster.embedded.fitting import (
    ENDED,
    Amounts,
    Misfit,
    NodeRoom,
    misfit,
    preference,
    refusal_text,
    requests_of,
    rooms_of,
)
from pytest_gpucluster.embedded.native.groups import Groups
from pytest_gpucluster.embedded.objects import Obj, controller_of, namespace_of, uid_of
from pytest_gpucluster.embedded.placing import NAME, Placer, look, waits_for
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.plain.names import kind_key

GANG_AWARE = "default-scheduler.gang-aware"
FILLS_GPU_NODES = "default-scheduler.fills-gpu-nodes"


class DefaultScheduler:
    """Places the pods of `default-scheduler`."""

    def __init__(self, runtime: Runtime) -> None:
        """Schedule on the store of a runtime."""
        self._store = runtime.store
        self._placer = Placer(runtime.store)
        self._has = runtime.has
        self._groups = Groups(runtime, self._placer)
        self._alarm: asyncio.TimerHandle | None = None
        self._queue: dict[str, Obj] = {}
        self._told: dict[str, str] = {}

    async def run(self) -> None:
        """Follow pods and nodes until cancelled; new pods are tried at once, refused ones when room appears."""
        with self._store.subscribe(["Node", "Pod", *self._groups.followed]) as changes:
            while not changes.closed:
                await changes.wait()
                self._take_in(changes)
                self._groups.try_due(self._rooms)
                self._set_alarm(changes)

    def _take_in(self, changes: Subscription) -> None:
        fresh: list[str] = []
        room_appeared, gang_aware = False, self._has(GANG_AWARE)
        for kind, key, obj in changes.pending():
            if key == "Node":
                room_appeared = room_appeared or kind != DELETED
            elif not gang_aware and self._groups.note(kind, key, obj):
                continue
            elif key == "Pod" and self._enqueue(kind, obj):
                fresh.append(uid_of(obj))
            elif key == "Pod":
                room_appeared = room_appeared or _frees(kind, obj)
        # A pod that waits is tried again before those that have just come, as it came first.
        everyone = room_appeared or (gang_aware and bool(fresh))
        self._schedule(list(self._queue) if everyone else fresh)

    def _set_alarm(self, changes: Subscription) -> None:
        """Wake up when the back-off of a group ends."""
        if self._alarm is not None:
            self._alarm.cancel()
        due = self._groups.next_due()
        self._alarm = None if due is None else asyncio.get_running_loop().call_at(due, changes.nudge)

    def _rooms(self) -> list[NodeRoom]:
        return rooms_of(self._store.peek_all("Node"), self._store.peek_all("Pod"))

    def _enqueue(self, kind: str, pod: Obj) -> bool:
        """Take a pod in or out of the queue; True when it is new there."""
        uid = uid_of(pod)
        if kind == DELETED or not waits_for(pod, NAME):
            self._queue.pop(uid, None)
            self._told.pop(uid, None)
            return False
        new = uid not in self._queue
        self._queue[uid] = pod
        return new or kind == ADDED

    def _schedule(self, uids: list[str]) -> None:
        if not uids:
            return
        rooms = self._rooms()
        for uid in uids:
            pod = self._queue.get(uid)
            if pod is not None and not (self._has(GANG_AWARE) and self._held(pod, rooms)):
                self._place(pod, rooms)

    def _place(self, pod: Obj, rooms: list[NodeRoom]) -> None:
        if self._has(FILLS_GPU_NODES) and not _gpus(requests_of(pod)):
            pod = {**pod, "spec": {key: value for key, value in pod["spec"].items() if key != "affinity"}}
            rooms = [room for room in rooms if _gpus(room.allocatable)]
        best, misfits = look(pod, rooms)
        if best is None:
            self._refuse(pod, refusal_text(misfits))
        elif self._placer.bind(pod, best.name):
            best.place(pod)
            self._queue.pop(uid_of(pod), None)

    def _refuse(self, pod: Obj, text: str) -> None:
        """Tell why a pod is not placed, once per reason."""
        if self._told.get(uid_of(pod)) != text:
            self._told[uid_of(pod)] = text
            self._placer.refuse(pod, text)

    # -- the defect default-scheduler.gang-aware -----------------------------------------------------

    def _held(self, pod: Obj, rooms: list[NodeRoom]) -> bool:
        """Report whether the pods of this pod's owner cannot all be placed now."""
        owner = controller_of(pod)
        if owner is None:
            return False
        members = [
            p
            for p in self._store.peek_all("Pod", namespace_of(pod))
            if (controller_of(p) or {}).get("uid") == owner["uid"]
        ]
        waiting = [p for p in members if waits_for(p, NAME)]
        if len(members) < self._expected(owner, namespace_of(pod)):
            return True
        tried = [room.copy() for room in rooms]
        misfits: list[Misfit] = []
        for member in waiting:
            requests = requests_of(member)
            fitting = [r for r in tried if misfit(member, requests, r) is None]
            if not fitting:
                misfits = [m for m in (misfit(member, requests, r) for r in tried) if m is not None]
                break
            min(fitting, key=lambda r: preference(requests, r)).place(member)
        else:
            return False
        for member in waiting:
            self._refuse(member, refusal_text(misfits))
        return True

    def _expected(self, owner: Obj, namespace: str) -> int:
        """Return how many pods an owner will have."""
        key = kind_key(owner["apiVersion"], owner["kind"])
        job = self._store.peek(key, namespace, owner["name"]) if key in self._store.table else None
        if job is None:
            return 0
        spec = job["spec"]
        if key == "Job.batch":
            return min(int(spec.get("parallelism") or 1), int(spec.get("completions") or 1_000_000))
        return sum(int(task.get("replicas") or 0) for task in spec.get("tasks") or [])


def _gpus(amounts: Amounts) -> bool:
    """Report whether there are GPUs among what a pod asks for, or a node offers."""
    return any(amount for name, amount in amounts.items() if name.endswith("/gpu"))


def _frees(kind: str, pod: Obj) -> bool:
    """Report whether a change of a pod gives room back."""
    if not pod["spec"].get("nodeName"):
        return False
    return kind == DELETED or pod.get("status", {}).get("phase") in ENDED


def start(runtime: Runtime) -> None:
    """Run the default scheduler."""
    runtime.spawn(DefaultScheduler(runtime).run(), NAME)
