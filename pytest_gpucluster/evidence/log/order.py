"""Which of two things of different kinds came first: by the version that the API server counts.

Watches of two kinds may be out of step by fractions of a second, so that receipt times do not tell. All kinds but
events are kept in one store, which counts its changes through.
"""

import bisect
import math
from collections.abc import Mapping
from typing import NamedTuple

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line

OUT_OF_STEP = 1.0
"""Seconds by which receipt may contradict the order of versions: beyond, the kinds are kept in stores of their own."""


def version(line: Line) -> int | None:
    """Return the version that a line of a watch tells, None where it tells none."""
    return fields.number(line.object, "metadata", "resourceVersion")


class Versions(NamedTuple):
    """The versions of the lines that bear one key: more than one if an object was told of twice in a millisecond.

    Attributes:
        lowest: the first of them.
        highest: the last.
    """

    lowest: int
    highest: int


def exact(version: int | None, versions: Mapping[str, Versions]) -> Versions | None:
    """Return the version of one line as versions; None if it tells none, or versions order nothing here."""
    return Versions(version, version) if versions and version is not None else None


def first(key: str, versions: Mapping[str, Versions]) -> Versions | None:
    """Return the version of the first line under a key; None if it tells none, or versions order nothing here."""
    found = versions.get(key)
    return None if found is None else Versions(found.lowest, found.lowest)


def before(one: Versions | None, other: Versions | None) -> bool | None:
    """Report whether one thing came before another; None if a version is missing or the two overlap."""
    if one is None or other is None:
        return None
    if one.highest < other.lowest:
        return True
    return False if one.lowest > other.highest else None


def versions(evidence: Evidence) -> Mapping[str, Versions]:
    """Return key of a line -> the versions told under it, for all kinds but events; empty if versions order nothing."""
    return evidence.derived(_versions)


def no_later(evidence: Evidence, version: int | None, t: float) -> float:
    """Return by when a change had happened, in seconds: when it was seen, or when a later one was seen before it.

    Args:
        evidence: where both were seen.
        version: of the change, None if it tells none.
        t: when it was seen; a watch may be late.
    """
    if version is None:
        return t
    numbers, times = evidence.derived(_told)
    place = bisect.bisect_left(numbers, version)
    return min(t, times[place]) if place < len(times) else t


def seen_by(evidence: Evidence, key: str, t: float) -> float:
    """Return by when the first change under a key had happened, in seconds; see `no_later`."""
    found = versions(evidence).get(key)
    return no_later(evidence, None if found is None else found.lowest, t)


def _told(evidence: Evidence) -> tuple[list[int], list[float]]:
    """Return the versions in order, and for each when it or a later one was first seen; empty if they order nothing."""
    if not versions(evidence):
        return [], []
    told = sorted(
        (number, line.t)
        for line in evidence.lines
        if line.kind and line.kind != "Event" and line.uid and (number := version(line)) is not None
    )
    times: list[float] = []
    first = math.inf
    for _, t in reversed(told):
        first = min(first, t)
        times.append(first)
    return [number for number, _ in told], times[::-1]


def _versions(evidence: Evidence) -> Mapping[str, Versions]:
    told = [
        (line, number)
        for line in evidence.lines
        if line.kind and line.kind != "Event" and line.uid and (number := version(line)) is not None
    ]
    if not _counted_through([(line.t, number) for line, number in told if line.type == "MODIFIED"]):
        return {}
    found: dict[str, Versions] = {}
    for line, number in told:
        known = found.get(line.key, Versions(number, number))
        found[line.key] = Versions(min(known.lowest, number), max(known.highest, number))
    return found


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
