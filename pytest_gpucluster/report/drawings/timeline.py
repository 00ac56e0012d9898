"""The timeline of a scenario's gangs: a lane per pod, created, bound, running, ended; and the deciding moment."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_gpucluster.report.drawings import svg

_NAMES, _NODES = 170, 610
_LEFT, _RIGHT = _NAMES + 8, _NODES - 8
_LANE, _TOP = 18, 34
_KEY = re.compile(r"@(\d+(?:\.\d+)?)$")
_LEGEND = (
    "0 s: the first gang was seen. Dotted: waits; outline: bound; filled: runs; stroke: ended; thin line: until it "
    "is gone."
)
_LABELS = 3
"""Rows of labels of moments above the lanes."""


def drawn(facts: Mapping[str, Any], keys: Sequence[str] = ()) -> Markup | None:
    """Return the drawing of a finding's `timeline`, None without one.

    Args:
        facts: of the finding.
        keys: of the lines that decided a violation, such as `Pod/x@12.345`; the first one with a time is marked.
    """
    told = facts.get("timeline")
    if not isinstance(told, Mapping) or not told.get("gangs"):
        return None
    return _Timeline(told, keys).drawing()


class _Timeline:
    def __init__(self, told: Mapping[str, Any], keys: Sequence[str]) -> None:
        self._told = told
        self._end = max(float(told["end"]), 0.001)
        self._top = _TOP + _LABELS * 11
        zero = float(told["zero"])
        times = [float(found[1]) - zero for key in keys if (found := _KEY.search(str(key)))]
        self._decided = next((time for time in times if 0 <= time <= self._end), None)

    def drawing(self) -> Markup:
        lanes = list(self._lanes())
        bottom = self._top + len(lanes) * _LANE
        parts = [*self._axis(bottom), *self._moments(bottom)]
        y = self._top
        for each in lanes:
            parts += each(y)
            y += _LANE
        parts.append(svg.text(0, bottom + 44, _LEGEND, kind="t soft"))
        if self._told.get("left_out"):
            parts.append(svg.text(0, bottom + 58, f"{self._told['left_out']} more pods are not drawn"))
        names = ", ".join(str(gang["title"]) for gang in self._told["gangs"])
        return svg.drawing(
            bottom + (62 if self._told.get("left_out") else 48),
            f"Timeline of {names}, {self._end:.2f} s",
            parts,
        )

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

    def _moments(self, bottom: float) -> Iterator[Markup]:
        moments = [*self._told.get("moments", ())]
        if self._decided is not None:
            moments.append({"t": self._decided, "name": "decided here", "kind": "decided"})
        free = [float("-inf")] * (_LABELS + 1)
        for moment in sorted(moments, key=lambda each: float(each["t"])):
            x, name = self._x(float(moment["t"])), str(moment["name"])
            width = len(name) * 5.4
            left = min(max(x - width / 2, 0.0), svg.WIDTH - width)
            row = next((row for row in range(_LABELS) if free[row] < left), None)
            yield svg.line(x, self._top - 4, x, bottom, str(moment.get("kind", "moment")))
            if row is None:
                continue  # its line stays; a label over others could not be read
            free[row] = left + width + 6
            kind = "t strong" if moment.get("kind") == "decided" else "t"
            yield svg.text(left, 12 + row * 12, name, kind=kind)
