"""When things are told: late watches, reconnected ones, clocks that differ, a run that is long under way."""

import dataclasses
import re
from datetime import datetime, timedelta

from pytest_gpucluster.evidence import Evidence, Line, Span
from pytest_gpucluster.mutants import base as mutants
from pytest_gpucluster.mutants import with_lines
from tests.judge.variations.base import Variation, renamed

LAG = 0.5
"""Seconds by which a watch of a busy API server is behind the others."""


def late_watch(*kinds: str, by: float = LAG) -> Variation:
    """The watches of some kinds are behind, by so many seconds; what is late at the end is told at the end."""

    def vary(evidence: Evidence) -> Evidence:
        end = evidence.lines[-1].t if evidence.lines else 0.0
        lines = [
            dataclasses.replace(line, t=min(line.t + by, max(end, line.t))) if line.kind in kinds else line
            for line in evidence.lines
        ]
        return with_lines(evidence, lines)

    return vary


def other_order(evidence: Evidence) -> Evidence:
    """What is told within a hundredth of a second by watches of different kinds comes in another order."""
    lines = [
        dataclasses.replace(line, t=line.t + 0.01 * (len(line.kind) % 3)) if line.kind else line
        for line in evidence.lines
    ]
    return with_lines(evidence, lines)


def told_again(evidence: Evidence) -> Evidence:
    """A watch that was opened anew, and a kubelet that repeats itself, tell each state again in the same version."""
    again = [
        dataclasses.replace(line, t=line.t + 1e-4, type="MODIFIED")
        for line in evidence.lines
        if line.kind and line.type != "DELETED"
    ]
    return with_lines(evidence, [*evidence.lines, *again])


def _moved(line: Line, by: float) -> Line:
    return dataclasses.replace(line, t=line.t + by)


def long_under_way(evidence: Evidence) -> Evidence:
    """The session began a day ago."""
    by = 86_400.0
    spans = [Span(span.kind, span.start + by, span.end + by, span.how) for span in evidence.spans]
    header = dict(evidence.header)
    if isinstance(header.get("horizon"), int | float):
        header["horizon"] += by
    return Evidence([_moved(line, by) for line in evidence.lines], header=header, spans=spans)


STAMP = re.compile(r'"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z"')


def _clock(by: float) -> Variation:
    """The API server's clock differs from that of the machine where the suite runs."""

    def later(found: re.Match[str]) -> str:
        moved = datetime.fromisoformat(found[1]) + timedelta(seconds=by)
        return f'"{moved.isoformat()}{found[2] or ""}Z"'

    return lambda evidence: renamed(evidence, STAMP, later)


CLOCK = re.compile(r'(\\"(?:t|time)\\": ?)(\d{10}\.\d+)')


def pods_clock_ahead(evidence: Evidence) -> Evidence:
    """The clocks of all nodes are half a minute ahead of ours."""
    return renamed(evidence, CLOCK, lambda found: f"{found[1]}{float(found[2]) + 30.0!r}")


def logs_read_late(evidence: Evidence) -> Evidence:
    """Lines of containers are read late, after the objects that they caused, but before what we did upon them."""
    end = evidence.lines[-1].t if evidence.lines else 0.0
    read = [line.t for line in evidence.notes("logs")]
    last = max(read, default=end)
    ours = [line.t for line in evidence.notes("deleted-by-us")]

    def late(t: float) -> float:
        return min([t + 0.05, max(last, t), *(deed for deed in ours if deed >= t)])

    lines = [
        dataclasses.replace(line, t=late(line.t)) if line.type == "LOG" else line for line in evidence.lines
    ]
    return with_lines(evidence, lines)


def starts_slowly(evidence: Evidence) -> Evidence:
    """The first container starts two seconds later, as with an image to be pulled; what follows, too."""
    started = [
        line.t
        for line in evidence.of_kind("Pod")
        if (line.object.get("status") or {}).get("phase") == "Running" and line.type == "MODIFIED"
    ]
    return mutants.later(evidence, min(started) - 1e-6, 2.0) if started else evidence


WORKLOADS = ("Job.batch", "Job.batch.volcano.sh", "Workload")
VARIATIONS: dict[str, Variation] = {
    "pods-late": late_watch("Pod"),
    "groups-late": late_watch("PodGroup", "PodGroup.scheduling.k8s.io"),
    "events-late": late_watch("Event"),
    "jobs-late": late_watch(*WORKLOADS),
    "nodes-late": late_watch("Node"),
    "queues-late": late_watch("Queue", "LocalQueue", "ClusterQueue", "ResourceFlavor"),
    "other-order": other_order,
    "told-again": told_again,
    "long-under-way": long_under_way,
    "clock-behind": _clock(-90.0),
    "clock-ahead": _clock(90.0),
    "pods-clock-ahead": pods_clock_ahead,
    "logs-read-late": logs_read_late,
    "starts-slowly": starts_slowly,
}
"""Name -> variation."""
