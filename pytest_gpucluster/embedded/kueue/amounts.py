"""Amounts of resources as Kueue counts and writes them."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from pytest_gpucluster.plain.quantities import QuantityError, format_quantity, parse_quantity

Amounts = dict[str, Fraction]
ZERO = Fraction(0)
BINARY_UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
DECIMAL_UNITS = ("k", "M", "G", "T", "P", "E")
BYTES = ("memory", "storage", "ephemeral-storage")


def amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    """Return a resource list as numbers."""
    return {name: parse_quantity(str(value)) for name, value in (quantities or {}).items()}


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """Return what one pod asks for: the sum of its containers, or its largest init container if that is more."""
    out: Amounts = {}
    for container in spec.get("containers") or []:
        for name, value in _container(container).items():
            out[name] = out.get(name, ZERO) + value
    for container in spec.get("initContainers") or []:
        for name, value in _container(container).items():
            out[name] = max(out.get(name, ZERO), value)
    return {name: value for name, value in out.items() if value > 0}


def _container(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def show(name: str, value: Fraction) -> str:
    """Return an amount as the API server writes it: bytes in binary units, all else in decimal ones."""
    binary = name in BYTES or name.startswith("hugepages-")
    if value.denominator != 1 or value == 0:
        return format_quantity(value)
    base, units = (1024, BINARY_UNITS) if binary else (1000, DECIMAL_UNITS)
    number, unit = value.numerator, ""
    for larger in units:
        if number % base:
            break
        number, unit = number // base, larger
    return f"{number}{unit}"


def show_all(values: Mapping[str, Fraction]) -> dict[str, str]:
    """Return amounts as a resource list, sorted by name."""
    return {name: show(name, values[name]) for name in sorted(values)}


def canonical(name: str, text: object) -> str:
    """Return a quantity as a client written in Go sends it back; what is none is left for the schema to refuse."""
    try:
        return show(name, parse_quantity(str(text)))
    except QuantityError:
        return str(text)


def is_quantity(text: object) -> bool:
    """Report whether a value is a quantity."""
    try:
        parse_quantity(str(text))
    except QuantityError:
        return False
    return True


def total(parts: Iterable[Mapping[str, Fraction]]) -> Amounts:
    """Return the sum of several amounts."""
    out: Amounts = {}
    for part in parts:
        for name, value in part.items():
            out[name] = out.get(name, ZERO) + value
    return out
