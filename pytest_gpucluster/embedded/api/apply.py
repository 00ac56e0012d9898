"""Server-side apply, as far as drivers and kubectl need it: ownership of fields by manager."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.embedded.api.patch import merge_key
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.plain.copies import clone

Path = tuple[str, ...]
"""Steps to a leaf: `f:field`, or `k:KEY=VALUE` for an item of a list that is merged by key."""

_UNOWNED = frozenset({"apiVersion", "kind"})
_UNOWNED_META = frozenset(
    {"name", "namespace", "managedFields", "resourceVersion", "uid", "creationTimestamp"}
)


def leaves(value: Any, *, merged: bool, path: Path = ()) -> dict[Path, Any]:
    """Return the leaves of an applied object by their path.

    Args:
        value: The object.
        merged: Whether lists of known names are merged by key (built-in kinds) or are one value.
        path: Where `value` stands.
    """
    if isinstance(value, dict) and (value or not path):
        out: dict[Path, Any] = {}
        for key, child in value.items():
            if not path and key in _UNOWNED:
                continue
            if path == ("f:metadata",) and key in _UNOWNED_META:
                continue
            out |= leaves(child, merged=merged, path=(*path, f"f:{key}"))
        return out
    if isinstance(value, list) and merged and value and all(isinstance(i, dict) for i in value):
        key = merge_key(path[-1][2:], value)
        if key is not None and all(key in i for i in value):
            out = {}
            for item in value:
                out |= leaves(item, merged=merged, path=(*path, f"k:{key}={item[key]}"))
            return out
    return {path: value}


def overlay(live: Any, applied: Any, *, merged: bool, field: str = "") -> Any:
    """Return the live object with the applied fields put over it."""
    if isinstance(applied, dict):
        out = dict(live) if isinstance(live, dict) else {}
        for key, value in applied.items():
            out[key] = overlay(out.get(key), value, merged=merged, field=key)
        return out
    if not (isinstance(applied, list) and merged and isinstance(live, list)):
        return clone(applied)
    objects = [*applied, *live]
    key = merge_key(field, objects) if all(isinstance(i, dict) for i in objects) else None
    if key is None:
        return clone(applied)
    out_list = list(live)
    for item in applied:
        at = next((n for n, old in enumerate(out_list) if old.get(key) == item.get(key)), None)
        if at is None:
            out_list.append(clone(item))
        else:
            out_list[at] = overlay(out_list[at], item, merged=merged)
    return out_list


def remove_leaf(obj: Any, path: Path) -> None:
    """Remove what a path leads to, with the containers that it leaves empty, in place."""
    step, rest = path[0], path[1:]
    if step.startswith("f:") and isinstance(obj, dict):
        child = obj.get(step[2:])
        if rest and child is not None:
            remove_leaf(child, rest)
        if not rest or child in ({}, []):
            obj.pop(step[2:], None)
    elif step.startswith("k:") and isinstance(obj, list):
        key, _, value = step[2:].partition("=")
        for item in [i for i in obj if isinstance(i, dict) and str(i.get(key)) == value]:
            # The key itself goes last, together with the item: it is how the other leaves are found.
            if rest and rest != (f"f:{key}",):
                remove_leaf(item, rest)
            if not rest or set(item) <= {key}:
                obj.remove(item)


def _encode(paths: set[Path]) -> Obj:
    out: Obj = {}
    for path in sorted(paths):
        here = out
        for step in path:
            here = here.setdefault(step, {})
    return out


def _decode(fields: Obj, path: Path = ()) -> set[Path]:
    out: set[Path] = set()
    for step, child in fields.items():
        out |= _decode(child, (*path, step)) if child else {(*path, step)}
    return out


def owned_by(obj: Obj) -> dict[str, set[Path]]:
    """Return the paths that each applying manager owns."""
    entries = obj.get("metadata", {}).get("managedFields") or []
    return {e["manager"]: _decode(e.get("fieldsV1") or {}) for e in entries if e.get("operation") == "Apply"}


def apply(live: Obj | None, applied: Obj, *, manager: str, force: bool, merged: bool, now: str) -> Obj:
    """Return the object after an apply.

    Args:
        live: The present object, None to create it.
        applied: What the manager wants.
        manager: Name of the field manager.
        force: Take fields over that another manager has applied with another value.
        merged: Whether lists merge by key (built-in kinds).
        now: The time to note.

    Raises:
        ApiError: 409 naming the fields that another manager owns.
    """
    applied = clone(applied)
    applied.get("metadata", {}).pop("managedFields", None)
    wanted = leaves(applied, merged=merged)
    owned = owned_by(live or {})
    mine = owned.pop(manager, set())
    present = leaves(live or {}, merged=merged)
    for other, paths in owned.items():
        clashes = {p for p in paths & set(wanted) if present.get(p) != wanted[p]}
        if clashes and not force:
            raise _conflict(other, clashes)
        paths.difference_update(clashes)
    out = overlay(live or {}, applied, merged=merged)
    kept = set().union(*owned.values()) if owned else set()
    for path in mine - set(wanted) - kept:
        remove_leaf(out, path)
    owned[manager] = set(wanted)
    out.setdefault("metadata", {})["managedFields"] = [
        {
            "manager": name,
            "operation": "Apply",
            "apiVersion": applied.get("apiVersion", ""),
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": _encode(paths),
        }
        for name, paths in owned.items()
        if paths
    ]
    return dict(out)


def created_fields(obj: Obj, defaults: Callable[[Obj], None], *, manager: str, now: str) -> list[Obj]:
    """Return the note of a create: the fields that were sent, with those that the schema fills in when it is decoded.

    What mutating admission adds later is not in it, as on a real API server; so a reader can tell the two apart.
    """
    decoded = clone(obj)
    defaults(decoded)
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": obj.get("apiVersion", ""),
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": _encode(set(leaves(decoded, merged=False))),
        }
    ]


def _conflict(other: str, clashes: set[Path]) -> ApiError:
    fields = [".".join([""] + [s[2:] for s in p]) for p in sorted(clashes)]
    noun = "conflict" if len(fields) == 1 else "conflicts"
    text = f'Apply failed with {len(fields)} {noun}: {noun} with "{other}": ' + ", ".join(fields)
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{other}"', "field": f} for f in fields
    ]
    return ApiError(409, "Conflict", text, {"causes": causes})
