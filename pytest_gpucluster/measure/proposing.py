"""Floors that measured figures propose: the lowest of accepted runs less a margin, with where they come from."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gpucluster.measure import floors, peaks, samples
from pytest_gpucluster.plain import plurals

LEAST_SPREAD = 0.02
"""Healthy GPUs differ by so much in any run: a smaller bound would fail them."""
SPREAD_FACTOR = 1.5
SIZES = (1 << 24, 1 << 30)
"""Sizes from which on floors of bandwidth are proposed: where the curve bends, and where it is flat."""


class ProposalError(Exception):
    """Reports from which no floor can be proposed; the text is one line."""


def profile(reports: Sequence[Mapping[str, Any]], margin: float) -> dict[str, Any]:
    """Return what goes into a profile: sections `mfu` and `fabric`.

    Args:
        reports: figures of reports, as `baseline.figures_of` returns them.
        margin: what is left below the lowest figure, as part of it.

    Raises:
        ProposalError: the reports are of different shapes, or hold no figure of a GPU.
    """
    origins = [str(one.get("origin")) for one in reports]
    for part in ("products", "training", "bandwidth"):
        _alike(part, reports, origins)
    runs = plurals.count(len(reports), "run")
    origin = f"{1 - margin:g} of the lowest in {runs}: {'; '.join(origins)}"
    mfu = {**_products(reports, margin, origin), **_training(reports, margin, origin)}
    fabric = _bandwidth(reports, margin, origin)
    if not mfu and not fabric:
        raise ProposalError("the reports have no figure of a GPU: floors are not made from figures of CPUs")
    return {**({"mfu": mfu} if mfu else {}), **({"fabric": fabric} if fabric else {})}


def _parts(reports: Sequence[Mapping[str, Any]], part: str) -> list[Mapping[str, Any]]:
    return [one[part] for one in reports if isinstance(one.get(part), Mapping)]


def _alike(part: str, reports: Sequence[Mapping[str, Any]], origins: Sequence[str]) -> None:
    """Raise where the reports are of nodes that differ."""
    shapes = [
        (one[part].get("shape"), origin) for one, origin in zip(reports, origins, strict=True) if part in one
    ]
    for shape, origin in shapes[1:]:
        first = shapes[0][0]
        if shape != first and isinstance(shape, Mapping) and isinstance(first, Mapping):
            key = next((key for key in {**first, **shape} if first.get(key) != shape.get(key)), "?")
            raise ProposalError(
                f"figures of {part} come from different nodes: {key} is {first.get(key)!r} in {shapes[0][1]} and "
                f"{shape.get(key)!r} in {origin}"
            )


def _device(parts: Sequence[Mapping[str, Any]]) -> str:
    shape = parts[0].get("shape") if parts else None
    name = str(shape.get("device") or "") if isinstance(shape, Mapping) else ""
    return "" if name == "CPU" else name


def _products(reports: Sequence[Mapping[str, Any]], margin: float, origin: str) -> dict[str, Any]:
    parts = _parts(reports, "products")
    device = _device(parts)
    if not device:
        return {}
    listed = []
    apart = []
    for name in peaks.FORMATS:
        figures = [one["products"][name] for one in parts if name in (one.get("products") or {})]
        low = [value for one in figures for value in samples.finite(one.get("p5") or [])]
        if low:
            floor = {"format": name, "tflops": floors.proposed(low, margin), "device": device}
            listed.append({**floor, "origin": f"{origin}; 5th percentile of the slowest GPU {min(low):.4g}"})
        apart += [samples.spread(samples.finite(one.get("median") or [])) for one in figures]
    if not listed:
        return {}
    bound = max(LEAST_SPREAD, math.ceil(1000 * SPREAD_FACTOR * max(apart, default=0.0)) / 1000)
    return {"floors": listed, "spread": min(bound, 1.0)}


def _training(reports: Sequence[Mapping[str, Any]], margin: float, origin: str) -> dict[str, Any]:
    parts = _parts(reports, "training")
    device = _device(parts)
    trained = [one["training"] for one in parts if isinstance(one.get("training"), Mapping)]
    if not device or not trained:
        return {}
    for other in trained[1:]:
        if other.get("size") != trained[0].get("size"):
            raise ProposalError(
                "figures of training come from different models: propose from runs of one size"
            )
    low = [value for one in trained for value in samples.finite(one.get("tflops") or [])]
    found = peaks.look_up(device)
    peak = found.peak(str(trained[0].get("format")))
    if not low or peak is None or not found.certain:
        return {}
    share = floors.proposed(low, margin) / peak
    size = dict(trained[0].get("size") or {})
    nodes = parts[0]["shape"].get("nodes") or 1
    text = f"{origin}; slowest rank {min(low):.4g} of {peak:g} TFLOP/s"
    model = {"nodes": nodes, **size, "recompute": bool(trained[0].get("recompute"))}
    return {"training": {**model, "mfu": float(f"{share:.3g}"), "origin": text}}


def _bandwidth(reports: Sequence[Mapping[str, Any]], margin: float, origin: str) -> dict[str, Any]:
    parts = _parts(reports, "bandwidth")
    if not _device(parts):
        return {}
    shape = parts[0]["shape"]
    kept = ("nodes", "gpus", "nics", "nic_gbps", "link_gbs", "transport", "device")
    own = {key: shape[key] for key in kept if shape.get(key) not in (None, "")}
    found: dict[tuple[str, int], list[float]] = {}
    for one in parts:
        for figure in one.get("bandwidth") or []:
            rate = samples.number(figure.get("busbw"))
            if rate is not None and rate > 0:
                found.setdefault((str(figure.get("collective")), int(figure.get("size") or 0)), []).append(
                    rate
                )
    listed: list[dict[str, Any]] = []
    for name in dict.fromkeys(name for name, _ in found):
        sizes = sorted(size for other, size in found if other == name)
        for least in SIZES:
            above = [size for size in sizes if size >= least]
            if not above:
                continue
            low = min(rate for size in above for rate in found[name, size])
            floor = {"collective": name, "size": above[0], "busbw": floors.proposed([low], margin), **own}
            if not listed or listed[-1]["size"] != floor["size"] or listed[-1]["collective"] != name:
                listed.append({**floor, "origin": origin})
    return {"floors": listed} if listed else {}
