"""The timeline of a scenario's gangs: a lane per pod, created, bound, running, ended; and the deciding moment."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_gpucluster.report.drawings import svg

_NAMES, _NODES = 170, 610
_LEFT, _RIGHT = _NAMES + 8, _NODES - 8
_LANE, _TOP, _LABEL = 18, 22, 12
_KEY = re.compile(r"@(\d+(?:\.\d+)?)$")
_LEGEND = "Dotted: waits; outline: bound; filled: runs; stroke: ended; thin line: until it is gone."
_EXPIRED = "a wait ran out"
"""How the moment is called at which the suite stopped waiting."""


def drawn(facts: Mapping[str, Any], keys: Sequence[str] = (), *, waited: bool = False) -> Markup | None:
    """Return the drawing of a finding's `timeline`, None without one.

    Args:
        facts: of the finding.
        keys: of the lines that show a violation, such as `Pod/x@12.345`; the first one with a time decided.
        waited: something did not come: where no violation was seen, the end of the wait decided.
    """
    told = facts.get("timeline")
    if not isinstance(told, Mapping) or not told.get("gangs"):
        return None
    return _Timeline(told, keys, waited=waited).drawing()


class _Timeline:
    def __init__(self, told: Mapping[str, Any], keys: Sequence[str], *, waited: bool) -> None:
        self._told = told
        self._end = max(float(told["end"]), 0.001)
        self._zero = float(told["zero"])
        times = [float(found[1]) - self._zero for key in keys if (found := _KEY.search(str(key)))]
        if not times and waited:
            times = [float(each["t"]) for each in told.get("moments", ()) if each["name"] == _EXPIRED]
        self._decided = next((time for time in times if 0 <= time <= self._end), None)
        self._labels = self._placed()
        self._top = _TOP + _LABEL * len({row for row, *_ in self._labels})

    def drawing(self) -> Markup:
        lanes = list(self._lanes())
        bottom = self._top + len(lanes) * _LANE
        parts = [*self._axis(bottom), *self._moments(bottom)]
        y = self._top
        for each in lanes:
            parts += each(y)
            y += _LANE
        legend = [f"0 s is t={self._zero:.2f} s of the evidence: the first gang was seen.", _LEGEND]
        if self._told.get("left_out"):
            legend.append(f"{self._told['left_out']} more pods are not drawn")
        for line, words in enumerate(legend):
            parts.append(svg.text(0, bottom + 44 + 15 * line, words, kind="t soft"))
        names = ", ".join(str(gang["title"]) for gang in self._told["gangs"])
        height = bottom + 36 + 15 * len(legend)
        return svg.drawing(height, f"Timeline of {names}, {self._end:.2f} s", parts)

    def _x(self, time: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * min(max(time / self._end, 0.0), 1.0)

    def _lanes(self) -> Iterator[Any]:
        for gang in self._told["gangs"]:
            title = f"{gang['title']} ({gang['role']}), minimum {gang['minimum']}"
            yield lambda y, title=title: [svg.text(0, y + 13, svg.short(title, 90), kind="t strong")]
            for lane in gang["lanes"]:
                yield lambda y, lane=lane: self._lane(lane, y)

    def _lane(self, lane: Mapping[str, Any], y: float) -> Iterator[Markup]:
        yield svg.text(_NAMES, y + 13, svg.short(str(lane["pod"]), 26), anchor="end")
        yield svg.text(_NODES, y + 13, svg.short(str(lane["node"] or "not bound"), 16))
        gone = lane.get("deleted", lane.get("finished", self._end))
        stop = min(each for each in (lane.get("finished"), lane.get("deleting"), gone) if each is not None)
        created, bound, running = lane.get("created", 0.0), lane.get("bound"), lane.get("running")
        waits = bound if bound is not None else stop
        yield svg.line(self._x(created), y + 9, self._x(waits), y + 9, "waits")
        if bound is not None:
            starts = running if running is not None else stop
            yield svg.box(
                self._x(bound),
                y + 5,
                self._x(starts) - self._x(bound),
                8,
                "bound",
                title=f"bound at {bound:.2f} s",
            )
        if running is not None:
            told = f"running from {running:.2f} s"
            yield svg.box(
                self._x(running), y + 4, self._x(stop) - self._x(running), 10, "running", title=told
            )
        yield svg.line(self._x(stop), y + 9, self._x(gone), y + 9, "goes")
        if "finished" in lane:
            kind = "ended bad" if lane["phase"] == "Failed" else "ended"
            x = self._x(lane["finished"])
            yield svg.line(x, y + 3, x, y + 15, kind)

    def _axis(self, bottom: float) -> Iterator[Markup]:
        for tick in svg.ticks(self._end):
            x = self._x(tick)
            yield svg.line(x, self._top, x, bottom, "grid")
            yield svg.text(x, bottom + 26, f"{svg.plain(tick)} s", anchor="middle")

    def _placed(self) -> list[tuple[int, float, float, str, bool]]:
        """Return the labels of moments: row, left end, place of their line, words, whether it decided.

        Moments at one place share a label. No label lies over another: each is in the first row that is free there.
        """
        named: dict[float, list[str]] = {}
        for moment in self._told.get("moments", ()):
            named.setdefault(round(self._x(float(moment["t"]))), []).append(str(moment["name"]))
        decided = None if self._decided is None else round(self._x(self._decided))
        if decided is not None:
            named.setdefault(decided, []).insert(0, "decided here")
        found, free = list[tuple[int, float, float, str, bool]](), list[float]()
        for x, names in sorted(named.items()):
            words = ", ".join(dict.fromkeys(names))
            width = len(words) * (6.9 if x == decided else 6.1)
            left = min(max(x - width / 2, 0.0), svg.WIDTH - width)
            row = next((row for row, end in enumerate(free) if end < left), len(free))
            free[row : row + 1] = [left + width + 8]
            found.append((row, left, x, words, x == decided))
        return found

    def _moments(self, bottom: float) -> Iterator[Markup]:
        for row, left, x, words, decided in self._labels:
            y = 12 + row * _LABEL
            yield svg.line(x, y + 3, x, bottom, "decided" if decided else "moment")
            yield svg.text(left, y, words, kind="t strong" if decided else "t")
