"""The scheduler: which pending Workload gets quota next, as a whole or not at all.

A refused Workload is set aside and tried again only when something changed that could help it: quota of its
ClusterQueue or cohort was given back, or a queue or flavor was changed; such changes are gathered for a while.
"""

import asyncio
from collections.abc import Callable
from fractions import Fraction

from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.feed import DELETED, Subscription
from pytest_gpucluster.embedded.fitting import ENDED
from pytest_gpucluster.embedded.kueue import checks, conditions, lookup, names, placement
from pytest_gpucluster.embedded.kueue.amounts import show_all, total
from pytest_gpucluster.embedded.kueue.preemption import Preemption
from pytest_gpucluster.embedded.kueue.quota import Assignment, Snapshot
from pytest_gpucluster.embedded.kueue.settings import Settings
from pytest_gpucluster.embedded.kueue.workloads import requests_of
from pytest_gpucluster.embedded.objects import (
    Obj,
    get_condition,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.plain.selectors import SelectorError, matches_labels
from pytest_gpucluster.plain.times import parse_time

WATCHED = (
    names.WORKLOAD, names.CLUSTER_QUEUE, names.LOCAL_QUEUE, names.FLAVOR, "Namespace", names.TOPOLOGY, "Node", "Pod",
)  # fmt: skip
WAITING = ("Waiting", "waiting for all admitted workloads to be in PodsReady condition")
NO_LONGER = "Workload no longer fits after processing another workload"
FOREIGN = "Workload namespace doesn't match ClusterQueue selector"

Trait = tuple[object, ...]


class Scheduler:
    """Holds one cycle after another while there is something to admit."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        """Schedule the Workloads of a runtime's store."""
        self._store = runtime.store
        self._settings = settings
        self._has = runtime.has
        self._events = Recorder(runtime.store, names.ADMISSION_REPORTER, legacy=True)
        self._preemption = Preemption(runtime)
        self._aside: dict[str, Trait] = {}
        self._held: dict[str, tuple[str, object]] = {}
        self._shapes: dict[tuple[str, str, str], Trait] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._changes: Subscription | None = None

    async def run(self) -> None:
        """Follow Kueue's objects until cancelled."""
        with self._store.subscribe(WATCHED) as changes:
            self._changes = changes
            while not changes.closed:
                await changes.wait()
                for kind, key, obj in changes.pending():
                    self._note(kind, key, obj)
                while self._cycle():  # noqa: ASYNC110 - other controllers have their turn between two cycles
                    await asyncio.sleep(0)

    # -- who waits -----------------------------------------------------------------------------------

    def _note(self, kind: str, key: str, obj: Obj) -> None:
        if key in ("Node", "Pod"):
            if self._store.peek_all(names.TOPOLOGY) and self._changes_room(kind, key, obj):
                self._try_again_later()
            return
        if key != names.WORKLOAD:
            place = (key, namespace_of(obj), name_of(obj))
            shape = (
                uid_of(obj),
                obj["metadata"].get("generation"),
                str(labels_of(obj)),
                lookup.is_active(obj),
            )
            if self._shapes.get(place) != shape:
                self._shapes[place] = shape
                self._try_again_later()
            return
        uid = uid_of(obj)
        before = self._held.pop(uid, None)
        queue = "" if kind == DELETED else lookup.holds_in(obj)
        if queue:
            self._held[uid] = (queue, (obj["status"].get("reclaimablePods")))
        if before is not None and before != self._held.get(uid):
            self._try_again_later()
        if kind == DELETED or self._aside.get(uid) != _trait(obj):
            self._aside.pop(uid, None)

    def _changes_room(self, kind: str, key: str, obj: Obj) -> bool:
        """Report whether a change of a node or of a pod may have made room in a topology."""
        if key == "Pod":
            ends = kind == DELETED or obj.get("status", {}).get("phase") in ENDED
            return ends and not placement.asks_for_topology(obj)
        status = obj.get("status") or {}
        ready = (get_condition(obj, "Ready") or {}).get("status")
        shape = (
            str(labels_of(obj)),
            str(status.get("allocatable")),
            ready,
            obj["spec"].get("unschedulable"),
            kind == DELETED,
        )
        place = (key, "", name_of(obj))
        changed = self._shapes.get(place) != shape
        self._shapes[place] = shape
        return changed

    def _try_again_later(self) -> None:
        """Forget, after the batch period, that Workloads were refused."""
        if self._timer is not None or self._has("kueue.no-second"):
            return

        def ring() -> None:
            self._timer = None
            self._aside.clear()
            if self._changes is not None:
                self._changes.nudge()

        self._timer = asyncio.get_running_loop().call_later(self._settings.batch, ring)

    def _waits(self, workload: Obj) -> bool:
        """Report whether a Workload is to be looked at now."""
        status = workload.get("status") or {}
        return not (
            is_deleting(workload)
            or conditions.is_true(workload, names.FINISHED)
            or workload["spec"].get("active") is False
            or conditions.is_true(workload, names.QUOTA_RESERVED)
            or conditions.is_false(workload, names.REQUEUED)
            or (status.get("requeueState") or {}).get("requeueAt")
            or uid_of(workload) in self._aside
        )

    def _heads(self) -> list[tuple[Obj, Obj]]:
        """Return the first waiting Workload of each active ClusterQueue, and the queue."""
        first: dict[str, tuple[tuple[int, str, str], Obj, Obj]] = {}
        for workload in self._store.peek_all(names.WORKLOAD):
            if not self._waits(workload):
                continue
            local = lookup.local_queue_of(self._store, workload)
            queue = lookup.cluster_queue_of(self._store, workload)
            if local is None or queue is None or lookup.is_stopped(local) or not lookup.is_active(queue):
                continue
            rank = self._rank(workload)
            if name_of(queue) not in first or rank < first[name_of(queue)][0]:
                first[name_of(queue)] = (rank, workload, queue)
        return [(workload, queue) for _, workload, queue in first.values()]

    def _rank(self, workload: Obj) -> tuple[int, str, str]:
        """Return by what Workloads queue: priority, then the time in whole seconds, then the uid."""
        since = str(workload["metadata"]["creationTimestamp"])
        evicted = get_condition(workload, names.EVICTED) or {}
        late = evicted.get("status") == "True" and evicted.get("reason") == names.TIMEOUT
        if late and self._settings.wait is not None and self._settings.wait.by_eviction:
            since = str(evicted["lastTransitionTime"])
        return -int(workload["spec"].get("priority") or 0), since, uid_of(workload)

    # -- one cycle -----------------------------------------------------------------------------------

    def _cycle(self) -> bool:
        """Try the first of each queue; True when another cycle may find more."""
        heads = self._heads()
        if not heads:
            return False
        now = lookup.snapshot(self._store, unlimited=self._has("kueue.admits-over-quota"))
        tried = [(w, q, self._assignment(now, w, q)) for w, q in heads if self._is_welcome(w, q)]
        tried.sort(key=lambda each: (each[2].borrows, self._rank(each[0])))
        progress = len(tried) < len(heads)
        for workload, queue, first in tried:
            if not first.fits:
                going = self._preemption.issue(workload, queue, first)
                text = first.message() + (f". Pending the preemption of {going} workload(s)" if going else "")
                progress |= self._refuse(workload, queue, text, stays=bool(going))
                if going:
                    now.add(name_of(queue), first.wanted)  # nobody else gets what others give back for it
                continue
            again = self._assignment(now, workload, queue)
            if not again.fits:
                self._say_once(workload, NO_LONGER)
            elif self._must_wait():
                self._write(workload, lambda w: conditions.release(w, WAITING, self._store.now()))
                return False
            else:
                now.add(name_of(queue), again.usage)
                self._admit(workload, queue, again)
                progress = True
        return progress

    def _assignment(self, now: Snapshot, workload: Obj, queue: Obj) -> Assignment:
        asked = requests_of(workload)
        out = now.assign(name_of(queue), workload, asked)
        if out.fits:
            placement.place(self._store, workload, out, anywhere=self._has("kueue.ignores-topology"))
            return out
        if not self._has("kueue.half-admits"):
            return out
        whole = int(workload["spec"]["podSets"][0]["count"])
        for count in range(whole - 1, 0, -1):
            part = {
                name: {r: amount * Fraction(count, whole) for r, amount in each.items()}
                for name, each in asked.items()
            }
            less = now.assign(name_of(queue), workload, part)
            if less.fits:
                less.count = count
                return less
        return out

    def _is_welcome(self, workload: Obj, queue: Obj) -> bool:
        """Refuse a Workload of a namespace that its ClusterQueue does not serve."""
        namespace = self._store.peek("Namespace", None, namespace_of(workload)) or {}
        selector = queue["spec"].get("namespaceSelector")
        try:
            if selector is not None and matches_labels(selector, labels_of(namespace)):
                return True
        except SelectorError:
            pass
        self._say(workload, FOREIGN)
        self._aside[uid_of(workload)] = _trait(self._fresh(workload))
        return False

    def _must_wait(self) -> bool:
        """Report whether an admitted Workload is not ready, where that blocks all others."""
        if self._settings.wait is None or not self._settings.wait.block:
            return False
        return any(
            lookup.holds_in(w) and not conditions.is_true(w, names.PODS_READY)
            for w in self._store.peek_all(names.WORKLOAD)
        )

    def _refuse(self, workload: Obj, queue: Obj, text: str, *, stays: bool) -> bool:
        """Say why a Workload gets nothing, and set it aside unless its queue is strict or others make room for it."""
        stays |= queue["spec"].get("queueingStrategy") == "StrictFIFO"
        if not self._has("kueue.silent-refusal"):
            (self._say_once if stays else self._say)(workload, text)
        if stays and not self._has("kueue.no-second"):
            return False  # it stays the first of its queue, and nothing behind it is looked at
        self._aside[uid_of(workload)] = _trait(self._fresh(workload))
        return True

    def _say_once(self, workload: Obj, text: str) -> None:
        """Say why, unless that was the last that was said."""
        if (get_condition(workload, names.QUOTA_RESERVED) or {}).get("message") != text:
            self._say(workload, text)

    def _say(self, workload: Obj, text: str) -> None:
        asked = [{"name": n, "resources": show_all(total([a]))} for n, a in requests_of(workload).items()]

        def change(obj: Obj) -> None:
            conditions.release(obj, (names.PENDING, text), self._store.now())
            obj["status"]["resourceRequests"] = asked

        self._write(workload, change)
        self._events.event(workload, "Warning", names.PENDING, text)

    def _admit(self, workload: Obj, queue: Obj, assignment: Assignment) -> None:
        admission = _admission(name_of(queue), workload, assignment)
        waited = self._waited(workload)
        now = self._store.now()
        asked = checks.asked(queue, checks.flavors_of(admission))
        stored = self._write(workload, lambda w: conditions.reserve(w, admission, now, asked)) or workload
        text = f"Quota reserved in ClusterQueue {name_of(queue)}, wait time since queued was {waited}s"
        self._events.event(stored, "Normal", names.QUOTA_RESERVED, text)
        if conditions.is_true(stored, names.ADMITTED):
            text = f"Admitted by ClusterQueue {name_of(queue)}, wait time since reservation was 0s"
            self._events.event(stored, "Normal", names.ADMITTED, text)

    def _waited(self, workload: Obj) -> int:
        again = get_condition(workload, names.REQUEUED) or {}
        since = again.get("lastTransitionTime") or workload["metadata"]["creationTimestamp"]
        return round((self._store.clock() - parse_time(since)).total_seconds())

    def _write(self, workload: Obj, change: Callable[[Obj], object]) -> Obj | None:
        return conditions.write(self._store, workload, change)

    def _fresh(self, workload: Obj) -> Obj:
        return self._store.peek(names.WORKLOAD, namespace_of(workload), name_of(workload)) or workload


def _trait(workload: Obj) -> Trait:
    """Return what, when it changes, makes a refused Workload worth another look."""
    status = workload.get("status") or {}
    kinds = (names.EVICTED, names.REQUEUED)
    states = [(get_condition(workload, kind) or {}).get("status") for kind in kinds]
    return (workload["metadata"].get("generation"), str(status.get("reclaimablePods")), *states)


def _admission(queue: str, workload: Obj, assignment: Assignment) -> Obj:
    asked = requests_of(workload)
    listed = []
    for pod_set in workload["spec"]["podSets"]:
        name, whole = pod_set["name"], int(pod_set["count"])
        count = whole if assignment.count is None else assignment.count
        used = {r: amount * Fraction(count, whole or 1) for r, amount in asked[name].items()}
        listed.append(
            {
                "name": name,
                "flavors": dict(sorted(assignment.flavors[name].items())),
                "resourceUsage": show_all(used),
                "count": count,
                **({"topologyAssignment": assignment.topology[name]} if name in assignment.topology else {}),
            }
        )
    return {"clusterQueue": queue, "podSetAssignments": listed}
