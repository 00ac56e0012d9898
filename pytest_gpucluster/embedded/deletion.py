"""What holds an object that is being deleted: finalizers, a grace period, the content of a namespace."""

from datetime import datetime, timedelta

from pytest_gpucluster.embedded.objects import Obj, is_deleting
from pytest_gpucluster.embedded.resources import ResourceType
from pytest_gpucluster.plain.times import format_time

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


def mark(row: ResourceType, obj: Obj, propagation: str, grace: int | None, now: datetime) -> None:
    """Write on an object that it is being deleted, where something holds it.

    Args:
        row: Its type.
        obj: The object, changed in place.
        propagation: Background, Foreground or Orphan.
        grace: Seconds of grace of a pod, None for other kinds.
        now: The present time.
    """
    meta = obj["metadata"]
    finalizers = [f for f in meta.get("finalizers") or [] if f not in (FOREGROUND, ORPHAN)]
    wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(propagation)
    if wanted:
        finalizers.append(wanted)
    if finalizers or meta.get("finalizers"):
        meta["finalizers"] = finalizers
    if not is_deleting(obj):
        if row.key != "Pod" and not finalizers and not _namespace_held(obj):
            return  # nothing holds it, so it goes without a mark
        if meta.get("generation"):
            meta["generation"] += 1
    elif row.key != "Pod" or not _shortens(meta, grace):
        return
    when = now + timedelta(seconds=grace or 0)
    meta["deletionTimestamp"] = format_time(when)
    if row.key != "Namespace":
        meta["deletionGracePeriodSeconds"] = grace or 0
    if row.key == "Namespace":
        obj.setdefault("status", {})["phase"] = "Terminating"


def _namespace_held(obj: Obj) -> bool:
    return obj["kind"] == "Namespace" and bool(obj.get("spec", {}).get("finalizers"))


def may_go(obj: Obj) -> bool:
    """Report whether nothing holds an object that is to be deleted: no finalizer, no grace period."""
    meta = obj["metadata"]
    if meta.get("finalizers") or _namespace_held(obj):
        return False
    return not is_deleting(obj) or not meta.get("deletionGracePeriodSeconds")


def _shortens(meta: Obj, grace: int | None) -> bool:
    present = meta.get("deletionGracePeriodSeconds") or 0
    return grace is not None and grace < present


def grace_of(row: ResourceType, obj: Obj, asked: int | None) -> int | None:
    """Return the grace period of a pod that is to be deleted: 0 for an unbound or ended one."""
    if row.key != "Pod":
        return None
    if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in (
        "Succeeded",
        "Failed",
    ):
        return 0
    if asked is not None:
        return max(asked, 0)
    return int(obj["spec"].get("terminationGracePeriodSeconds") or 0)
