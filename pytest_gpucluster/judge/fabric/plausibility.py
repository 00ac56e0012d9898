"""What speaks against figures of collectives, whatever they are: not checked, not of all ranks, not possible."""

from collections.abc import Iterable, Iterator

from pytest_gpucluster.evidence.hardware.collectives import Rank, Result, Told
from pytest_gpucluster.judge import wording
from pytest_gpucluster.measure import consistency, samples
from pytest_gpucluster.measure.collective import Floor, size_text
from pytest_gpucluster.requirement import Cause

EARLY = 0.5
"""Seconds by which the clock of a machine may be set in between."""
UNCHECKED = Cause(
    "the payload was changed, or a check was left out: figures are worthless if the data was not checked",
    "run the shipped payload, which compares every element",
)
CONTRADICTS = Cause(
    "the figure does not follow from its own times: another clock, or a line that was changed on its way",
    "run the shipped payload again, and compare the line in the pod's log with the evidence",
)
PARTLY = Cause(
    "a rank left out a size (too little free memory), or its line is cut: every rank must report a collective",
    "read why the rank skipped it, and give it the memory, or measure smaller sizes on all ranks",
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
        f"nothing shows that the data is right: {what(one)} of {rank.where} was not checked "
        f"({wording.count(len(ranks), 'rank')} of {len(told.ranks)})"
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
            listed = wording.listed([str(number) for number in lacking])
            return (
                f"{name} of {size_text(size)} was not reported by all ranks: rank {listed} of {len(told.ranks)} "
                f"lacks it{why}"
            )
    return ""


def impossible(told: Told, *, pairs: bool = False) -> str:
    """Return why a figure cannot be, "" where all can: out of order, or not what its own time and world give."""
    for rank, one in _measured(told, pairs=pairs):
        why = consistency.exchange(one.collective, one.data, rank.world or 0)
        if why:
            return f"{rank.where}: {what(one)} {why}"
    for rank in told.ranks:
        why = _longer_than_its_run(rank)
        if why:
            return f"{rank.where} {why}"
    attempts = {(rank.word.data.get("run"), rank.word.data.get("attempt")) for rank in told.ranks}
    if len(attempts) > 1:
        return "the ranks' figures come from different runs or attempts"
    return ""


def _longer_than_its_run(rank: Rank) -> str:
    """Return how a rank's times are more than it had, or none at all; "" where they fit."""
    odd = next((f"{name} {seconds:g} s" for name, seconds in rank.first.items() if seconds < 0), "")
    if odd:
        return f"reports its first collective before the start of its {odd}"
    took = sum(
        (samples.number(one.data.get("mean")) or 0.0) * (samples.number(one.data.get("iters")) or 0.0) / 1e6
        for one in (*rank.results, *rank.pairs)
        if not one.skipped
    )
    if rank.lasted is not None and took > rank.lasted * (1 + consistency.SLACK) + EARLY:
        return f"reports {took:.3g} s of collectives only {max(rank.lasted, 0.0):.3g} s after it began"
    return ""


def unlike(told: Told, floors: Iterable[Floor] = (), *, pairs: bool = False) -> str:
    """Return which mean is not that of its own percentiles, or, where a floor holds, that of a few times; "" for none.

    A bandwidth is that of the mean. One below its floor is so all the same; one that reaches it has to be sound.
    """
    least: dict[str, int] = {}
    for floor in floors:
        least[floor.collective] = min(floor.size, least.get(floor.collective, floor.size))
    for rank, one in _measured(told, pairs=pairs):
        why = consistency.mean_of(one.data)
        if not why and one.size >= least.get(one.collective, one.size + 1) and consistency.outlying(one.data):
            why = "has a mean above its p99: a few outliers set the mean, and so the bandwidth"
        if why:
            return f"{rank.where}: {what(one)} {why}"
    return ""


def what(one: Result) -> str:
    """Return a collective with its size."""
    return f"{one.collective} of {size_text(one.size)}"


def _measured(told: Told, *, pairs: bool) -> Iterator[tuple[Rank, Result]]:
    for rank in told.ranks:
        for one in rank.pairs if pairs else rank.results:
            if not one.skipped:
                yield rank, one
