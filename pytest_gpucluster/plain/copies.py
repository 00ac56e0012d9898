"""Copies of JSON values, such as objects of Kubernetes and lines of a recording."""

from typing import TypeVar, cast

T = TypeVar("T")


def clone(value: T) -> T:
    """Return a deep copy of a JSON value.

    Several times faster than `copy.deepcopy`, because JSON values hold no cycles and no other types.
    """
    if isinstance(value, dict):
        return cast("T", {k: clone(v) for k, v in value.items()})
    if isinstance(value, list):
        return cast("T", [clone(v) for v in value])
    return value
