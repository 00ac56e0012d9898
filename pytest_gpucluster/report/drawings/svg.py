"""The few parts of SVG that the drawings are made of; every text from a cluster is escaped."""

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

WIDTH = 720
"""Units of a drawing's width; the page scales it to what there is."""


def drawing(height: float, title: str, parts: Iterable[Markup], width: float = WIDTH) -> Markup:
    """Return a whole drawing, with the title by which a screen reader tells it."""
    inner = Markup().join(parts)
    return Markup(
        '<svg class="drawing" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}</svg>'
    ).format(number(width), number(height), title, title, inner)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """Return a straight line of a class."""
    return Markup('<path class="{}" d="M{} {}L{} {}"/>').format(kind, *map(number, (x1, y1, x2, y2)))


def path(points: Sequence[tuple[float, float]], kind: str) -> Markup:
    """Return a line through points."""
    steps = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return Markup('<path class="{}" d="M{}"/>').format(kind, steps)


def box(x: float, y: float, width: float, height: float, kind: str, *, title: str = "") -> Markup:
    """Return a rectangle; `title` is what hovering tells."""
    told = Markup("<title>{}</title>").format(title) if title else Markup()
    size = [number(each) for each in (x, y, max(width, 0.0), height)]
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}">{}</rect>').format(kind, *size, told)


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "t") -> Markup:
    """Return words at a place; anchor is `start`, `middle` or `end`."""
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        kind, number(x), number(y), anchor, escape(words)
    )


def dot(x: float, y: float, shape: int, title: str = "") -> Markup:
    """Return a marker at a point, one of four shapes, so that series differ without colour."""
    d = (
        f"M{number(x - 3.5)} {number(y)}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0",
        f"M{number(x - 3.2)} {number(y - 3.2)}h6.4v6.4h-6.4z",
        f"M{number(x)} {number(y - 4.2)}l4.2 4.2l-4.2 4.2l-4.2 -4.2z",
        f"M{number(x)} {number(y - 4)}l4 7h-8z",
    )[shape % 4]
    told = Markup("<title>{}</title>").format(title) if title else Markup()
    return Markup('<path class="dot s{}" d="{}">{}</path>').format(shape % 4, d, told)


def number(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def short(words: str, most: int) -> str:
    """Return words cut in the middle, since names differ at their ends."""
    if len(words) <= most:
        return words
    keep = most - 1
    return f"{words[: keep // 2]}…{words[-(keep - keep // 2) :]}"


def ticks(top: float, most: int = 6) -> list[float]:
    """Return round values from 0 to a value, at most so many and one; of less than a billionth 0 alone."""
    if not math.isfinite(top) or top < 1e-9:
        return [0.0]
    least = 10.0 ** math.floor(math.log10(top / most))
    step = next(
        (least * factor for factor in (1, 2, 5, 10, 20) if top / (least * factor) <= most), least * 50
    )
    return [step * index for index in range(int(top / step + 1e-9) + 1)]


def plain(value: float) -> str:
    """Return a number for an axis: without zeros that say nothing."""
    return f"{value:.10g}"
