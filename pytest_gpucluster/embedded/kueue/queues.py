"""The controllers of ClusterQueues, LocalQueues and ResourceFlavors: their conditions, counters and finalizers."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.embedded.kueue import checks, conditions, lookup, names
from pytest_gpucluster.embedded.kueue.amounts import show
from pytest_gpucluster.embedded.kueue.quota import Limit, Queue, Usage
from pytest_gpucluster.embedded.kueue.schema import normalize
from pytest_gpucluster.embedded.kueue.settings import Settings
from pytest_gpucluster.embedded.kueue.workloads import usage_of
from pytest_gpucluster.embedded.objects import Obj, is_deleting, name_of, namespace_of, set_condition
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.plain.copies import clone

if TYPE_CHECKING:
    from pytest_gpucluster.embedded.feed import Subscription

READY = ("Ready", "Can admit new workloads")
LOCAL_READY = ("Ready", "Can submit new workloads to localQueue")
LOCAL_INACTIVE = ("ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
LOCAL_ORPHAN = ("ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue")
LOCAL_STOPPED = ("Stopped", "LocalQueue is stopped")


class QueueController:
    """Writes the status of queues: at once when a queue changes, after the batch period when Workloads do."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        """Work on a runtime's store."""
        self._store = runtime.store
        self._batch = settings.batch
        self._has = runtime.has
        self._timer: asyncio.TimerHandle | None = None
        self._due = False
        self._changes: Subscription | None = None

    async def run(self) -> None:
        """Follow Kueue's objects until cancelled."""
        watched = [
            names.CLUSTER_QUEUE, names.LOCAL_QUEUE, names.FLAVOR, names.ADMISSION_CHECK, names.WORKLOAD,
            names.TOPOLOGY,
        ]  # fmt: skip
        with self._store.subscribe(watched) as changes:
            self._changes = changes
            while not changes.closed:
                await changes.wait()
                seen = {key for _, key, _ in changes.pending()}
                if names.WORKLOAD in seen:
                    self._later()
                if seen - {names.WORKLOAD} or self._due:
                    self._due = False
                    self._sync()

    def _later(self) -> None:
        if self._timer is not None:
            return

        def ring() -> None:
            self._timer, self._due = None, True
            if self._changes is not None:
                self._changes.nudge()

        self._timer = asyncio.get_running_loop().call_later(self._batch, ring)

    def _sync(self) -> None:
        # A LocalQueue is looked at before its ClusterQueue has said that it is active, as recorded.
        for queue in self._store.list(names.LOCAL_QUEUE):
            self._sync_local(queue)
        for queue in self._store.list(names.CLUSTER_QUEUE):
            self._sync_cluster(queue)
        self._sync_flavors()

    def _sync_cluster(self, queue: Obj) -> None:
        name = name_of(queue)
        holding = list(lookup.holders(self._store, name))
        if is_deleting(queue) and not holding:
            self._finalize(names.CLUSTER_QUEUE, queue, wanted=False)
            return
        self._finalize(names.CLUSTER_QUEUE, queue, wanted=True)
        why = lookup.why_inactive(self._store, queue)
        if self._has("kueue.ignores-stop") and why is not None and why[0] == "Stopped":
            why = None
        read = Queue.of(queue)

        def write(obj: Obj) -> None:
            status = obj.setdefault("status", {})
            status |= _counts(read, holding, borrowed=True)
            status["pendingWorkloads"] = self._pending(lambda local: local["spec"]["clusterQueue"] == name)
            _activate(obj, why or READY, active=why is None, now=self._store.now())

        self._store.mutate(names.CLUSTER_QUEUE, None, name, write, subresource="status")

    def _sync_local(self, queue: Obj) -> None:
        place = (namespace_of(queue), name_of(queue))
        behind = self._store.peek(names.CLUSTER_QUEUE, None, queue["spec"]["clusterQueue"])
        if lookup.is_stopped(queue):
            why, active = LOCAL_STOPPED, False
        elif behind is None:
            why, active = LOCAL_ORPHAN, False
        else:
            active = lookup.is_active(behind)
            why = LOCAL_READY if active else LOCAL_INACTIVE
        read = Queue("") if behind is None else Queue.of(behind)
        holding = [
            w
            for w in self._store.peek_all(names.WORKLOAD, place[0])
            if w["spec"].get("queueName") == place[1] and lookup.holds_in(w)
        ]

        def write(obj: Obj) -> None:
            status = obj.setdefault("status", {})
            status |= _counts(read, holding, borrowed=False)
            mine = self._pending(lambda local: (namespace_of(local), name_of(local)) == place)
            status["pendingWorkloads"] = 0 if why == LOCAL_STOPPED else mine
            _activate(obj, why, active=active, now=self._store.now())

        self._store.mutate(names.LOCAL_QUEUE, *place, write, subresource="status")

    def _pending(self, of_queue: Any) -> int:
        count = 0
        for workload in self._store.peek_all(names.WORKLOAD):
            local = lookup.local_queue_of(self._store, workload)
            waits = not (
                conditions.is_true(workload, names.QUOTA_RESERVED)
                or conditions.is_true(workload, names.FINISHED)
                or workload["spec"].get("active") is False
                or ((workload.get("status") or {}).get("requeueState") or {}).get("requeueAt")
            )
            count += waits and local is not None and of_queue(local)
        return count

    def _sync_flavors(self) -> None:
        used = {f for q in self._store.peek_all(names.CLUSTER_QUEUE) for f in Queue.of(q).flavors()}
        for flavor in self._store.list(names.FLAVOR):
            free = is_deleting(flavor) and name_of(flavor) not in used
            self._finalize(names.FLAVOR, flavor, wanted=not free)
        placed = {(f.get("spec") or {}).get("topologyName") for f in self._store.peek_all(names.FLAVOR)}
        for topology in self._store.list(names.TOPOLOGY):
            self._finalize(
                names.TOPOLOGY, topology, wanted=not is_deleting(topology) or name_of(topology) in placed
            )
        asked = {
            str(rule["name"])
            for queue in self._store.peek_all(names.CLUSTER_QUEUE)
            for rule in checks.named_in(queue)
        }
        for check in self._store.list(names.ADMISSION_CHECK):
            self._finalize(names.ADMISSION_CHECK, check, wanted=name_of(check) in asked)

    def _finalize(self, key: str, obj: Obj, *, wanted: bool) -> None:
        """Put Kueue's finalizer where its admission has not, or take it away."""
        present = obj["metadata"].get("finalizers") or []
        if (names.IN_USE in present) == wanted or (wanted and is_deleting(obj)):
            return

        def change(found: Obj) -> None:
            kept = [f for f in found["metadata"].get("finalizers") or [] if f != names.IN_USE]
            found["metadata"]["finalizers"] = [*kept, names.IN_USE] if wanted else kept
            normalize(found)

        self._store.mutate(key, None, name_of(obj), change)


