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
    """What one GPU reached in a format: its name, TFLOP/s, the median of its node, and its gauges."""

    name: str
    value: float
    median: float
    gauges: tuple[str, ...]

    @property
    def slow(self) -> bool:
        """Report whether it is slower than its neighbours by more than they differ."""
        return self.value < BAND * self.median


def drawn(facts: Mapping[str, Any]) -> list[tuple[str, Markup]]:
    """Return a drawing of a finding's `products` for each format, with the format's name; none without figures."""
    products, gpus, gauges = facts.get("products"), facts.get("gpus"), facts.get("gauges")
    if not isinstance(products, Mapping) or not isinstance(gpus, list):
        return []
    told = gauges if isinstance(gauges, list) else []
    found = [
        (str(name), _gpus(_numbers(each), list(map(str, gpus)), told)) for name, each in products.items()
    ]
    return [(name, _drawing(name, known)) for name, known in found if known]


def _drawing(name: str, known: Sequence[Gpu]) -> Markup:
    shown = (
        sorted(known, key=lambda gpu: gpu.value / (gpu.median or 1.0))[:MOST] if len(known) > MOST else known
    )
    left_out = len(known) - len(shown)
    height = 22 + _ROW * len(shown) + (18 if left_out else 0)
    return svg.drawing(height, f"{name} products of every GPU in TFLOP/s", _parts(shown, left_out))


def _gpus(values: Sequence[float | None], places: Sequence[str], gauges: Sequence[Any]) -> list[Gpu]:
    """Return the GPUs whose figure is known, each with the median of its node."""
    by_node: dict[str, list[float]] = {}
    known = [
        (index, value) for index, value in enumerate(values) if value is not None and index < len(places)
    ]
    for index, value in known:
        by_node.setdefault(_node(places[index]), []).append(value)
    return [
        Gpu(
            _name(places[index]),
            value,
            statistics.median(by_node[_node(places[index])]),
            tuple(_gauge(gauges[index] if index < len(gauges) else None)),
        )
        for index, value in known
    ]


def _name(place: str) -> str:
    """Return the GPU and its node of a rank's place, such as `GPU 3 on gpu-1`; the place itself if it has neither."""
    found = re.search(r"GPU (\d+).* on (\S+)$", place)
    return f"GPU {found[1]} on {found[2]}" if found else place


def _node(place: str) -> str:
    return place.rpartition(" on ")[2]


def _numbers(told: Any) -> list[float | None]:
    medians = told.get("median") if isinstance(told, Mapping) else None
    return [
        float(value) if isinstance(value, int | float) and math.isfinite(value) and value >= 0 else None
        for value in (medians if isinstance(medians, list) else ())
    ]


def _parts(shown: Sequence[Gpu], left_out: int) -> Iterator[Markup]:
    top = max(gpu.value for gpu in shown) or 1.0
    yield svg.text(_RIGHT + 8, 10, "TFLOP/s, power, clock")
    for row, gpu in enumerate(shown):
        y = 16 + row * _ROW
        kind = "t strong" if gpu.slow else "t"
        yield svg.text(_LEFT - 6, y + 12, svg.short(gpu.name, 30), anchor="end", kind=kind)
        width = (_RIGHT - _LEFT) * gpu.value / top
        told = f"{gpu.name}: {gpu.value:.4g} TFLOP/s"
        yield svg.box(_LEFT, y + 3, width, 11, "bar low" if gpu.slow else "bar", title=told)
        yield svg.text(_RIGHT + 8, y + 12, ", ".join([f"{gpu.value:.4g}", *gpu.gauges]), kind=kind)
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
