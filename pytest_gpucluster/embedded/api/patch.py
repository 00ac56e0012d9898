"""The patch types of the API: JSON patch, merge patch, strategic merge patch. Pure functions."""

from typing import Any

from pytest_gpucluster.embedded.errors import ApiError, bad_request
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.plain.copies import clone

MERGE_KEYS = {
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name",
    "volumes": "name", "volumeMounts": "mountPath", "volumeDevices": "devicePath", "conditions": "type",
    "imagePullSecrets": "name", "hostAliases": "ip", "podIPs": "ip", "hostIPs": "ip", "addresses": "type",
    "ownerReferences": "uid", "secrets": "name",
    "topologySpreadConstraints": "topologyKey", "schedulingGates": "name", "resourceClaims": "name",
}  # fmt: skip
"""Lists that a strategic merge patch merges item by item, with the field that names an item."""

PRIMITIVE_MERGED = frozenset({"finalizers"})
"""Lists of texts that a strategic merge patch adds to."""


def merge_patch(target: Any, patch: Any) -> Any:
    """Return a value after a JSON merge patch (RFC 7396): null removes, lists are replaced."""
    if not isinstance(patch, dict):
        return clone(patch)
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


def _pointer(path: Any) -> list[str]:
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise bad_request(f"invalid JSON pointer {path!r}")
    return [p.replace("~1", "/").replace("~0", "~") for p in path.split("/")[1:]]


def _cannot(operation: str, path: object, why: str) -> ApiError:
    return ApiError(
        422, "Invalid", f"the server rejected our request: {operation} operation at {path}: {why}"
    )


def _index(listed: list[Any], step: str, *, end: int) -> int:
    if step == "-":
        return len(listed)
    if not step.isdigit() or int(step) >= end or (len(step) > 1 and step[0] == "0"):
        raise KeyError(step)
    return int(step)


def _walk(document: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(document, list):
            at = _index(document, step, end=len(document))
            if at == len(document):
                raise KeyError(step)
            document = document[at]
        elif isinstance(document, dict):
            document = document[step]
        else:
            raise KeyError(step)
    return document


def _add(document: Any, steps: list[str], value: Any) -> Any:
    if not steps:
        return value
    parent = _walk(document, steps[:-1])
    if isinstance(parent, list):
        parent.insert(_index(parent, steps[-1], end=len(parent) + 1), value)
    elif isinstance(parent, dict):
        parent[steps[-1]] = value
    else:
        raise KeyError(steps[-1])
    return document


def _remove(document: Any, steps: list[str]) -> Any:
    if not steps:
        return None
    parent = _walk(document, steps[:-1])
    if isinstance(parent, list):
        at = _index(parent, steps[-1], end=len(parent))
        if at == len(parent):
            raise KeyError(steps[-1])
        del parent[at]
    elif isinstance(parent, dict):
        del parent[steps[-1]]
    else:
        raise KeyError(steps[-1])
    return document


def _same(a: Any, b: Any) -> bool:
    """Report JSON equality, in which 1 and true differ."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(v, b[k]) for k, v in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def json_patch(target: Any, operations: Any) -> Any:
    """Return a value after a JSON patch (RFC 6902); all operations succeed or none.

    Raises:
        ApiError: 400 for a malformed patch, 422 for a path that is not there or a test that fails.
    """
    if not isinstance(operations, list) or not all(isinstance(o, dict) for o in operations):
        raise bad_request("a JSON patch is a list of operations")
    out = clone(target)
    for operation in operations:
        name, path = operation.get("op"), operation.get("path")
        try:
            out = _operate(out, name, _pointer(path), operation)
        except KeyError as error:
            raise _cannot(str(name), path, f"doc is missing path: missing value {error}") from None
    return out


def _operate(document: Any, name: Any, steps: list[str], operation: Obj) -> Any:
    match name:
        case "add" | "replace" | "test":
            if "value" not in operation:
                raise bad_request(f"JSON patch operation {name!r} needs a value")
            value = clone(operation["value"])
            if name == "add":
                return _add(document, steps, value)
            if name == "test":
                if not _same(_walk(document, steps), value):
                    raise _cannot("testing", operation["path"], "value is different: test failed")
                return document
            if not steps:
                return value
            _walk(document, steps)
            parent = _walk(document, steps[:-1])
            parent[int(steps[-1]) if isinstance(parent, list) else steps[-1]] = value
            return document
        case "remove":
            return _remove(document, steps)
        case "move" | "copy":
            source = _pointer(operation.get("from"))
            if name == "move" and steps[: len(source)] == source and steps != source:
                raise _cannot("move", operation["path"], "a value cannot move into itself")
            value = clone(_walk(document, source))
            if name == "move":
                document = _remove(document, source)
            return _add(document, steps, value)
    raise bad_request(f"unknown JSON patch operation {name!r}")


def strategic_merge(target: Any, patch: Any) -> Any:
    """Return an object after a strategic merge patch.

    Lists of known names are merged by their key; `$patch`, `$setElementOrder`, `$retainKeys` and
    `$deleteFromPrimitiveList` are honoured; other lists are replaced.
    """
    if not isinstance(patch, dict):
        return clone(patch)
    if patch.get("$patch") == "replace":
        return clone({k: v for k, v in patch.items() if k != "$patch"})
    if patch.get("$patch") == "delete":
        return {}
    out = dict(target) if isinstance(target, dict) else {}
    retain = patch.get("$retainKeys")
    if retain is not None:
        out = {k: v for k, v in out.items() if k in retain}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.split("/", 1)[1]
            out[field] = [v for v in out.get(field) or [] if v not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            out.pop(key, None)
        elif isinstance(value, list):
            out[key] = _merge_list(key, out.get(key), value, patch.get(f"$setElementOrder/{key}"))
        elif isinstance(value, dict):
            out[key] = strategic_merge(out.get(key), value)
        else:
            out[key] = value
    return out


def merge_key(field: str, items: list[Any]) -> str | None:
    """Return the field that names an item of a list, None for a list that is one value."""
    if field == "ports":
        objects = [i for i in items if isinstance(i, dict)]
        return "containerPort" if any("containerPort" in i for i in objects) else "port"
    return MERGE_KEYS.get(field)


def _merge_list(field: str, live: Any, patch: list[Any], order: list[Any] | None) -> list[Any]:
    present = live if isinstance(live, list) else []
    if field in PRIMITIVE_MERGED:
        return present + [v for v in patch if v not in present]
    key = merge_key(field, present + patch)
    if key is None or not all(isinstance(i, dict) for i in present + patch):
        return clone(patch)
    out = [] if any(i.get("$patch") == "replace" for i in patch) else list(present)
    for item in patch:
        if item.get("$patch") == "replace":
            continue
        at = next((n for n, old in enumerate(out) if old.get(key) == item.get(key)), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del out[at]
        elif at is None:
            out.append(strategic_merge({}, item))
        else:
            out[at] = strategic_merge(out[at], item)
    if order:
        wanted = [i.get(key) for i in order if isinstance(i, dict)]
        rank = {name: n for n, name in enumerate(wanted)}
        out.sort(key=lambda i: rank.get(i.get(key), len(rank)))
    return out
