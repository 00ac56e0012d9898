"""The controller of Workloads: evicts, requeues, and says why one cannot be admitted at all."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.feed import DELETED
from pytest_gpucluster.embedded.kueue import checks, conditions, lookup, names
from pytest_gpucluster.embedded.kueue.settings import Settings
from pytest_gpucluster.embedded.objects import (
    Key,
    Obj,
    get_condition,
    is_deleting,
    name_of,
    namespace_of,
    uid_of,
)
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.worklist import Worklist
from pytest_gpucluster.plain.times import format_time, parse_time

EXACT_BELOW = 2.0
"""Seconds below which a time limit is counted exactly. Kueue counts from the whole seconds of a condition, so that a
limit ends up to one second early, as recorded; of limits as short as an embedded cluster has, nothing might be left."""

SHORTEST = 0.001
"""Least seconds of a timer, so that the clock has moved when it rings."""

LIMIT = ("RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries")


class WorkloadController:
    """Looks at a Workload whenever it, its queues, or a clock demands it."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        """Work on a runtime's store."""
        self._store = runtime.store
        self._wait = settings.wait
        self._has = runtime.has
        self._events = Recorder(runtime.store, names.WORKLOAD_REPORTER, legacy=True)
        self._since: dict[tuple[str, str, str], float] = {}
        self._due: dict[str, float] = {}
        followed = [names.WORKLOAD, names.LOCAL_QUEUE, names.CLUSTER_QUEUE]
        self._work = Worklist(self._store, followed, self._note, self._reconcile, all_at_once=True)

    async def run(self) -> None:
        """Follow Workloads and queues until cancelled."""
        await self._work.run()

    def _note(self, kind: str, key: str, obj: Obj) -> None:
        if key == names.WORKLOAD:
            self._work.add((namespace_of(obj), name_of(obj)))
            if kind == DELETED:
                self._due.pop(uid_of(obj), None)
                self._since = {k: v for k, v in self._since.items() if k[0] != uid_of(obj)}
            return
        for workload in self._store.peek_all(names.WORKLOAD):
            self._work.add((namespace_of(workload), name_of(workload)))

    def _reconcile(self, key: Key) -> None:
        workload = self._store.find(names.WORKLOAD, *key)
        if workload is None or conditions.is_true(workload, names.FINISHED):
            return
        if workload["spec"].get("active") is False:
            self._deactivate(workload)
            return
        if conditions.is_true(workload, names.DEACTIVATION_TARGET):
            self._store.mutate(names.WORKLOAD, *key, lambda w: w["spec"].update(active=False))
            return
        if not self._back_off(key, workload):
            return
        if self._restarted(workload) or self._checked(workload):
            return
        if conditions.is_true(workload, names.QUOTA_RESERVED):
            if not (self._failed_check(workload) or self._drain(workload)):
                self._watch_pods(key, workload)
            return
        self._say_why_not(workload)

    # -- being queued again --------------------------------------------------------------------------

    def _back_off(self, key: Key, workload: Obj) -> bool:
        """Wait for the end of a backoff, then say that it is over; False while there is no more to do."""
        state = (workload.get("status") or {}).get("requeueState") or {}
        at = state.get("requeueAt")
        if at:
            left = self._left_until(workload, at)
            if left > 0:
                self._work.later(key, max(left, SHORTEST))
                return False
            if not conditions.is_true(workload, names.QUOTA_RESERVED):
                self._write(workload, lambda w: w["status"]["requeueState"].pop("requeueAt", None))
                return False
        if conditions.is_false(workload, names.REQUEUED):
            reason = conditions.reason_of(workload, names.REQUEUED)
            if reason in (names.TIMEOUT, names.BY_CHECK):
                return not self._requeue(workload, ("BackoffFinished", "The workload backoff was finished"))
            if reason.startswith(names.DEACTIVATED):
                return not self._requeue(workload, ("Reactivated", "The workload was reactivated"))
        return True

    def _left_until(self, workload: Obj, at: str) -> float:
        clock = asyncio.get_running_loop().time()
        due = self._due.get(uid_of(workload))
        if due is not None:
            return due - clock
        return (parse_time(at) - self._store.clock()).total_seconds()

    def _restarted(self, workload: Obj) -> bool:
        """Queue a Workload again whose queue was stopped and is no longer."""
        if not conditions.is_false(workload, names.REQUEUED):
            return False
        local, queue = (
            lookup.local_queue_of(self._store, workload),
            lookup.cluster_queue_of(self._store, workload),
        )
        reason = conditions.reason_of(workload, names.REQUEUED)
        for wanted, found, kind in (
            (names.LOCAL_QUEUE_STOPPED, local, "LocalQueue"),
            (names.CLUSTER_QUEUE_STOPPED, queue, "ClusterQueue"),
        ):
            if reason == wanted and found is not None and not lookup.is_stopped(found):
                why = (f"{kind}Restarted", f"The {kind} was restarted after being stopped")
                return self._requeue(workload, why)
        return False

    def _requeue(self, workload: Obj, why: tuple[str, str]) -> bool:
        self._write(workload, lambda w: conditions.requeue(w, why, self._store.now(), status=True))
        return True

    # -- admission checks ----------------------------------------------------------------------------

    def _checked(self, workload: Obj) -> bool:
        """List the checks that a Workload has to pass, and admit it once all are Ready; True if that was written."""
        queue = lookup.cluster_queue_of(self._store, workload)
        if queue is None:
            return False
        wanted = checks.asked(queue, checks.flavors_of((workload.get("status") or {}).get("admission")))
        if [check["name"] for check in checks.listed(workload)] != wanted:
            self._write(workload, lambda w: checks.sync(w, wanted, self._store.now()))
            return True
        reserved = get_condition(workload, names.QUOTA_RESERVED) or {}
        ready = reserved.get("status") == "True" and checks.all_ready(workload)
        # An admitted Workload stays so, whatever a check says later: only an eviction takes it away.
        if not ready or conditions.is_true(workload, names.ADMITTED):
            return False
        stored = self._write(workload, lambda w: conditions.sync_admitted(w, self._store.now())) or workload
        waited = (self._store.clock() - parse_time(str(reserved["lastTransitionTime"]))).total_seconds()
        text = f"Admitted by ClusterQueue {name_of(queue)}, wait time since reservation was {round(waited)}s"
        self._events.event(stored, "Normal", names.ADMITTED, text)
        return True

    def _failed_check(self, workload: Obj) -> bool:
        """Give up a Workload that a check rejected, evict one that a check sends back; True if there was one."""
        if conditions.is_true(workload, names.EVICTED):
            return False
        rejected = checks.in_state(workload, names.CHECK_REJECTED)
        if rejected:
            listed = ",".join(check["name"] for check in rejected)
            why = (names.BY_CHECK, f"Admission check(s): {listed}, were rejected")
            target = names.DEACTIVATION_TARGET
            stored = self._write(
                workload, lambda w: conditions.put(w, target, why, self._store.now(), status=True)
            )
            text = f"Deactivating workload because AdmissionCheck for {rejected[0]['name']} was Rejected"
            said = f"{text}: {rejected[0].get('message') or ''}"
            self._events.event(stored or workload, "Warning", "AdmissionCheckRejected", said)
            return True
        if not checks.in_state(workload, names.CHECK_RETRY):
            return False
        at = checks.retry_at(workload)

        def wait(obj: Obj) -> None:
            if at:
                obj["status"].setdefault("requeueState", {})["requeueAt"] = at

        self._evict(workload, (names.BY_CHECK, "At least one admission check is false"), "", wait)
        return True

    # -- eviction ------------------------------------------------------------------------------------

    def _drain(self, workload: Obj) -> bool:
        """Evict an admitted Workload whose queue is drained; one that only holds quota loses it in a stopped one."""
        if conditions.is_true(workload, names.EVICTED) or self._has("kueue.ignores-stop"):
            return False
        if not conditions.is_true(workload, names.ADMITTED):
            return self._give_up_quota(workload)
        for reason, found, kind in (
            (names.LOCAL_QUEUE_STOPPED, lookup.local_queue_of(self._store, workload), "LocalQueue"),
            (names.CLUSTER_QUEUE_STOPPED, lookup.cluster_queue_of(self._store, workload), "ClusterQueue"),
        ):
            if found is not None and found["spec"].get("stopPolicy") == names.DRAIN:
                self._evict(workload, (reason, f"The {kind} is stopped"), "")
                return True
        return False

    def _give_up_quota(self, workload: Obj) -> bool:
        both = (
            lookup.local_queue_of(self._store, workload),
            lookup.cluster_queue_of(self._store, workload),
        )
        stopped = next((queue for queue in both if queue is not None and lookup.is_stopped(queue)), None)
        if stopped is None:
            return False
        why = (names.INADMISSIBLE, f"{stopped['kind']} {name_of(stopped)} is stopped")
        self._write(workload, lambda w: conditions.release(w, why, self._store.now()))
        return True

    def _evict(
        self, workload: Obj, why: tuple[str, str], cause: str, prepare: Callable[[Obj], object] | None = None
    ) -> None:
        had = "admission" in (workload.get("status") or {})

        def change(obj: Obj) -> None:
            if prepare is not None:
                prepare(obj)
            conditions.evict(obj, why, cause, self._store.now())

        stored = self._write(workload, change) or workload
        if had:
            self._events.event(stored, "Normal", f"EvictedDueTo{why[0]}", why[1])

    def _deactivate(self, workload: Obj) -> None:
        target = get_condition(workload, names.DEACTIVATION_TARGET)
        state = (workload.get("status") or {}).get("requeueState")

        def prepare(obj: Obj) -> None:
            conditions.drop(obj, names.DEACTIVATION_TARGET)
            (obj.get("status") or {}).pop("requeueState", None)

        if not conditions.is_true(workload, names.EVICTED):
            reason, text, cause = names.DEACTIVATED, "The workload is deactivated", ""
            if target is not None:
                cause = str(target["reason"])
                reason, text = f"{reason}DueTo{cause}", f"{text} due to {target['message']}"
            self._evict(workload, (reason, text), cause, prepare)
        elif state is not None:
            self._write(workload, prepare)

    def _watch_pods(self, key: Key, workload: Obj) -> None:
        """Evict an admitted Workload whose pods are not ready in time; deactivate it when it had its chances."""
        if self._wait is None or not conditions.is_true(workload, names.ADMITTED):
            return
        if conditions.is_true(workload, names.EVICTED) or self._has("kueue.never-evicts"):
            return
        left, cause = self._time_left(workload)
        if left is None:
            return
        if left > 0:
            self._work.later(key, max(left, SHORTEST))
            return
        count = int(((workload.get("status") or {}).get("requeueState") or {}).get("count") or 0)
        if self._wait.limit is not None and count + 1 > self._wait.limit:
            self._write(
                workload,
                lambda w: conditions.put(w, names.DEACTIVATION_TARGET, LIMIT, self._store.now(), status=True),
            )
            return
        pause = min(self._wait.first * 2**count, self._wait.longest)

        def back_off(obj: Obj) -> None:
            at = format_time(self._store.clock() + timedelta(seconds=pause))
            obj["status"]["requeueState"] = {"count": count + 1, "requeueAt": at}

        self._due.pop(uid_of(workload), None)
        if pause < EXACT_BELOW:
            self._due[uid_of(workload)] = asyncio.get_running_loop().time() + pause
        text = f"Exceeded the PodsReady timeout {key[0]}/{key[1]}"
        self._evict(workload, (names.TIMEOUT, text), cause, back_off)

    def _time_left(self, workload: Obj) -> tuple[float | None, str]:
        """Return how long the pods of a Workload may still take, None without end, and what it waits for."""
        if self._wait is None:
            return None, ""
        ready = get_condition(workload, names.PODS_READY) or {
            "status": "False",
            "reason": names.WAIT_FOR_START,
        }
        if ready["status"] == "True":
            return None, ""
        recovers = ready["reason"] == names.WAIT_FOR_RECOVERY
        limit = self._wait.recovery if recovers else self._wait.timeout
        if limit is None:
            return None, ""
        kind = names.PODS_READY if recovers else names.ADMITTED
        since = str((get_condition(workload, kind) or {})["lastTransitionTime"])
        cause = names.WAIT_FOR_RECOVERY if recovers else names.WAIT_FOR_START
        return max(limit - self._passed(workload, kind, since, limit), 0.0), cause

    def _passed(self, workload: Obj, kind: str, since: str, limit: float) -> float:
        if limit >= EXACT_BELOW:
            return (self._store.clock() - parse_time(since)).total_seconds()
        clock = asyncio.get_running_loop().time()
        transitions = str(((workload.get("status") or {}).get("requeueState") or {}).get("count"))
        return clock - self._since.setdefault((uid_of(workload), kind, f"{since} {transitions}"), clock)

    # -- why not -------------------------------------------------------------------------------------

    def _say_why_not(self, workload: Obj) -> None:
        """Say what is missing for a Workload to be considered at all."""
        name = workload["spec"].get("queueName") or ""
        local = lookup.local_queue_of(self._store, workload)
        queue = lookup.cluster_queue_of(self._store, workload)
        text = None
        if local is None:
            text = None if self._has("kueue.silent-unknown-queue") else f"LocalQueue {name} doesn't exist"
        elif lookup.is_stopped(local):
            text = f"LocalQueue {name} is inactive"
        elif queue is None:
            text = f"ClusterQueue {local['spec']['clusterQueue']} doesn't exist"
        elif lookup.why_inactive(self._store, queue) is not None:
            text = f"ClusterQueue {name_of(queue)} is inactive"
        if text is not None and not is_deleting(workload):
            why = (names.INADMISSIBLE, text)
            self._write(workload, lambda w: conditions.release(w, why, self._store.now()))

    def _write(self, workload: Obj, change: Callable[[Obj], object]) -> Obj | None:
        return conditions.write(self._store, workload, change)
