"""What the provider claims, beside what was measured; it changes no verdict and no answer."""

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster.judge.mfu.train_step import UTILISATION
from pytest_gpucluster.measure.collective import size_text
from pytest_gpucluster.plain import plurals

ROWS: Mapping[str, str] = {"products": "MFU-001", "busbw": "FAB-006", "mfu": "MFU-002", "tokens": "MFU-002"}
"""Figure -> the row that measures it."""

UNITS: Mapping[str, str] = {"products": "TFLOP/s", "busbw": "GB/s", "mfu": "", "tokens": "tokens/s"}
"""Figure -> its unit."""

MEASURED = ("pass", "fail", "not_applicable")
"""Verdicts of rows whose figures are figures: what is undecided is no measurement."""


def compared(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each claim of the profile with what this run measured in the same shape.

    Returns:
        For each claim `text`, `figure`, `value`, `unit`, `origin`; `row`, the one that measures it, and its `verdict`
        ("" if it was not decided); `measured`, None if nothing was, then `why` says why; `share`, measured / claimed.
    """
    rows = {row["id"]: row for row in report["requirements"]}
    claims = report["profile"]["values"].get("claims")
    return [_compared(claim, rows) for claim in claims or () if isinstance(claim, Mapping)]


def _compared(claim: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    figure, value = str(claim["figure"]), float(claim["value"])
    row = rows.get(ROWS[figure])
    measured, why = _measured(claim, row, ROWS[figure])
    return {
        "text": _text(claim),
        "figure": figure,
        "value": value,
        "unit": UNITS[figure],
        "origin": str(claim["origin"]),
        "row": ROWS[figure],
        "verdict": "" if row is None else str(row["verdict"]),
        "measured": measured,
        "share": None if measured is None else round(measured / value, 4),
        "why": why,
    }


def _text(claim: Mapping[str, Any]) -> str:
    """Return what is claimed, in words."""
    what = {
        "products": f"{claim.get('format')} products of one GPU",
        "busbw": f"{claim.get('collective')} of {size_text(claim.get('size') or 0)}, bus bandwidth",
        "mfu": "model FLOPs utilisation",
        "tokens": "tokens of one GPU in training",
    }[str(claim["figure"])]
    shape = ", ".join(_shape(claim.get("nodes"), claim.get("gpus")))
    return f"{what}, {shape}" if shape else what


def _shape(nodes: Any, gpus: Any) -> Iterator[str]:
    if nodes is not None:
        yield plurals.count(nodes, "node")
    if gpus is not None:
        yield f"{plurals.count(gpus, 'GPU')} per node"


def _measured(
    claim: Mapping[str, Any], row: Mapping[str, Any] | None, row_id: str
) -> tuple[float | None, str]:
    """Return the measured figure in the shape of a claim, or None and why there is none."""
    if row is None:
        return None, f"{row_id} was not run"
    finding = row["finding"]
    if row["verdict"] not in MEASURED:
        return None, f"{row_id} is {row['verdict']}: {finding['observed']}"
    facts = finding.get("facts") or {}
    shape = facts.get("shape") or {}
    if shape.get("device") == "CPU":
        return None, "what was measured are CPUs, which say nothing of GPUs"
    other = _other_shape(claim, shape)
    if other:
        return None, other
    value = _figure(claim, finding, facts)
    return (value, "") if value is not None else (None, f"{row_id} has no such figure")


def _other_shape(claim: Mapping[str, Any], shape: Mapping[str, Any]) -> str:
    """Return that another shape was measured than is claimed, "" if it was the same or the claim names none."""
    nodes, gpus = shape.get("nodes"), shape.get("gpus") or shape.get("per_node")
    counts = gpus if isinstance(gpus, list) else [gpus]
    same = claim.get("nodes") in (None, nodes) and (claim.get("gpus") is None or counts == [claim["gpus"]])
    if same or not shape:
        return ""
    each = " or ".join(map(str, counts))
    return f"measured on another shape: {plurals.count(nodes or 0, 'node')}, {each} GPUs per node"


def _figure(claim: Mapping[str, Any], finding: Mapping[str, Any], facts: Mapping[str, Any]) -> float | None:
    """Return the figure of the slowest GPU, None if there is none."""
    match claim["figure"]:
        case "products":
            found = ((facts.get("products") or {}).get(claim["format"]) or {}).get("median")
        case "tokens":
            found = (facts.get("training") or {}).get("tokens_per_s")
        case "mfu":
            found = [one["value"] for one in finding["numbers"] if one["name"] == UTILISATION]
        case _:
            found = [
                one.get("busbw")
                for one in facts.get("bandwidth") or ()
                if (one.get("collective"), one.get("size")) == (claim["collective"], claim["size"])
            ]
    values = [float(value) for value in found or () if isinstance(value, int | float)]
    return min(values) if values and len(values) == len(found or ()) else None
