"""FAB-021: bus bandwidth grows with the size and then stays: it never falls below what a smaller one had reached."""

import dataclasses
from collections.abc import Iterator, Mapping

from pytest_gpucluster.evidence.hardware.collectives import Rank, Told
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import bus_bandwidth, plausibility, shared
from pytest_gpucluster.measure import samples
from pytest_gpucluster.measure.collective import size_text
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = "the bus bandwidth of each collective nowhere falls below the declared share of what a smaller size reached"

SHARE = 0.8
"""Part of a smaller size's bandwidth that is enough, if the profile does not say: at a change of protocol or algorithm
healthy curves lose some per cent."""
LEAST_SIZES = 3
"""Sizes of which a curve consists."""

TUNING = Cause(
    "at this size NCCL chooses an algorithm or a protocol that does not suit this fabric: its tuner knows other "
    "numbers (an NCCL_ALGO, NCCL_PROTO or tuner file that was copied from another cluster does the same)",
    "compare NCCL_DEBUG_SUBSYS=TUNING of both sizes; take out NCCL_ALGO, NCCL_PROTO and NCCL_TUNER_* from images and "
    "configuration files, or update NCCL and the plugin of the fabric",
)
CONGESTED = Cause(
    "from this size on messages fill buffers on the way: congestion, missing flow control or too few channels",
    "look at the counters of the fabric (FAB-009, ibstat, ethtool -S), and repeat while the cluster is quiet",
)


@dataclasses.dataclass(frozen=True)
class Dip:
    """A size at which a collective is slower than at a smaller one.

    Attributes:
        collective: its name.
        size: the size, in bytes.
        rate: bus bandwidth there, GB/s.
        smaller: the smaller size.
        reached: bus bandwidth there, GB/s.
        rank: whose figure it is.
    """

    collective: str
    size: int
    rate: float
    smaller: int
    reached: float
    rank: Rank

    @property
    def share(self) -> float:
        """Return what is left."""
        return self.rate / self.reached

    @property
    def shown(self) -> str:
        """Return `all_reduce falls from 162 GB/s at 16M to 90 at 256M (0.56)`."""
        return (
            f"{self.collective} falls from {self.reached:.4g} GB/s at {size_text(self.smaller)} to {self.rate:.4g} at "
            f"{size_text(self.size)} ({self.share:.2f})"
        )


@subjects.judge
def without_dip(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-021."""
    heard = shared.heard(evidence, given, REQUIRED)
    if isinstance(heard, Finding):
        return heard
    gang, told, found = heard
    unfinished = bus_bandwidth.incomplete(evidence, given, told, gang, REQUIRED)
    if unfinished is not None:
        return unfinished
    if told.cpu:
        return found.not_applicable(f"{shared.CPU}; curves of CPUs say nothing about the fabric")
    doubt = _doubt(given, told)
    if doubt:
        return found.inconclusive(doubt)
    curves = _curves(told)
    short = [name for name, curve in curves.items() if len(curve) < LEAST_SIZES]
    if not curves or short:
        what = (
            f"of {wording.listed(short)} fewer than {LEAST_SIZES} sizes were measured"
            if short
            else "no figure"
        )
        return found.inconclusive(f"no curve: {what}")
    share = samples.number(shared.fabric(given).get("dip_share")) or SHARE
    falls = [dip for name, curve in curves.items() for dip in _falls(name, curve)]
    worst = min(falls, key=lambda dip: dip.share, default=None)
    numbers = (
        Number("least share of a smaller size's bandwidth", min(1.0, worst.share) if worst else 1.0, "", share,
               "profile: fabric.dip_share"),
    )  # fmt: skip
    dips = sorted((dip for dip in falls if dip.share < share), key=lambda dip: dip.share)
    if dips:
        text = wording.listed([dip.shown for dip in dips], 4)
        where = shared.places(list({dip.rank.rank: dip.rank for dip in dips}.values()))
        return found.fail(text, TUNING, CONGESTED, where=where, numbers=numbers)
    sizes = sorted({size for curve in curves.values() for size in curve})
    text = (
        f"{wording.count(len(curves), 'collective')} at {wording.listed([size_text(size) for size in sizes])}: "
        f"no size is below {share:g} of a smaller one"
    )
    return found.passed(text, numbers=numbers)


def _doubt(given: subjects.Given, told: Told) -> str:
    """Return why the figures are no ground to judge on, "" if they are."""
    odd = plausibility.unchecked(told) or plausibility.partly(told) or plausibility.impossible(told)
    if odd:
        return odd
    shape, expected = shared.shape(given, told), subjects.count(given, "nodes")
    if shape is None:
        return "the nodes hold different numbers of ranks"
    if expected is not None and expected != shape.nodes:
        return f"{wording.count(expected, 'node')} expected, but the figures are for {shape.text()}"
    few = {
        f"{one.collective} of {size_text(one.size)}"
        for rank in told.ranks
        for one in rank.results
        if not one.skipped and (samples.number(one.data.get("iters")) or 0) < bus_bandwidth.LEAST_TIMES
    }
    return f"too few times: {wording.listed(sorted(few), 4)}" if few else ""


Curve = Mapping[int, tuple[float, Rank]]
"""Size -> bus bandwidth of the slowest rank, and whose it is."""


def _curves(told: Told) -> dict[str, Curve]:
    found: dict[str, dict[int, tuple[float, Rank]]] = {}
    for (name, size), figure in sorted(bus_bandwidth.slowest(told).items()):
        found.setdefault(name, {})[size] = figure
    return dict(found)


def _falls(name: str, curve: Curve) -> Iterator[Dip]:
    """Yield each size with the best smaller one."""
    best: tuple[float, int] | None = None
    for size in sorted(curve):
        rate, rank = curve[size]
        if best is not None and best[0] > 0:
            yield Dip(name, size, rate, best[1], best[0], rank)
        if best is None or rate > best[0]:
            best = (rate, size)
