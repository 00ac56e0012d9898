"""Changes: what a watch event or an item of a list must be, and what leads from one list to the next."""

import json
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.kube import errors

Obj = dict[str, Any]

TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})


def event(line: bytes, plural: str) -> tuple[str, Obj]:
    """Return change and object of a line of a watch.

    Raises:
        Unreachable: it is no watch event: the stream is not to be trusted, and is to be opened again before it.
    """
    try:
        parsed = json.loads(line)
        change, obj = parsed["type"], parsed["object"]
        metadata = obj if change == "ERROR" else obj["metadata"]
        whole = change in TYPES and isinstance(obj, dict) and isinstance(metadata, dict)
        whole = whole and (change in {"ERROR", "BOOKMARK"} or isinstance(metadata["name"], str))
    except (ValueError, LookupError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise errors.Unreachable(f"watch {plural}: no watch event: {line[:80]!r}")
    return change, obj


def named(item: object, plural: str) -> Obj:
    """Return an item of a list.

    Raises:
        Unreachable: it is no object with a name.
    """
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if (
        not isinstance(item, dict)
        or not isinstance(metadata, dict)
        or not isinstance(metadata.get("name"), str)
    ):
        raise errors.Unreachable(f"list {plural}: no object: {repr(item)[:80]}")
    return item


def differences(
    before: Mapping[tuple[str, str], Obj], after: Mapping[tuple[str, str], Obj]
) -> list[tuple[str, Obj]]:
    """Return the changes that lead from one state to another: deletions first, then in the list's order.

    A changed uid under the same name is a deletion and an addition. An object whose version is the same is no change.
    """
    changes: list[tuple[str, Obj]] = []
    for key, old in before.items():
        new = after.get(key)
        if new is None or uid(new) != uid(old):
            changes.append(("DELETED", old))
    for key, new in after.items():
        known = before.get(key)
        if known is None or uid(known) != uid(new):
            changes.append(("ADDED", new))
        elif version(known) != version(new):
            changes.append(("MODIFIED", new))
    return changes


def reaches(found: str, wanted: str) -> bool:
    """Report whether a version is another or a later one; of versions that are no numbers, whether it is the same."""
    if found.isdigit() and wanted.isdigit():
        return int(found) >= int(wanted)
    return bool(wanted) and found == wanted


def place(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name of an object."""
    metadata = obj.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def uid(obj: Mapping[str, Any]) -> str:
    """Return the uid of an object."""
    return str((obj.get("metadata") or {}).get("uid") or "")


def version(obj: Mapping[str, Any]) -> str:
    """Return the version of an object."""
    return str((obj.get("metadata") or {}).get("resourceVersion") or "")
