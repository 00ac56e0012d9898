"""What a write may change, and when it counts as a change."""

import secrets
from typing import Any

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.errors import Cause
from pytest_gpucluster.embedded.names import (
    LABEL_RULE,
    LABEL_VALUE_RULE,
    QUALIFIED_RULE,
    SUBDOMAIN_RULE,
    is_label,
    is_label_value,
    is_qualified,
    is_subdomain,
)
from pytest_gpucluster.embedded.objects import (
    Obj,
    annotations_of,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
)
from pytest_gpucluster.embedded.resources import ResourceType
from pytest_gpucluster.plain.copies import clone

_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName")
_LABEL_NAMED = frozenset({"Namespace", "Service"})
_PATH_NAMED = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})


def check_metadata(row: ResourceType, obj: Obj) -> list[Cause]:
    """Return what is wrong with an object's name and labels."""
    name = name_of(obj)
    out: list[Cause] = []
    if not name:
        out.append(errors.required("metadata.name", "name or generateName is required"))
    elif row.kind in _LABEL_NAMED:
        if not is_label(name):
            out.append(errors.bad_value("metadata.name", name, LABEL_RULE))
    elif row.kind not in _PATH_NAMED and not is_subdomain(name):
        out.append(errors.bad_value("metadata.name", name, SUBDOMAIN_RULE))
    for key, value in labels_of(obj).items():
        if not is_qualified(key):
            out.append(errors.bad_value("metadata.labels", key, QUALIFIED_RULE))
        if not isinstance(value, str):
            continue
        if not is_label_value(value):
            out.append(errors.bad_value("metadata.labels", value, LABEL_VALUE_RULE))
    out += [
        errors.bad_value("metadata.annotations", key, QUALIFIED_RULE)
        for key in annotations_of(obj)
        if not is_qualified(key.lower())
    ]
    return out


def check_same_object(row: ResourceType, old: Obj, new: Obj) -> None:
    """Refuse a write that means another object or a stale version.

    Raises:
        ApiError: 409.
    """
    meta, name = new.get("metadata", {}), name_of(old)
    if meta.get("uid") and meta["uid"] != old["metadata"]["uid"]:
        why = (
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: "
            f"{old['metadata']['uid']}"
        )
        raise errors.conflict(row.plural, row.group, name, why)
    given = meta.get("resourceVersion")
    if given and given != old["metadata"]["resourceVersion"]:
        raise errors.conflict(row.plural, row.group, name)


def merge_for_update(row: ResourceType, old: Obj, new: Obj, subresource: str | None) -> Obj:
    """Return what a write of `new` stores: fields that it must not change come from `old`."""
    new["apiVersion"], new["kind"] = row.api_version, row.kind
    meta = new.setdefault("metadata", {})
    if subresource == "status":
        out = clone(old)
        if "status" in new:
            out["status"] = new["status"]
        else:
            out.pop("status", None)
        if not row.custom:
            for field in ("labels", "annotations", "finalizers"):
                _take(out["metadata"], meta, field)
        return out
    for field in _KEPT:
        _take(meta, old["metadata"], field)
    for field in ("generation", "resourceVersion"):
        _take(meta, old["metadata"], field)
    if row.has_status and subresource != "binding":
        _take(new, old, "status")
    return new


def _take(into: Obj, source: Obj, field: str) -> None:
    if field in source:
        into[field] = clone(source[field])
    else:
        into.pop(field, None)


def next_generation(row: ResourceType, old: Obj, new: Obj) -> int:
    """Return the generation after a write: one more when what is wanted has changed.

    A custom type without a status sub-resource counts every change outside metadata.
    """
    present = int(old["metadata"].get("generation") or 1)
    unwanted = {"metadata", "apiVersion", "kind"}
    if row.has_status:
        unwanted.add("status")
    changed = {k: v for k, v in old.items() if k not in unwanted} != {
        k: v for k, v in new.items() if k not in unwanted
    }
    return present + 1 if changed else present


def same_content(old: Obj, new: Obj) -> bool:
    """Report whether two states of an object differ in nothing but bookkeeping."""
    return _content(old) == _content(new)


def _content(obj: Obj) -> dict[str, Any]:
    meta = {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", "managedFields")}
    return {**obj, "metadata": meta}


def check_namespace(row: ResourceType, obj: Obj, namespace: Obj | None) -> None:
    """Check that an object may be made in its namespace.

    Raises:
        ApiError: there is no such namespace, or it is being deleted.
    """
    name = namespace_of(obj)
    if namespace is None:
        raise errors.not_found("namespaces", "", name)
    if is_deleting(namespace):
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause = errors.cause(
            "metadata.namespace", "NamespaceTerminating", f"namespace {name} is being terminated"
        )
        raise errors.forbidden(row.plural, row.group, name_of(obj), why, [cause])


NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names: no vowels, so that no word appears."""


def generated_name(start: str) -> str:
    """Return a name with a random end of five letters."""
    return start[:58] + "".join(secrets.choice(NAME_ALPHABET) for _ in range(5))
