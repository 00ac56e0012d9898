"""Amounts of resources by name, as exact numbers."""

import functools
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from pytest_gpucluster.plain.quantities import format_quantity, parse_quantity

Amounts = dict[str, Fraction]
ZERO = Fraction(0)
BINARY_UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
INFINITE = Fraction(2**70)
"""Larger than any quantity; stands for "no limit"."""


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> Fraction:
    return parse_quantity(text)


def amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    """Return a resource list as numbers."""
    return {name: _parsed(str(value)) for name, value in (quantities or {}).items()}


def add(into: Amounts, more: Mapping[str, Fraction], times: int = 1) -> None:
    """Add amounts in place, `times` times (negative to take away)."""
    for name, value in more.items():
        into[name] = into.get(name, ZERO) + value * times


def total(parts: Iterable[Mapping[str, Fraction]]) -> Amounts:
    """Return the sum of several amounts."""
    out: Amounts = {}
    for part in parts:
        add(out, part)
    return out


def lacking(want: Mapping[str, Fraction], have: Mapping[str, Fraction], only: Iterable[str]) -> list[str]:
    """Return the names among `only`, sorted, of which more is wanted than there is."""
    return sorted(name for name in only if want.get(name, ZERO) > have.get(name, ZERO))


def container_requests(container: Mapping[str, Any]) -> Amounts:
    """Return what a container requests; a limit stands in for a missing request, as the API server does it."""
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """Return what a pod requests: the sum of its containers, or its largest init container if that is more."""
    return _of_pod(spec, container_requests)


def stated_requests(spec: Mapping[str, Any]) -> Amounts:
    """Return the same of a pod template, of which the API server has filled in nothing: limits do not count."""
    return _of_pod(spec, lambda container: amounts((container.get("resources") or {}).get("requests")))


def _of_pod(spec: Mapping[str, Any], of: Callable[[Mapping[str, Any]], Amounts]) -> Amounts:
    out = total(of(c) for c in spec.get("containers") or [])
    for init in spec.get("initContainers") or []:
        for name, value in of(init).items():
            out[name] = max(out.get(name, ZERO), value)
    return {name: value for name, value in out.items() if value > 0}


def pod_limits(spec: Mapping[str, Any]) -> Amounts:
    """Return the sum of the limits of a pod's containers."""
    return total(amounts((c.get("resources") or {}).get("limits")) for c in spec.get("containers") or [])


def show(name: str, value: Fraction) -> str:
    """Return a quantity as the API server would write it: memory in binary units where it divides."""
    if "memory" not in name or value.denominator != 1 or value == 0:
        return format_quantity(value)
    number, unit = value.numerator, ""
    for larger in BINARY_UNITS:
        if number % 1024:
            break
        number, unit = number // 1024, larger
    return f"{number}{unit}"


def show_all(values: Mapping[str, Fraction]) -> dict[str, str]:
    """Return amounts as a resource list, sorted by name."""
    return {name: show(name, values[name]) for name in sorted(values)}
