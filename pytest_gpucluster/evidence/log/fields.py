"""Reading of Kubernetes objects that may lack any field: absent, null and of another type all read as empty."""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pytest_gpucluster.plain import quantities

Object = Mapping[str, Any]

_DIGITS = re.compile(r"[0-9]{1,19}")
"""A whole number as the API writes it: 64 bits at most."""


def sub(obj: object, *path: str) -> Object:
    """Return the mapping at a path, empty where something is missing."""
    for key in path:
        obj = obj.get(key) if _is_mapping(obj) else None  # type: ignore[attr-defined]
    return obj if _is_mapping(obj) else {}  # type: ignore[return-value]


def _is_mapping(obj: object) -> bool:
    """Report whether something is a mapping; the check against `dict` is many times cheaper and mostly enough."""
    return isinstance(obj, dict) or (obj is not None and isinstance(obj, Mapping))


def items(obj: object, *path: str) -> list[Object]:
    """Return the mappings of the list at a path, none where something is missing."""
    value = sub(obj, *path[:-1]).get(path[-1]) if path else obj
    return [one for one in value if _is_mapping(one)] if isinstance(value, list | tuple) else []


def text(obj: object, *path: str) -> str:
    """Return the text at a path, "" where something is missing."""
    value = sub(obj, *path[:-1]).get(path[-1])
    return "" if value is None else str(value)


def number(obj: object, *path: str) -> int | None:
    """Return the whole number at a path, None where there is none."""
    value = sub(obj, *path[:-1]).get(path[-1])
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        return int(value)
    return None


def owner(obj: Object) -> Object:
    """Return the controlling owner reference, else the first one, else an empty mapping."""
    refs = items(obj, "metadata", "ownerReferences")
    return next((ref for ref in refs if ref.get("controller")), refs[0] if refs else {})


def group_of(api_version: str) -> str:
    """Return the API group of an apiVersion, "" for the core group."""
    return api_version.partition("/")[0] if "/" in api_version else ""


def condition(obj: Object, kind: str) -> Object:
    """Return a condition of an object by type, empty where there is none."""
    return next((c for c in items(obj, "status", "conditions") if c.get("type") == kind), {})


def containers(obj: Object) -> Iterator[Object]:
    """Yield the regular containers of a pod."""
    yield from items(obj, "spec", "containers")


def requested(pod: Object, resource: str) -> Fraction:
    """Return how much of a resource a pod asks for (requests, else limits), 0 for what cannot be read."""
    total = Fraction(0)
    for container in containers(pod):
        wanted = sub(container, "resources", "requests").get(resource)
        if wanted is None:
            wanted = sub(container, "resources", "limits").get(resource)
        if wanted is not None:
            total += quantity(wanted)
    return total


def demands(pod: Object) -> dict[str, Fraction]:
    """Return all that a node must have free for a pod, by resource, as schedulers count it.

    That is the sum of its containers and sidecars, or what one of its init containers asks for if that is more, and
    the overhead of its runtime class; what is stated for the pod as a whole replaces the sum.
    """
    total: dict[str, Fraction] = {}
    for container in containers(pod):
        _add(total, _asked(container))
    beside: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in items(pod, "spec", "initContainers"):
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            _add(beside, asked)
            asked = {}
        for resource in {*beside, *asked}:
            here = beside.get(resource, Fraction(0)) + asked.get(resource, Fraction(0))
            peak[resource] = max(peak.get(resource, Fraction(0)), here)
    _add(total, beside)
    for resource, most in peak.items():
        total[resource] = max(total.get(resource, Fraction(0)), most)
    total |= _asked(sub(pod, "spec"))
    _add(total, {str(key): quantity(value) for key, value in sub(pod, "spec", "overhead").items()})
    return {resource: value for resource, value in total.items() if value > 0}


def _asked(container: Object) -> dict[str, Fraction]:
    """Return what a container asks for: requests, and limits where there is no request."""
    resources = sub(container, "resources")
    return {
        str(key): quantity(value)
        for key, value in {**sub(resources, "limits"), **sub(resources, "requests")}.items()
    }


def _add(total: dict[str, Fraction], more: dict[str, Fraction]) -> None:
    for resource, value in more.items():
        total[resource] = total.get(resource, Fraction(0)) + value


def amount(value: object) -> Fraction | None:
    """Return a quantity, None for what is none."""
    try:
        return quantities.parse_quantity(value)  # type: ignore[arg-type]
    except quantities.QuantityError:
        return None


def quantity(value: object) -> Fraction:
    """Return a quantity, 0 for what is none."""
    return amount(value) or Fraction(0)


def resources(pod: Object) -> tuple[str, ...]:
    """Return the resources that a pod or template asks for, in order of the containers."""
    found: dict[str, None] = {}
    for container in containers(pod):
        for part in ("limits", "requests"):
            found.update({str(key): None for key in sub(container, "resources", part)})
    return tuple(found)


def scarce_resources(pod: Object) -> tuple[str, ...]:
    """Return the extended resources (GPUs, slots) that a pod asks for, in order of the containers."""
    return tuple(resource for resource in resources(pod) if "/" in resource)
