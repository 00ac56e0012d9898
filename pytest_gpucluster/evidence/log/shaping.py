"""Objects as the API gives them: a field of another type than it must have says nothing, and is left out."""

from collections.abc import Mapping
from typing import Any

_TOP: Mapping[str, type] = {
    "kind": str, "apiVersion": str, "metadata": dict, "spec": dict, "status": dict, "type": str, "reason": str,
    "message": str, "note": str, "involvedObject": dict, "regarding": dict, "series": dict, "source": dict,
    "lastTimestamp": str, "firstTimestamp": str, "eventTime": str,
}  # fmt: skip
_METADATA: Mapping[str, type] = {
    "name": str, "namespace": str, "uid": str, "resourceVersion": str, "creationTimestamp": str,
    "deletionTimestamp": str, "labels": dict, "annotations": dict, "ownerReferences": list,
}  # fmt: skip
_OWNER: Mapping[str, type] = {"kind": str, "apiVersion": str, "name": str, "uid": str}


def shaped(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object whose well-known fields have the types that the API gives them, itself where they have."""
    made = _typed(obj, _TOP)
    metadata = made.get("metadata")
    if metadata is None:
        return made
    new = _typed(metadata, _METADATA)
    for key in ("labels", "annotations"):
        words = new.get(key)
        if words and not all(type(each) is str for each in words.values()):
            new = {**new, key: {str(k): str(v) for k, v in words.items() if isinstance(v, str | int | float)}}
    owners = new.get("ownerReferences")
    if owners:
        kept = [_typed(one, _OWNER) for one in owners if isinstance(one, Mapping)]
        if len(kept) != len(owners) or any(a is not b for a, b in zip(kept, owners, strict=False)):
            new = {**new, "ownerReferences": kept}
    return made if new is metadata else {**made, "metadata": new}


def _typed(obj: Mapping[str, Any], wanted: Mapping[str, type]) -> Mapping[str, Any]:
    """Return a mapping without fields of a wrong type; a number where a text must be is written as one."""
    made: dict[str, Any] | None = None
    for key, kind in wanted.items():
        value = obj.get(key)
        if value is None or isinstance(value, kind):
            continue
        made = dict(obj) if made is None else made
        if kind is str and isinstance(value, int | float):
            made[key] = str(value)
        else:
            del made[key]
    return obj if made is None else made
