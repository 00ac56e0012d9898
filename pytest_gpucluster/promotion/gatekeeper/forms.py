"""How Kueue's AdmissionChecks and Workloads are read and written by the controller of a check."""

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.kube import leases, objects, permissions
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import cluster_identity

Obj = dict[str, Any]

CONTROLLER = f"{names.DOMAIN}/gatekeeper"
"""`spec.controllerName` of the checks that are ours."""
CHECK = objects.table_row("AdmissionCheck")
QUEUE = objects.table_row("ClusterQueue")
WORKLOAD = objects.table_row("Workload")
PENDING, READY, RETRY = "Pending", "Ready", "Retry"
RETRY_SECONDS = 60
"""How long a Workload that was sent back waits before it may ask again."""
_LONGEST = 1000
"""Characters of a message; the API takes 32768, people take fewer."""


def condition(obj: Mapping[str, Any] | None, kind: str) -> Mapping[str, Any]:
    """Return a condition of an object, empty without one."""
    listed = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((each for each in listed if each.get("type") == kind), {})


def is_true(obj: Mapping[str, Any], kind: str) -> bool:
    """Report whether a condition is True."""
    return bool(condition(obj, kind).get("status") == "True")


def state_of(workload: Mapping[str, Any], check: str) -> str:
    """Return the state of a check of a Workload, "" if the Workload does not list it."""
    listed = (workload.get("status") or {}).get("admissionChecks") or []
    return next((str(each.get("state")) for each in listed if each.get("name") == check), "")


def checks_of(queue: Mapping[str, Any]) -> set[str]:
    """Return the names of the checks that a ClusterQueue asks for."""
    spec = queue.get("spec") or {}
    listed = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    # v1beta1 has a plain list, too.
    return {str(each.get("name")) for each in listed} | {
        str(each) for each in spec.get("admissionChecks") or []
    }


def asks(workload: Mapping[str, Any], check: str) -> bool:
    """Report whether a Workload holds quota and waits for a check."""
    return (
        is_true(workload, "QuotaReserved")
        and not is_true(workload, "Admitted")
        and not is_true(workload, "Evicted")
        and not is_true(workload, "Finished")
        and state_of(workload, check) == PENDING
    )


def ready_in_advance(workload: Mapping[str, Any], check: str) -> bool:
    """Report whether a Workload that lost its quota still has the Ready that it was given with it."""
    return (
        not is_true(workload, "QuotaReserved")
        and not is_true(workload, "Finished")
        and state_of(workload, check) == READY
    )


def answered(workload: Mapping[str, Any], check: str, state: str, message: str, now: str) -> Obj:
    """Return the change of status that gives a check of a Workload another state, if nobody wrote in between."""
    mine = {"name": check, "state": state, "message": message[:_LONGEST], "lastTransitionTime": now}
    if state == RETRY:
        mine["requeueAfterSeconds"] = RETRY_SECONDS  # type: ignore[assignment]
    listed = [
        {**{key: value for key, value in each.items() if key == "retryCount"}, **mine}
        if each.get("name") == check
        else each
        for each in workload["status"]["admissionChecks"]
    ]
    return {
        "metadata": {"resourceVersion": workload["metadata"]["resourceVersion"]},
        "status": {"admissionChecks": listed},
    }


def activity(check: Obj, reason: str, message: str, now: str, *, active: bool) -> Obj | None:
    """Return the change of status that sets a check's condition Active; None if it says so already."""
    status = "True" if active else "False"
    before = condition(check, "Active")
    generation = (check.get("metadata") or {}).get("generation")
    wanted = {
        "type": "Active",
        "status": status,
        "reason": reason,
        "message": message[:_LONGEST],
        "observedGeneration": generation,
        "lastTransitionTime": before.get("lastTransitionTime") if before.get("status") == status else now,
    }
    if all(before.get(key) == value for key, value in wanted.items()):
        return None
    others = [
        each for each in (check.get("status") or {}).get("conditions") or [] if each.get("type") != "Active"
    ]
    return {
        "metadata": {"resourceVersion": check["metadata"]["resourceVersion"]},
        "status": {"conditions": [*others, wanted]},
    }


def lean(kind: str, obj: Obj) -> Obj:
    """Return of an object what the gatekeeper looks at: a cluster has many Workloads, each with its pods' templates."""
    metadata = obj.get("metadata") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "generation")
    out: Obj = {"metadata": {key: metadata[key] for key in kept if key in metadata}, "status": {}}
    status = obj.get("status") or {}
    if kind == WORKLOAD.key:
        out["status"] = {key: status[key] for key in ("admissionChecks", "conditions") if key in status}
    elif kind == objects.NODE.key:
        out["seen"] = _machine(obj)
    else:
        out = obj
    return out


def _machine(node: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what of a node says whether it is still the one that was tested, and in service.

    Heartbeats and times of conditions are left out: they change all the time and say nothing.
    """
    status, spec, metadata = (node.get(part) or {} for part in ("status", "spec", "metadata"))
    info = {key: value for key, value in (status.get("nodeInfo") or {}).items() if key != "bootID"}
    return (
        metadata.get("uid"),
        sorted(info.items()),
        sorted((metadata.get("labels") or {}).items()),
        sorted((status.get("capacity") or {}).items()),
        sorted((status.get("allocatable") or {}).items()),
        bool(spec.get("unschedulable")),
        is_true(node, "Ready"),
    )


def wanted(
    namespace: str, versions_of: Iterable[str] = ("kueue",), namespaces: Mapping[str, str] | None = None
) -> set[permissions.Permission]:
    """Return the permissions of the gatekeeper: to look, and to write two kinds of status and a Lease.

    Args:
        namespace: where its Lease is.
        versions_of: components whose versions it compares with those of the runs.
        namespaces: component -> namespace, for those that are somewhere else than documented.
    """
    on, one = permissions.on, permissions.Permission
    found = {each for info in (CHECK, WORKLOAD, objects.NODE) for each in on(info, "list", "watch")}
    found |= on(QUEUE, "list")
    found |= {one(each.group, f"{each.plural}/status", "patch") for each in (CHECK, WORKLOAD)}
    found |= on(leases.LEASE, "create", "delete", "list", "patch", "watch", namespace=namespace)
    return found | cluster_identity.wanted(namespaces or {}, versions_of)
