"""Admission checks: which ones a Workload has to pass, in what state they are, and what follows from it.

Kueue lists them in `status.admissionChecks`; their controllers, which are not part of it, write the states.
"""

from collections.abc import Iterable
from datetime import timedelta

from pytest_gpucluster.embedded.kueue import names
from pytest_gpucluster.embedded.objects import Obj, get_condition, name_of
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.plain.times import format_time, parse_time

NO_QUOTA_NO_CHECKS = (
    "NoReservationUnsatisfiedChecks",
    "The workload has no reservation and not all checks ready",
)
NOT_READY = ("UnsatisfiedChecks", "The workload has not all checks ready")


def named_in(queue: Obj) -> list[Obj]:
    """Return the rules of a ClusterQueue's admissionChecksStrategy."""
    return (queue["spec"].get("admissionChecksStrategy") or {}).get("admissionChecks") or []


def missing(store: Store, queue: Obj) -> list[str]:
    """Return the checks that a ClusterQueue names and that do not exist."""
    return sorted(
        str(rule["name"])
        for rule in named_in(queue)
        if store.peek(names.ADMISSION_CHECK, None, str(rule["name"])) is None
    )


def inactive(store: Store, queue: Obj) -> list[str]:
    """Return the checks that a ClusterQueue names and whose condition Active is not True."""
    found = [store.peek(names.ADMISSION_CHECK, None, str(rule["name"])) for rule in named_in(queue)]
    return sorted(
        name_of(check)
        for check in found
        if check is not None and (get_condition(check, names.ACTIVE) or {}).get("status") != "True"
    )


def asked(queue: Obj, flavors: Iterable[str] | None) -> list[str]:
    """Return the checks that a Workload has to pass, in the order in which Kueue lists them.

    Args:
        queue: its ClusterQueue.
        flavors: flavors that it was given; None before, when only the checks of all flavors are known.
    """
    given = None if flavors is None else {*flavors}
    return sorted(
        str(rule["name"])
        for rule in named_in(queue)
        if not rule.get("onFlavors") or (given is not None and given & {*rule["onFlavors"]})
    )


def flavors_of(admission: Obj | None) -> list[str] | None:
    """Return the flavors of an admission, None without one."""
    if not admission:
        return None
    sets = admission.get("podSetAssignments") or []
    return [flavor for each in sets for flavor in (each.get("flavors") or {}).values()]


def listed(workload: Obj) -> list[Obj]:
    """Return the checks that a Workload lists."""
    return (workload.get("status") or {}).get("admissionChecks") or []


def all_ready(workload: Obj) -> bool:
    """Report whether each check that a Workload lists is Ready."""
    return all(check["state"] == names.CHECK_READY for check in listed(workload))


def lists_all(workload: Obj, wanted: Iterable[str]) -> bool:
    """Report whether a Workload lists all checks that it has to pass."""
    return {*wanted} <= {check["name"] for check in listed(workload)}


def in_state(workload: Obj, state: str) -> list[Obj]:
    """Return the checks of a Workload that are in a state."""
    return [check for check in listed(workload) if check["state"] == state]


def sync(workload: Obj, wanted: Iterable[str], now: str) -> bool:
    """List the checks that a Workload has to pass, new ones as Pending, and no others; report whether that changed."""
    names_ = [*wanted]
    if names_ == [check["name"] for check in listed(workload)]:
        return False
    known = {check["name"]: check for check in listed(workload)}
    new = {"state": names.CHECK_PENDING, "lastTransitionTime": now, "message": ""}
    workload.setdefault("status", {})["admissionChecks"] = [
        known.get(name) or {"name": name, **new} for name in names_
    ]
    if not names_:
        del workload["status"]["admissionChecks"]
    return True


def reset(workload: Obj, now: str) -> None:
    """Set all checks of an evicted Workload to Pending; what was once Ready is asked again."""
    for check in listed(workload):
        before = check["state"]
        if before == names.CHECK_PENDING:
            continue
        check["state"] = names.CHECK_PENDING
        check["message"] = f"Reset to Pending after eviction. Previously: {before}"
        check["lastTransitionTime"] = now
        check.pop("podSetUpdates", None)
        if before == names.CHECK_RETRY:
            check["retryCount"] = int(check.get("retryCount") or 0) + 1


def retry_at(workload: Obj) -> str:
    """Return until when the checks in state Retry want a Workload to wait, "" if they do not say."""
    ends = [
        parse_time(check["lastTransitionTime"]) + timedelta(seconds=int(check["requeueAfterSeconds"]))
        for check in in_state(workload, names.CHECK_RETRY)
        if check.get("requeueAfterSeconds")
    ]
    return format_time(max(ends)) if ends else ""
