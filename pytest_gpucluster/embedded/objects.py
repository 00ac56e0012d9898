"""Small helpers over Kubernetes objects, which are plain dicts everywhere in the embedded cluster."""

from collections.abc import Mapping
from typing import Any

Obj = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""


def name_of(obj: Mapping[str, Any]) -> str:
    """Return the object's name, empty when it has none."""
    return str(obj.get("metadata", {}).get("name") or "")


def namespace_of(obj: Mapping[str, Any]) -> str:
    """Return the object's namespace, empty for a cluster-scoped object."""
    return str(obj.get("metadata", {}).get("namespace") or "")


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return the object's uid, empty when it was never stored."""
    return str(obj.get("metadata", {}).get("uid") or "")


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the object's labels."""
    return obj.get("metadata", {}).get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the object's annotations."""
    return obj.get("metadata", {}).get("annotations") or {}


def version_of(obj: Mapping[str, Any]) -> int:
    """Return the resource version as the number it is here (clients must treat it as opaque)."""
    return int(obj["metadata"]["resourceVersion"])


def is_deleting(obj: Mapping[str, Any]) -> bool:
    """Report whether deletion of the object was requested and it still stands."""
    return bool(obj.get("metadata", {}).get("deletionTimestamp"))


def controller_of(obj: Mapping[str, Any]) -> Obj | None:
    """Return the owner reference whose `controller` is true, or None."""
    for ref in obj.get("metadata", {}).get("ownerReferences") or []:
        if ref.get("controller"):
            return dict(ref)
    return None


def owner_reference(owner: Mapping[str, Any]) -> Obj:
    """Return the controlling owner reference to an object, as controllers write it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def set_condition(conditions: list[Obj], condition: Obj, now: str) -> bool:
    """Put a condition into a list by its type, keeping the transition time while the status stays.

    Args:
        conditions: The list to change.
        condition: The condition; `lastTransitionTime` is filled in.
        now: The present time as the API writes it.

    Returns:
        Whether the list changed.
    """
    new = {**condition, "lastTransitionTime": now}
    for i, old in enumerate(conditions):
        if old.get("type") != condition["type"]:
            continue
        if old.get("status") == condition.get("status"):
            new["lastTransitionTime"] = old.get("lastTransitionTime", now)
        conditions[i] = new
        return new != old
    conditions.append(new)
    return True


def get_condition(obj: Mapping[str, Any], kind: str) -> Obj | None:
    """Return the condition of a type from an object's status, or None."""
    for condition in (obj.get("status") or {}).get("conditions") or []:
        if condition.get("type") == kind:
            return dict(condition)
    return None