def _activate(obj: Obj, why: tuple[str, str], *, active: bool, now: str) -> None:
    listed = clone(obj["status"].get("conditions") or [])
    condition = {
        "type": names.ACTIVE,
        "status": "True" if active else "False",
        "reason": why[0],
        "message": why[1],
        "observedGeneration": int(obj["metadata"].get("generation") or 1),
    }
    set_condition(listed, condition, now)
    obj["status"]["conditions"] = listed


def _counts(queue: Queue, holding: Iterable[Obj], *, borrowed: bool) -> Obj:
    """Return counters and usage of the Workloads that hold quota."""
    all_of_them = list(holding)
    admitted = [w for w in all_of_them if conditions.is_true(w, names.ADMITTED)]
    return {
        "reservingWorkloads": len(all_of_them),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": _usage(queue, all_of_them, borrowed=borrowed),
        "flavorsUsage": _usage(queue, admitted, borrowed=borrowed),
    }


def _usage(queue: Queue, workloads: Iterable[Obj], *, borrowed: bool) -> list[Obj]:
    used: Usage = {}
    for workload in workloads:
        for key, amount in usage_of(workload).items():
            used[key] = used.get(key, amount * 0) + amount
    out: list[Obj] = []
    for flavor in queue.flavors():
        rows: list[Obj] = []
        for (of_flavor, resource), limit in sorted(queue.limits.items()):
            if of_flavor == flavor:
                rows.append(_row(resource, used.get((flavor, resource)), limit, borrowed=borrowed))
        out.append({"name": flavor, "resources": rows})
    return out


def _row(resource: str, amount: Any, limit: Limit, *, borrowed: bool) -> Obj:
    total = limit.nominal * 0 if amount is None else amount
    row: Obj = {"name": resource, "total": show(resource, total)}
    if borrowed:
        row["borrowed"] = show(resource, max(total - limit.nominal, limit.nominal * 0))
    return row
