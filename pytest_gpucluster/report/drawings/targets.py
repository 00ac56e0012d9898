"""Measured against floor and peak: a line per figure of an area, each on a scale of its own."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_gpucluster.report.drawings import svg

NEAR = 0.07
"""Part above its floor within which a figure counts as near it: one worn GPU or link takes that much."""
MOST = 24
"""Figures that are drawn; those nearest to their floors first if there are more."""

_LINE, _TRACK = 42, 12
_LEGEND = (
    "Bar: measured. Solid line: its floor. Dashed box: what is under the floor. Shaded: less than 7 % above it.",
    "Dotted line: what the hardware can reach at most.",
)


@dataclasses.dataclass(frozen=True)
class Target:
    """A figure with a floor, a peak, or both; all are of one unit."""

    row: str
    name: str
    unit: str
    value: float
    floor: float | None
    peak: float | None

    @property
    def room(self) -> float:
        """Return how far the figure is above its floor, as a part of it; infinite without one."""
        return self.value / self.floor - 1 if self.floor else math.inf


def drawn(rows: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Return the drawing of an area's decided rows, None if no figure of them has a floor or a peak."""
    found = [target for row in rows for target in _targets(row)]
    if not found:
        return None
    shown = sorted(found, key=lambda each: each.room)[:MOST] if len(found) > MOST else found
    return svg.drawing(
        _LINE * len(shown) + (48 if len(found) > len(shown) else 32),
        f"{len(shown)} figures measured, against floor and peak",
        _parts(shown, len(found) - len(shown)),
    )


def _targets(row: Mapping[str, Any]) -> Iterator[Target]:
    for number in row["finding"].get("numbers") or ():
        value, peak = _finite(number.get("value")), _finite(number.get("peak"))
        floor = _finite(number.get("bound")) if number.get("floor") else None
        if value is not None and value >= 0 and (floor or peak):
            name = str(number.get("name")).partition(" (")[0]
            yield Target(str(row["id"]), name, str(number.get("unit") or ""), value, floor, peak)


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _parts(shown: Sequence[Target], left_out: int) -> Iterator[Markup]:
    for number, target in enumerate(shown):
        yield from _line(target, number * _LINE)
    bottom = len(shown) * _LINE + 10
    for line, words in enumerate(_LEGEND):
        yield svg.text(0, bottom + 15 * line, words, kind="t soft")
    if left_out:
        yield svg.text(0, bottom + 32, f"{left_out} more figures, further above their floors, are not drawn")


def _line(target: Target, top: float) -> Iterator[Markup]:
    scale = max(target.value, target.floor or 0.0, target.peak or 0.0) * 1.02 or 1.0

    def x(value: float) -> float:
        return svg.WIDTH * value / scale

    below = target.floor is not None and target.value < target.floor
    y = top + 18
    yield svg.text(
        0, top + 12, f"{target.row}  {svg.short(target.name, 60)}", kind="t strong" if below else "t"
    )
    yield svg.text(svg.WIDTH, top + 12, _words(target), anchor="end", kind="t strong" if below else "t")
    if target.floor is not None:
        yield svg.box(0, y, x(target.floor), _TRACK, "under")
        near = min(target.floor * (1 + NEAR), scale)
        yield svg.box(x(target.floor), y, x(near) - x(target.floor), _TRACK, "near")
    yield svg.box(0, y + 3, x(target.value), _TRACK - 6, "bar low" if below else "bar", title=_words(target))
    if target.floor is not None:
        yield svg.line(x(target.floor), y - 3, x(target.floor), y + _TRACK + 3, "floor")
    if target.peak is not None:
        yield svg.line(x(target.peak), y - 3, x(target.peak), y + _TRACK + 3, "peak")


def _words(target: Target) -> str:
    """Return the figure with its floor and peak, as words: nothing is told by the drawing alone."""
    words = [f"{target.value:.4g} {target.unit}".rstrip()]
    if target.floor:
        side = "under" if target.value < target.floor else "above"
        words.append(f"{abs(target.room):.1%} {side} its floor {target.floor:.4g}")
    if target.peak and not (target.unit == "" and target.peak == 1.0):
        words.append(f"{target.value / target.peak:.0%} of {target.peak:.4g} at most")
    return ", ".join(words)
