"""The default scheduler: one pod at a time, in the order of arrival, each on the emptiest node that fits."""

from pytest_gpucluster.embedded.binding import bind
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.feed import ADDED, DELETED
from pytest_gpucluster.embedded.fitting import (
    ENDED,
    Misfit,
    NodeRoom,
    misfit,
    preference,
    refusal_text,
    requests_of,
    rooms_of,
)
from pytest_gpucluster.embedded.objects import (
    Obj,
    controller_of,
    get_condition,
    is_deleting,
    name_of,
    namespace_of,
    set_condition,
    uid_of,
)
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.plain.names import kind_key

NAME = "default-scheduler"
GANG_AWARE = "default-scheduler.gang-aware"


def waits_for(pod: Obj, scheduler: str) -> bool:
    """Report whether a pod is a scheduler's to place."""
    spec = pod["spec"]
    return (
        spec.get("schedulerName") == scheduler
        and not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and not is_deleting(pod)
        and pod.get("status", {}).get("phase") not in ENDED
    )


class DefaultScheduler:
    """Places the pods of `default-scheduler`."""

    def __init__(self, runtime: Runtime) -> None:
        """Schedule on the store of a runtime."""
        self._store = runtime.store
        self._events = Recorder(runtime.store, NAME, legacy=False)
        self._gang_aware = runtime.has(GANG_AWARE)
        self._queue: dict[str, Obj] = {}
        self._told: dict[str, str] = {}

    async def run(self) -> None:
        """Follow pods and nodes until cancelled; new pods are tried at once, refused ones when room appears."""
        with self._store.subscribe(["Node", "Pod"]) as changes:
            while batch := await changes.batch():
                fresh: list[str] = []
                room_appeared = False
                for kind, key, obj in batch:
                    if key == "Node":
                        room_appeared = room_appeared or kind != DELETED
                    elif self._enqueue(kind, obj):
                        fresh.append(uid_of(obj))
                    else:
                        room_appeared = room_appeared or _frees(kind, obj)
                # A pod that waits is tried again before those that have just come, as it came first.
                everyone = room_appeared or (self._gang_aware and bool(fresh))
                self._schedule(list(self._queue) if everyone else fresh)

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
        rooms = rooms_of(self._store.peek_all("Node"), self._store.peek_all("Pod"))
        for uid in uids:
            pod = self._queue.get(uid)
            if pod is not None and not (self._gang_aware and self._held(pod, rooms)):
                self._place(pod, rooms)

    def _place(self, pod: Obj, rooms: list[NodeRoom]) -> None:
        requests = requests_of(pod)
        misfits: list[Misfit] = []
        fitting: list[NodeRoom] = []
        for room in rooms:
            why = misfit(pod, requests, room)
            if why is None:
                fitting.append(room)
            else:
                misfits.append(why)
        if not fitting:
            self._refuse(pod, refusal_text(misfits))
            return
        best = min(fitting, key=lambda r: preference(requests, r))
        try:
            bound = bind(self._store, namespace_of(pod), name_of(pod), best.name, uid=uid_of(pod))
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            return  # it was deleted or bound by someone else; the watch will say so
        best.take(requests)
        self._queue.pop(uid_of(pod), None)
        text = f"Successfully assigned {namespace_of(pod)}/{name_of(pod)} to {best.name}"
        self._events.event(
            {**bound, "metadata": pod["metadata"]}, "Normal", "Scheduled", text, action="Binding"
        )

    def _refuse(self, pod: Obj, text: str) -> None:
        """Tell why a pod is not placed: a condition and an event, once per reason."""
        uid = uid_of(pod)
        if self._told.get(uid) == text:
            return
        self._told[uid] = text
        condition: Obj = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": text,
            "lastProbeTime": None,
            "observedGeneration": pod["metadata"].get("generation", 1),
        }

        def change(obj: Obj) -> None:
            conditions = obj.setdefault("status", {}).setdefault("conditions", [])
            set_condition(conditions, condition, self._store.now())

        if get_condition(pod, "PodScheduled") != condition:
            self._store.mutate("Pod", namespace_of(pod), name_of(pod), change, subresource="status")
        self._events.event(pod, "Warning", "FailedScheduling", text)

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
            min(fitting, key=lambda r: preference(requests, r)).take(requests)
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


def _frees(kind: str, pod: Obj) -> bool:
    """Report whether a change of a pod gives room back."""
    if not pod["spec"].get("nodeName"):
        return False
    return kind == DELETED or pod.get("status", {}).get("phase") in ENDED


def start(runtime: Runtime) -> None:
    """Run the default scheduler."""
    runtime.spawn(DefaultScheduler(runtime).run(), NAME)
