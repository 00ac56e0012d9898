"""FAB-016: with the fabric switched off on purpose the traffic is seen on sockets, with ranks and figure.

A control: it shows that on this very cluster a fallback to TCP would be seen. Where it does not show, nothing is known
of the rows that stand on it.
"""

from pytest_gpucluster.evidence.hardware.collectives import Told
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import bus_bandwidth, rank_logs, shared
from pytest_gpucluster.measure import nccl
from pytest_gpucluster.measure.collective import size_text
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = "with every other network switched off, the ranks reach other nodes over sockets, and are named"

UNHEARD = Cause(
    "NCCL did not read the variables, or a plugin loaded earlier replaces sockets",
    "read the lines `set by environment` of the switched-off run, and /etc/nccl.conf of the image",
)


@subjects.judge
def seen_on_sockets(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-016."""
    good, off = shared.subject(evidence, given), shared.subject(evidence, given, "contrast")
    if off is None:
        text = "the run with the fabric switched off was not made"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, good)
    told = shared.told(evidence, off)
    nothing = shared.nobody(evidence, told, off, REQUIRED)
    if nothing is not None:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, nothing.observed, off, causes=nothing.causes)
    if told.cpu:
        return wording.finding(Verdict.NOT_APPLICABLE, REQUIRED, shared.CPU, off)
    unfinished = bus_bandwidth.incomplete(evidence, given, told, off, REQUIRED)
    if unfinished is not None:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, unfinished.observed, off, causes=unfinished.causes
        )
    return _decided(evidence, given, (good, off), told)


def _decided(
    evidence: Evidence, given: subjects.Given, runs: tuple[Gang | None, Gang], told: Told
) -> Finding:
    """Compare the transports of both runs."""
    good, off = runs
    before, after = rank_logs.facts(evidence, given, good), rank_logs.facts(evidence, given, off)
    keys = rank_logs.keys(evidence, off)
    figures = _figures(shared.told(evidence, good), told)
    found = wording.Findings(REQUIRED, off, evidence=keys, numbers=_numbers(figures))

    on_sockets = after.ranks_on(nccl.networks.TCP)
    others = sorted({path.name for path in after.paths if path.carrier and path.carrier != nccl.networks.TCP})
    if others:
        text = f"switched off, but still connected over {wording.listed(others)}"
        return found.inconclusive(text, UNHEARD)
    if not on_sockets:
        text = "the run with the fabric switched off shows no connection between nodes"
        return found.inconclusive(text, rank_logs.SILENT)
    fast = sorted({path.name for path in before.paths if path.carrier and path.carrier != nccl.networks.TCP})
    if before.ranks_on(nccl.networks.TCP) or not fast:
        seen = "is on sockets" if before.ranks_on(nccl.networks.TCP) else "shows no connection between nodes"
        return found.inconclusive(f"the run with the fabric on {seen}: there is nothing to compare with")
    where = tuple(rank.where for rank in told.ranks if rank.rank in on_sockets)
    text = (
        f"with the fabric ({wording.listed(fast)}) switched off, ranks "
        f"{wording.listed([str(r) for r in on_sockets])} are on "
        f"sockets{_beside(figures)}"
    )
    return found.passed(text, where=where[: wording.MANY])


def _figures(good: Told, off: Told) -> list[tuple[str, int, float, float]]:
    """Return collective, size and the figure of both runs, those of an all-reduce at the largest size last."""
    fast, slow = bus_bandwidth.slowest(good), bus_bandwidth.slowest(off)
    common = sorted(set(fast) & set(slow), key=lambda one: (one[1], one[0] == "all_reduce", one[0]))
    return [(name, size, fast[name, size][0], slow[name, size][0]) for name, size in common]


def _numbers(figures: list[tuple[str, int, float, float]]) -> tuple[Number, ...]:
    return tuple(
        Number(f"{name} of {size_text(size)}, {what}", rate, "GB/s")
        for name, size, fast, slow in figures
        for what, rate in (("unchanged", fast), ("over sockets", slow))
    )


def _beside(figures: list[tuple[str, int, float, float]]) -> str:
    """Return both figures of the largest size."""
    if not figures:
        return ""
    name, size, fast, slow = figures[-1]
    return f"; {name} of {size_text(size)} {slow:.4g} GB/s beside {fast:.4g}"
