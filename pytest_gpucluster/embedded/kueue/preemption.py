"""Preemption by quota: what a ClusterQueue may take back from its cohort, or from its own lesser Workloads."""

from collections.abc import Iterator
from fractions import Fraction

from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.kueue import conditions, lookup, names
from pytest_gpucluster.embedded.kueue.quota import Assignment, Snapshot
from pytest_gpucluster.embedded.kueue.workloads import usage_of
from pytest_gpucluster.embedded.objects import Obj, get_condition, name_of, uid_of
from pytest_gpucluster.embedded.runtime import Runtime

RECLAIM = "InCohortReclamation"
WITHIN = "InClusterQueue"
WORDS = {RECLAIM: "reclamation within the cohort", WITHIN: "prioritization in the ClusterQueue"}


class Preemption:
    """Evicts Workloads so that another one finds its quota."""

    def __init__(self, runtime: Runtime) -> None:
        """Work on a runtime's store."""
        self._store = runtime.store
        self._events = Recorder(runtime.store, names.ADMISSION_REPORTER, legacy=True)

    def issue(self, workload: Obj, queue: Obj, assignment: Assignment) -> int:
        """Evict what a refused Workload may take back; return how many go, 0 where that would not be enough."""
        short = dict(assignment.short)
        chosen: list[tuple[Obj, str]] = []
        for victim, why in self._candidates(workload, queue) if short else ():
            usage = usage_of(victim)
            if not any(key in usage for key, more in short.items() if more > 0):
                continue
            chosen.append((victim, why))
            short = {key: more - usage.get(key, Fraction(0)) for key, more in short.items()}
            if all(more <= 0 for more in short.values()):
                break
        if not chosen or any(more > 0 for more in short.values()):
            return 0
        for victim, why in chosen:
            if not conditions.is_true(victim, names.EVICTED):
                self._preempt(victim, workload, why)
        return len(chosen)

    def _candidates(self, workload: Obj, queue: Obj) -> Iterator[tuple[Obj, str]]:
        """Yield what may be taken: what goes already, then of borrowing queues, then the least and the newest."""
        now = lookup.snapshot(self._store)
        found: list[tuple[tuple[bool, bool, int, _Newest, str], Obj, str]] = []
        for victim in self._store.peek_all(names.WORKLOAD):
            holder = now.queues.get(lookup.holds_in(victim))
            why = "" if holder is None else self._why(workload, queue, victim, now)
            if why:
                since = (get_condition(victim, names.QUOTA_RESERVED) or {}).get("lastTransitionTime", "")
                going = conditions.is_true(victim, names.EVICTED)
                rank = (not going, why != RECLAIM, _priority(victim), _Newest(since), uid_of(victim))
                found.append((rank, victim, why))
        for _, victim, why in sorted(found, key=lambda each: each[0]):
            holder = now.queues[lookup.holds_in(victim)]
            if why == RECLAIM and not any(holder.borrowed(key) for key in usage_of(victim)):
                continue  # what was taken from it so far was all that it had borrowed
            now.add(holder.name, usage_of(victim), -1)
            yield victim, why

    def _why(self, workload: Obj, queue: Obj, victim: Obj, now: Snapshot) -> str:
        """Return by what right a Workload may be taken, empty where there is none."""
        rules = queue["spec"].get("preemption") or {}
        own, holder = now.queues[name_of(queue)], now.queues[lookup.holds_in(victim)]
        lower = _priority(victim) < _priority(workload)
        if holder is own:
            return WITHIN if rules.get("withinClusterQueue", "Never") != "Never" and lower else ""
        reclaim = rules.get("reclaimWithinCohort", "Never")
        shares = bool(own.cohort) and holder.cohort == own.cohort
        borrows = any(holder.borrowed(key) for key in usage_of(victim))
        return RECLAIM if shares and borrows and (reclaim == "Any" or (reclaim != "Never" and lower)) else ""

    def _preempt(self, victim: Obj, winner: Obj, why: str) -> None:
        owner = (winner["metadata"].get("labels") or {}).get(names.JOB_UID_LABEL, "UNKNOWN")
        text = f"Preempted to accommodate a workload (UID: {uid_of(winner)}, JobUID: {owner}) due to {WORDS[why]}"

        def change(obj: Obj) -> None:
            now = self._store.now()
            conditions.evict(obj, (names.PREEMPTED, text), "", now)
            conditions.put(obj, names.PREEMPTED, (why, text), now, status=True)

        stored = conditions.write(self._store, victim, change) or victim
        self._events.event(stored, "Normal", "EvictedDueToPreempted", text)
        self._events.event(stored, "Normal", "Preempted", text)


class _Newest(str):
    """A time that sorts before earlier ones."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _priority(workload: Obj) -> int:
    return int(workload["spec"].get("priority") or 0)
