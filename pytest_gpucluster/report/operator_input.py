"""What was measured and has no target: only the operator knows what the hardware was sold to do.

Each figure is named with the part of a profile in which its target is declared, in the shape in which it was measured;
the target itself is left open: what was measured is no target.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_gpucluster.report import text
from pytest_gpucluster.requirement import Number

OPEN = "..."
"""What the operator fills in."""

CLEAN = ("pass", "not_applicable")
"""Verdicts of rows whose figures are clean."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A clean measurement without a declared target.

    Attributes:
        row: id of the row.
        measured: what was measured, with its unit.
        declare: what is to be declared, as a part of a profile; "" if no part of a profile can hold a target.
    """

    row: str
    measured: str
    declare: str


def wanted(report: Mapping[str, Any]) -> list[Wanted]:
    """Return the figures of decided rows that have no target, in the order of the rows."""
    found: list[Wanted] = []
    for row in report["requirements"]:
        if row["verdict"] in CLEAN and not _of_cpus(row):
            found += _FIGURES.get(row["id"], _others)(row)
    return found


def _of_cpus(row: Mapping[str, Any]) -> bool:
    """Report whether the figures are of CPUs: they need no target, they say nothing of GPUs."""
    shape = (row["finding"].get("facts") or {}).get("shape") or {}
    return shape.get("device") == "CPU" or "CPU" in str(row["finding"]["observed"])


def _numbers(row: Mapping[str, Any]) -> list[Number]:
    """Return what was measured and is compared with nothing."""
    numbers = [Number(**each) for each in row["finding"].get("numbers") or ()]
    return [one for one in numbers if one.value is not None and one.bound is None]


def _products(row: Mapping[str, Any]) -> Iterator[Wanted]:
    facts = row["finding"].get("facts") or {}
    device = (facts.get("shape") or {}).get("device") or OPEN
    open_numbers = [one for one in _numbers(row) if one.unit == "TFLOP/s"]
    for name in facts.get("products") or {}:
        for one in open_numbers:
            if one.name.startswith(f"{name} products"):
                declare = (
                    f"mfu: {{floors: [{{format: {name}, tflops: {OPEN}, device: {device}, origin: {OPEN}}}]}}"
                )
                yield Wanted(row["id"], _measured(one), declare)
    for one in _numbers(row):
        if one.name.startswith("spread of"):
            yield Wanted(row["id"], _measured(one), f"mfu: {{spread: {OPEN}}}")


def _bandwidth(row: Mapping[str, Any]) -> Iterator[Wanted]:
    """Yield the largest size of each collective: one floor holds for it and all above."""
    facts = row["finding"].get("facts") or {}
    shape = facts.get("shape") or {}
    largest: dict[str, Mapping[str, Any]] = {}
    for each in facts.get("bandwidth") or ():
        if each["size"] >= largest.get(each["collective"], each)["size"]:
            largest[each["collective"]] = each
    for name, each in largest.items():
        if each.get("floor") is None and each.get("busbw") is not None:
            where = f"nodes: {shape.get('nodes')}, gpus: {shape.get('gpus')}, device: {shape.get('device') or OPEN}"
            yield Wanted(
                row["id"],
                f"{name} of {each['size']} bytes: {each['busbw']:.4g} GB/s bus bandwidth",
                f"fabric: {{floors: [{{collective: {name}, size: {each['size']}, busbw: {OPEN}, {where}, "
                f"origin: {OPEN}}}]}}",
            )


def _training(row: Mapping[str, Any]) -> Iterator[Wanted]:
    for one in _numbers(row):
        if one.unit == "":
            yield Wanted(row["id"], _measured(one), f"mfu: {{training: {{mfu: {OPEN}, origin: {OPEN}}}}}")


def _spreads(row: Mapping[str, Any]) -> Iterator[Wanted]:
    for one in _numbers(row):
        yield Wanted(row["id"], _measured(one), f"{one.name.replace(' ', '_')}: {OPEN}")


def _recovery(row: Mapping[str, Any]) -> Iterator[Wanted]:
    for one in _numbers(row):
        yield Wanted(row["id"], _measured(one), f"recovery: {OPEN}")


def _others(row: Mapping[str, Any]) -> Iterator[Wanted]:
    """Yield the figures of a row that does not apply for want of a declaration, and says so."""
    if row["verdict"] == "not_applicable" and "declared" in str(row["finding"]["observed"]):
        for one in _numbers(row):
            yield Wanted(row["id"], _measured(one), "")


def _measured(number: Number) -> str:
    """Return a figure as words, without that nothing is declared: that is what the table says."""
    return text.number_text(number).removesuffix(" (no limit declared)")


_FIGURES: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Wanted]]] = {
    "MFU-001": _products,
    "MFU-002": _training,
    "FAB-006": _bandwidth,
    "GANG-007": _spreads,
    "GANG-010": _recovery,
}
"""Row -> its figures whose targets have a place in a profile."""
