"""Every GPU's matrix products: a bar per GPU and format, with watts and MHz beside it, and the slow ones named."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_gpucluster.report.drawings import svg

BAND = 0.98
"""Share of the median of its node under which a GPU is named."""
MOST = 64
"""GPUs that are drawn; the slowest first if there are more."""
_LEFT, _RIGHT, _ROW = 190, 520, 18


def drawn(facts: Mapping[str, Any]) -> Markup | None:
    """Return the drawing of a finding's `products`, None without one; the format with the most figures is drawn."""
    products, gpus = facts.get("products"), facts.get("gpus")
    if not isinstance(products, Mapping) or not isinstance(gpus, list) or not products:
        return None
    name, values = max(
        ((str(name), _numbers(each)) for name, each in products.items()),
        key=lambda pair: sum(value is not None for value in pair[1]),
    )
    known = [(index, value) for index, value in enumerate(values) if value is not None and index < len(gpus)]
    if not known:
        return None
    known = sorted(known, key=lambda pair: pair[1])[:MOST] if len(known) > MOST else known
    gauges = facts.get("gauges")
    parts = _parts(known, [_name(str(gpu)) for gpu in gpus], gauges if isinstance(gauges, list) else [])
    return svg.drawing(22 + _ROW * len(known), f"{name} products of every GPU in TFLOP/s", parts)


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


def _parts(
    known: Sequence[tuple[int, float]], gpus: Sequence[str], gauges: Sequence[Any]
) -> Iterator[Markup]:
    top = max(value for _, value in known) or 1.0
    middle = sorted(value for _, value in known)[len(known) // 2]
    yield svg.text(_RIGHT + 8, 10, "TFLOP/s, power, clock")
    for row, (index, value) in enumerate(known):
        y = 16 + row * _ROW
        slow = value < BAND * middle
        width = (_RIGHT - _LEFT) * value / top
        yield svg.text(
            _LEFT - 6, y + 12, svg.short(gpus[index], 30), anchor="end", kind="t strong" if slow else "t"
        )
        yield svg.box(
            _LEFT, y + 3, width, 11, "bar low" if slow else "bar", title=f"{gpus[index]}: {value:.1f} TFLOP/s"
        )
        words = [f"{value:.1f}", *_gauge(gauges[index] if index < len(gauges) else None)]
        words += [f"{100 * (1 - value / middle):.1f} % under the median"] if slow else []
        yield svg.text(_RIGHT + 8, y + 12, ", ".join(words))


def _gauge(told: Any) -> Iterator[str]:
    for key, unit in (("watts", "W"), ("sm_mhz", "MHz")):
        value = told.get(key) if isinstance(told, Mapping) else None
        # Least, median and most of what was sampled.
        value = value[1] if isinstance(value, list) and len(value) == 3 else value
        if isinstance(value, int | float) and math.isfinite(value):
            yield f"{value:.0f} {unit}"
