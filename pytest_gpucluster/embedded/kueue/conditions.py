"""The conditions of a Workload: how each is set, and what follows from it. Every function changes a Workload in place.

Each returns whether anything changed, so that a write that changes nothing is left out.
"""

from collections.abc import Callable, Iterable
from typing import Any

from pytest_gpucluster.embedded.kueue import checks, names
from pytest_gpucluster.embedded.objects import Obj, get_condition, set_condition
from pytest_gpucluster.plain.times import parse_time

LONGEST_MESSAGE = 32 * 1024

Now = str
"""The present time as objects carry it."""


def is_true(workload: Obj, kind: str) -> bool:
    """Report whether a condition is there and True."""
    return (get_condition(workload, kind) or {}).get("status") == "True"


def is_false(workload: Obj, kind: str) -> bool:
    """Report whether a condition is there and False."""
    return (get_condition(workload, kind) or {}).get("status") == "False"


def reason_of(workload: Obj, kind: str) -> str:
    """Return the reason of a condition, empty where it is absent."""
    return str((get_condition(workload, kind) or {}).get("reason") or "")


def put(workload: Obj, kind: str, why: tuple[str, str], now: Now, *, status: bool) -> bool:
    """Set a condition."""
    conditions: list[Obj] = workload.setdefault("status", {}).setdefault("conditions", [])
    condition = {
        "type": kind,
        "status": "True" if status else "False",
        "reason": why[0],
        "message": why[1][:LONGEST_MESSAGE],
        "observedGeneration": int(workload["metadata"].get("generation") or 1),
    }
    return set_condition(conditions, condition, now)


def drop(workload: Obj, kind: str) -> bool:
    """Remove a condition."""
    conditions = (workload.get("status") or {}).get("conditions") or []
    kept = [c for c in conditions if c["type"] != kind]
    if len(kept) == len(conditions):
        return False
    workload["status"]["conditions"] = kept
    return True


def reserve(workload: Obj, admission: Obj, now: Now, asked: Iterable[str] = ()) -> None:
    """Give a Workload its quota, and with it its admission if it has passed all admission checks that it has to."""
    status = workload.setdefault("status", {})
    status["admission"] = admission
    status.pop("resourceRequests", None)
    text = f"Quota reserved in ClusterQueue {admission['clusterQueue']}"
    put(workload, names.QUOTA_RESERVED, (names.QUOTA_RESERVED, text), now, status=True)
    for kind in (names.EVICTED, names.PREEMPTED):
        before = get_condition(workload, kind)
        if before is not None and before["status"] == "True":
            why = (names.QUOTA_RESERVED, f"Previously: {before['message']}")
            put(workload, kind, why, now, status=False)
    if checks.lists_all(workload, asked):
        sync_admitted(workload, now)


def release(workload: Obj, why: tuple[str, str], now: Now) -> bool:
    """Take a Workload's quota away, or say why it has none."""
    changed = put(workload, names.QUOTA_RESERVED, why, now, status=False)
    if workload["status"].pop("admission", None) is not None:
        changed = True
    return sync_admitted(workload, now) or changed


def sync_admitted(workload: Obj, now: Now) -> bool:
    """Let the condition Admitted follow QuotaReserved and the checks; time spent admitted is added up."""
    reserved, admitted = is_true(workload, names.QUOTA_RESERVED), is_true(workload, names.ADMITTED)
    passed = checks.all_ready(workload)
    if (reserved and passed) == admitted:
        return False
    if reserved and passed:
        return put(workload, names.ADMITTED, (names.ADMITTED, "The workload is admitted"), now, status=True)
    since = (get_condition(workload, names.ADMITTED) or {}).get("lastTransitionTime") or now
    spent = int((parse_time(now) - parse_time(since)).total_seconds())
    status = workload["status"]
    total = int(status.get("accumulatedPastExecutionTimeSeconds") or 0) + spent
    status["accumulatedPastExecutionTimeSeconds"] = total
    why = ("NoReservation", "The workload has no reservation")
    if not passed:
        why = checks.NOT_READY if reserved else checks.NO_QUOTA_NO_CHECKS
    return put(workload, names.ADMITTED, why, now, status=False)


def evict(workload: Obj, why: tuple[str, str], cause: str, now: Now) -> None:
    """Say that a Workload is to go; its quota is kept until its Job has stopped."""
    before = get_condition(workload, names.EVICTED)
    put(workload, names.EVICTED, why, now, status=True)
    checks.reset(workload, now)
    if before is None:  # it stands before Admitted, as recorded
        conditions: list[Obj] = workload["status"]["conditions"]
        conditions.insert(1, conditions.pop())
    reason = why[0].partition("DueTo")[0]
    stats: dict[str, Any] = workload["status"].setdefault("schedulingStats", {})
    listed: list[Obj] = stats.setdefault("evictions", [])
    for known in listed:
        if known["reason"] == reason and known["underlyingCause"] == cause:
            known["count"] += 1
            return
    listed.append({"count": 1, "reason": reason, "underlyingCause": cause})


def requeue(workload: Obj, why: tuple[str, str], now: Now, *, status: bool) -> bool:
    """Say whether an evicted Workload is queued again."""
    return put(workload, names.REQUEUED, why, now, status=status)


def write(store: Any, workload: Obj, change: Callable[[Obj], Any]) -> Obj | None:
    """Change the status of a stored Workload in one write; None where it is gone."""
    meta = workload["metadata"]
    found: Obj | None = store.mutate(
        names.WORKLOAD, meta["namespace"], meta["name"], change, subresource="status"
    )
    return found
