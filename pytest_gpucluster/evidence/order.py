"""Which of two things of different kinds came first: by the version that the API server counts.

Watches of two kinds may be out of step by fractions of a second, so that receipt times do not tell. All kinds but
events are kept in one store, which counts its changes through.
"""

import bisect
from collections import Counter
from collections.abc import Mapping

from pytest_gpucluster.evidence import fields
from pytest_gpucluster.evidence.model import Evidence, Line

OUT_OF_STEP = 1.0
"""Seconds by which receipt may contradict the order of versions: beyond, the kinds are kept in stores of their own."""


def version(line: Line) -> int | None:
    """Return the version that a line of a watch tells, None where it tells none."""
    return fields.number(line.object, "metadata", "resourceVersion")


def versions(evidence: Evidence) -> Mapping[str, int]:
    """Return key of a line -> its version, for all kinds but events; empty where versions order nothing.

    Of two lines with one key neither is told.
    """
    return evidence.derived(_versions)


def _versions(evidence: Evidence) -> Mapping[str, int]:
    told = [
        (line, number)
        for line in evidence.lines
        if line.kind and line.kind != "Event" and line.uid and (number := version(line)) is not None
    ]
    if not _counted_through([(line.t, number) for line, number in told if line.type == "MODIFIED"]):
        return {}
    often = Counter(line.key for line, _ in told)
    return {line.key: number for line, number in told if often[line.key] == 1}


def _counted_through(changes: list[tuple[float, int]]) -> bool:
    """Report whether changes came in the order of their versions, as far as watches are in step."""
    changes.sort()
    times = [t for t, _ in changes]
    most = 0
    reached: list[int] = []
    for _, number in changes:
        most = max(most, number)
        reached.append(most)
    for t, number in changes:
        before = bisect.bisect_left(times, t - OUT_OF_STEP)
        if before and reached[before - 1] > number:
            return False
    return True
