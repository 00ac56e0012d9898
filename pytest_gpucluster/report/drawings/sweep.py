"""Bus bandwidth by size: a line per collective over a logarithmic axis of bytes, with floors where there are some."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_gpucluster.report.drawings import svg

_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 560, 14, 230
_LABEL = 52
"""Room that the label of a size takes."""
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def drawn(facts: Mapping[str, Any]) -> Markup | None:
    """Return the drawing of a finding's `bandwidth`, None without at least two points of one collective."""
    series = _series(facts.get("bandwidth"))
    if not any(len(points) > 1 for points in series.values()):
        return None
    sizes = sorted({size for points in series.values() for size, _ in points})
    # Of a fabric that moved nothing the axis is still an axis.
    floors = _series(facts.get("bandwidth"), "floor")
    values = [value for each in (series, floors) for points in each.values() for _, value in points]
    top = max(max(values) * 1.05, 1e-6)
    return svg.drawing(
        _BOTTOM + 34, "Bus bandwidth in GB/s by size of the message", _parts(series, floors, sizes, top)
    )


def _series(told: Any, key: str = "busbw") -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for each in told if isinstance(told, list) else ():
        size, value = each.get("size"), each.get(key)
        if isinstance(size, int) and size > 0 and isinstance(value, int | float) and math.isfinite(value):
            found.setdefault(str(each.get("collective")), []).append((size, float(value)))
    return {name: sorted(points) for name, points in sorted(found.items())}


def _parts(
    series: Mapping[str, Sequence[tuple[int, float]]],
    floors: Mapping[str, Sequence[tuple[int, float]]],
    sizes: Sequence[int],
    top: float,
) -> Iterator[Markup]:
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])

    def x(size: int) -> float:
        return _LEFT + (_RIGHT - _LEFT) * ((math.log2(size) - low) / (high - low) if high > low else 0.5)

    def y(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * value / top

    for tick in svg.ticks(top):
        yield svg.line(_LEFT, y(tick), _RIGHT, y(tick), "grid")
        yield svg.text(_LEFT - 6, y(tick) + 4, svg.plain(tick), anchor="end")
    yield svg.text(0, _TOP - 2, "GB/s")
    free = -math.inf
    for size in sizes:
        if x(size) >= free:
            yield svg.text(x(size), _BOTTOM + 18, bytes_text(size), anchor="middle")
            free = x(size) + _LABEL
    legend = _TOP
    for number, (name, points) in enumerate(series.items()):
        yield svg.path([(x(size), y(value)) for size, value in points], f"series s{number % 4}")
        for size, value in points:
            yield svg.dot(x(size), y(value), number, f"{name}, {bytes_text(size)}: {value:.1f} GB/s")
        yield svg.dot(_RIGHT + 16, legend + 6, number)
        yield svg.text(_RIGHT + 26, legend + 10, svg.short(name, 20))
        legend += 18
        for size, value in floors.get(name, ()):
            yield svg.line(x(size) - 12, y(value), x(size) + 12, y(value), f"floor s{number % 4}")
        if floors.get(name):
            size, value = floors[name][0]
            yield svg.text(
                _RIGHT + 26, legend + 8, f"floor {value:.4g} from {bytes_text(size)}", kind="t soft"
            )
            legend += 16


def bytes_text(size: int) -> str:
    """Return a size in the largest unit that leaves no fraction beyond one decimal."""
    unit, name = next((unit, name) for unit, name in _UNITS if size >= unit)
    return f"{size / unit:.4g} {name}"
