"""What speaks against figures of collectives, whatever they are: not checked, not of all ranks, not possible."""

import itertools
import math
from collections.abc import Iterator

from pytest_gpucluster.evidence.collectives import Rank, Result, Told
from pytest_gpucluster.judge import say
from pytest_gpucluster.measure import collective, samples
from pytest_gpucluster.measure.collective import size_text
from pytest_gpucluster.requirement import Cause

AGREE = 0.02
"""By how much a bandwidth may differ from the one that its own time gives."""
ROUNDED = 0.01
"""Microseconds by which two times may be in the wrong order, since they are rounded."""
ORDER = ("min", "p50", "p90", "p99", "max")
"""Times of one figure, each at least the one before."""
UNCHECKED = Cause(
    "the payload was changed, or a check was left out: figures of data that nobody looked at count for nothing",
    "run the shipped payload, which compares every element",
)
CONTRADICTS = Cause(
    "the figure does not follow from its own times: another clock, or a line that was changed on its way",
    "run the shipped payload anew, and compare the line in the pod's log with the evidence",
)
PARTLY = Cause(
    "a rank left out a size (too little memory beside the others), or its line is not whole: a collective is of all "
    "ranks or of none",
    "read why the rank skipped it, and give it the memory, or measure smaller sizes on all",
)


def unchecked(told: Told, *, pairs: bool = False) -> str:
    """Return which ranks did not compare their data, "" where all did; of collectives, or of the sweep over pairs."""
    lacking = [
        (rank, one) for rank, one in _measured(told, pairs=pairs) if one.wrong is None or one.wrong < 0
    ]
    if not lacking:
        return ""
    ranks = sorted({rank.rank for rank, _ in lacking})
    rank, one = lacking[0]
    return (
        f"nobody says that the data is right: {what(one)} of {rank.where} was not checked "
        f"({say.count(len(ranks), 'rank')} of {len(told.ranks)})"
    )


def partly(told: Told) -> str:
    """Return a figure that some ranks have and others lack, "" where all have the same."""
    have: dict[tuple[str, int], dict[int, Result]] = {}
    for rank in told.ranks:
        for one in rank.results:
            have.setdefault((one.collective, one.size), {})[rank.rank] = one
    for (name, size), by_rank in have.items():
        good = {number for number, one in by_rank.items() if not one.skipped}
        lacking = sorted({rank.rank for rank in told.ranks} - good)
        if good and lacking:
            first = by_rank.get(lacking[0])
            why = f" ({first.skipped})" if first is not None and first.skipped else ""
            listed = say.listed([str(number) for number in lacking])
            return f"{name} of {size_text(size)} is not of all ranks: rank {listed} of {len(told.ranks)} lacks it{why}"
    return ""


def impossible(told: Told, *, pairs: bool = False) -> str:
    """Return why a figure cannot be, "" where all can: out of order, or not what its own time and world give."""
    for rank, one in _measured(told, pairs=pairs):
        why = _out_of_order(one) or _not_its_own(rank, one)
        if why:
            return f"{rank.where}: {what(one)} {why}"
    attempts = {(rank.word.data.get("run"), rank.word.data.get("attempt")) for rank in told.ranks}
    if len(attempts) > 1:
        return "the ranks' figures are of different runs or attempts"
    return ""


def what(one: Result) -> str:
    """Return a collective with its size."""
    return f"{one.collective} of {size_text(one.size)}"


def _measured(told: Told, *, pairs: bool) -> Iterator[tuple[Rank, Result]]:
    for rank in told.ranks:
        for one in rank.pairs if pairs else rank.results:
            if not one.skipped:
                yield rank, one


def _out_of_order(one: Result) -> str:
    """Return which of a figure's times contradict each other."""
    times = [(name, samples.number(one.data.get(name))) for name in ORDER if one.data.get(name) is not None]
    mean = samples.number(one.data.get("mean"))
    for name, value in times:
        if value is None or not math.isfinite(value) or value <= 0:
            return f"has {name} {one.data.get(name)!r}: no time"
    for (before, less), (name, more) in itertools.pairwise(times):
        if less is not None and more is not None and more < less - ROUNDED:
            return f"has {name} {more:g} us below its own {before} {less:g} us"
    bounds = dict(times)
    least, most = bounds.get("min"), bounds.get("max")
    if mean is not None and least is not None and mean < least - ROUNDED:
        return f"has a mean of {mean:g} us below its own min {least:g} us"
    if mean is not None and most is not None and mean > most + ROUNDED:
        return f"has a mean of {mean:g} us above its own max {most:g} us"
    return ""


def _not_its_own(rank: Rank, one: Result) -> str:
    """Return which bandwidth does not follow from the time, the size and the world."""
    if one.peer is not None:
        return ""
    mean = samples.number(one.data.get("mean")) or 0.0
    right = collective.bus_bandwidth(one.collective, rank.world or 0, one.size, mean / 1e6)
    if right is None or one.busbw is None or not math.isclose(one.busbw, right, rel_tol=AGREE, abs_tol=1e-3):
        shown = "nothing" if right is None else f"{right:.4g} GB/s"
        return f"tells {one.busbw} GB/s where {mean:g} us and a world of {rank.world} give {shown}"
    rate, own = samples.number(one.data.get("algbw")), collective.algorithm_bandwidth(one.size, mean / 1e6)
    if rate is not None and own is not None and not math.isclose(rate, own, rel_tol=AGREE, abs_tol=1e-3):
        return f"tells an algorithm bandwidth of {rate:g} GB/s where its time gives {own:.4g}"
    return ""
