"""Every GPU's matrix products: a bar per GPU and format, with watts and MHz beside it, and the slow ones named."""

import dataclasses
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_gpucluster.report.drawings import svg

BAND = 0.98
"""Share of the median of its node under which a GPU is named."""
MOST = 64
"""GPUs that are drawn; the slowest first if there are more."""
_LEFT, _RIGHT, _ROW = 190, 520, 18


@dataclasses.dataclass(frozen=True)
class Gpu:
    """What one GPU reached in a format.

    Attributes:
        index: its place in the lists of the finding.
        value: its TFLOP/s.
        median: that of its node.
    """

    index: int
    value: float
    median: float

    @property
    def slow(self) -> bool:
        """Report whether it is slower than its neighbours by more than they differ."""
        return self.value < BAND * self.median


def drawn(facts: Mapping[str, Any]) -> list[tuple[str, Markup]]:
    """Return a drawing of a finding's `products` for each format, with the format's name; none without figures."""
    products, gpus, gauges = facts.get("products"), facts.get("gpus"), facts.get("gauges")
    if not isinstance(products, Mapping) or not isinstance(gpus, list):
        return []
    places = list(map(str, gpus))
    found = [(str(name), _gpus(_numbers(each), places)) for name, each in products.items()]
    about = _About(places, gauges if isinstance(gauges, list) else [])
    return [(name, _drawing(name, known, about)) for name, known in found if known]


@dataclasses.dataclass(frozen=True)
class _About:
    """Where the GPUs of a finding are, and their gauges."""

    places: Sequence[str]
    gauges: Sequence[Any]


def _drawing(name: str, known: Sequence[Gpu], about: _About) -> Markup:
    shown = (
        sorted(known, key=lambda gpu: gpu.value / (gpu.median or 1.0))[:MOST] if len(known) > MOST else known
    )
    left_out = len(known) - len(shown)
    height = 22 + _ROW * len(shown) + (18 if left_out else 0)
    return svg.drawing(height, f"{name} products of every GPU in TFLOP/s", _parts(shown, left_out, about))


def _gpus(values: Sequence[float | None], places: Sequence[str]) -> list[Gpu]:
    """Return the GPUs whose figure is known, each with the median of its node."""
    by_node: dict[str, list[tuple[int, float]]] = {}
    for index, (place, value) in enumerate(zip(places, values, strict=False)):
        if value is not None:
            by_node.setdefault(place.rpartition(" on ")[2], []).append((index, value))
    found = []
    for members in by_node.values():
        median = statistics.median(value for _, value in members)
        found += [Gpu(index, value, median) for index, value in members]
    return sorted(found, key=lambda gpu: gpu.index)


def _name(place: str) -> str:
    """Return the GPU and its node of a rank's place, such as `GPU 3 on gpu-1`; the place itself if it has neither."""
    found = re.search(r"GPU (\d+).* on (\S+)$", place)
    return f"GPU {found[1]} on {found[2]}" if found else place


def _numbers(told: Any) -> list[float | None]:
    medians = told.get("median") if isinstance(told, Mapping) else None
    return [
        float(value) if isinstance(value, int | float) and math.isfinite(value) and value >= 0 else None
        for value in (medians if isinstance(medians, list) else ())
    ]


def _parts(shown: Sequence[Gpu], left_out: int, about: _About) -> Iterator[Markup]:
    top = max(gpu.value for gpu in shown) or 1.0
    yield svg.text(_RIGHT + 8, 10, "TFLOP/s, power, clock")
    for row, gpu in enumerate(shown):
        y = 16 + row * _ROW
        kind, name = "t strong" if gpu.slow else "t", _name(about.places[gpu.index])
        gauges = _gauge(about.gauges[gpu.index] if gpu.index < len(about.gauges) else None)
        yield svg.text(_LEFT - 6, y + 12, svg.short(name, 30), anchor="end", kind=kind)
        width = (_RIGHT - _LEFT) * gpu.value / top
        told = f"{name}: {gpu.value:.4g} TFLOP/s"
        yield svg.box(_LEFT, y + 3, width, 11, "bar low" if gpu.slow else "bar", title=told)
        yield svg.text(_RIGHT + 8, y + 12, ", ".join([f"{gpu.value:.4g}", *gauges]), kind=kind)
        if gpu.slow:
            under = f"{1 - gpu.value / gpu.median:.1%} under its node's median"
            yield svg.text(_LEFT + 6, y + 12, under, kind="t strong")
    if left_out:
        bottom = 16 + len(shown) * _ROW + 14
        yield svg.text(0, bottom, f"{left_out} more GPUs, nearer to the median of their nodes, are not drawn")


def _gauge(told: Any) -> Iterator[str]:
    for key, unit in (("watts", "W"), ("sm_mhz", "MHz")):
        value = told.get(key) if isinstance(told, Mapping) else None
        # Least, median and most of what was sampled.
        value = value[1] if isinstance(value, list) and len(value) == 3 else value
        if isinstance(value, int | float) and math.isfinite(value):
            yield f"{value:.0f} {unit}"
