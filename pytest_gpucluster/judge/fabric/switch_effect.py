"""FAB-019: what is switched off is not seen any more, and the figures say so too.

Two runs whose labels differ by one switch are compared. A label says nothing by itself: a variable that an image sets
again, a launcher that does not pass it on, or a plugin that does not read it leave both runs alike, and every
comparison of them is one of a thing with itself.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from pytest_gpucluster.evidence.hardware import nccl_logs
from pytest_gpucluster.evidence.hardware.collectives import Rank, Told
from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import bus_bandwidth, plausibility, rank_logs, shared
from pytest_gpucluster.measure import samples, switches
from pytest_gpucluster.measure.collective import size_text
from pytest_gpucluster.measure.nccl import Facts
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = (
    "each run with something switched off shows other transports than the run without, and a figure outside of its "
    "spread"
)
COMPARED = "all_reduce"

UNHEARD = Cause(
    "NCCL did not read the variable: an image or nccl.conf sets it again, or a plugin brings the transport by itself",
    "read the lines `set by environment` of the run that is labelled as switched off, and /etc/nccl.conf of the image",
)
ELSEWHERE = Cause(
    "something else bounds the figure: another path carries it, the size is too small, or the adapters are slower than "
    "what was switched off",
    "compare at a larger size; read in both runs which transports the ranks' logs show",
)
BY_OTHERS = Cause(
    "the transport changed between the runs, and not by the switch: the members ran on other nodes, or somebody else's "
    "settings changed",
    "repeat both runs on the same nodes",
)
UNLIKE = Cause(
    "something else changed between the two runs, and may have changed the figure: settings, GPUs, or the NCCL that "
    "was loaded",
    "look for what sets other variables in some pods (admission webhooks, images by a moving tag), and repeat both "
    "runs",
)


@dataclasses.dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        gang: its gang.
        told: what its ranks said.
        facts: what their logs show.
    """

    gang: Gang
    told: Told
    facts: Facts


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a pair of runs shows.

    Attributes:
        text: in words.
        kind: `effect`, `none` (a violation), `open`, or `off-anyway` where there was nothing to switch off.
        causes: why.
        gang: the run with the switch.
    """

    text: str
    kind: str
    causes: tuple[Cause, ...] = ()
    gang: Gang | None = None


@subjects.judge
def has_effect(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-019."""
    heard = shared.heard_on_gpus(evidence, given, REQUIRED)
    if isinstance(heard, Finding):
        return heard
    gang, told, found = heard
    labels = fields.sub(given, "switched")
    if not labels or gang is None:
        return found.inconclusive("the evidence does not say what was switched off in which run")
    unfinished = bus_bandwidth.incomplete(evidence, given, told, gang, REQUIRED)
    if unfinished is not None:
        return found.inconclusive(
            f"the run with everything on: {unfinished.observed}", causes=unfinished.causes
        )
    on = Run(gang, told, rank_logs.facts(evidence, given, gang))
    gap = _gap(evidence, given, on)
    if gap:
        return found.inconclusive(f"the run with everything on: {gap}", rank_logs.SILENT)
    odd = _unsound(on.told)
    if odd is not None:
        return found.inconclusive(f"the run with everything on: {odd[0]}", odd[1])
    others = {one.name: one for one in subjects.cast(evidence, given, "contrast") or ()}
    outcomes = [
        _outcome(evidence, given, (str(switch), on), others.get(str(name))) for name, switch in labels.items()
    ]
    return _decided(found, outcomes, _numbers(evidence, on, labels, others))


def _decided(found: wording.Findings, outcomes: Sequence[Outcome], numbers: tuple[Number, ...]) -> Finding:
    none = [one for one in outcomes if one.kind == "none"]
    open_ = [one for one in outcomes if one.kind == "open"]
    shown = [one for one in outcomes if one.kind == "effect"]
    for some, build in ((none, found.fail), (open_, found.inconclusive)):
        if some:
            text = "; ".join(one.text for one in some)
            causes = tuple(dict.fromkeys(cause for one in some for cause in one.causes))
            where = wording.shown(
                [pod.where for one in some if one.gang is not None for pod in one.gang.pods]
            )
            more = {"violation": True} if some is none else {}
            return build(text, causes=causes, numbers=numbers, **({"where": where} if where else {}), **more)
    rest = [one.text for one in outcomes if one.kind == "off-anyway"]
    if not shown:
        return found.not_applicable(
            f"nothing that could be switched off is in use: {wording.listed(rest, 4)}"
        )
    return found.passed("; ".join([*(one.text for one in shown), *rest]), numbers=numbers)


def _outcome(evidence: Evidence, given: subjects.Given, base: tuple[str, Run], gang: Gang | None) -> Outcome:
    """Compare one run with the one in which everything is on."""
    name, on = base
    switch = switches.SWITCHES.get(name)
    if switch is None:
        return Outcome(f"nobody knows how {name} shows in a log", "open")
    if gang is None:
        return Outcome(f"the run with {name} switched off was not made", "open")
    off = Run(gang, shared.told(evidence, gang), rank_logs.facts(evidence, given, gang))
    unfinished = shared.nobody(evidence, off.told, gang, REQUIRED) or bus_bandwidth.incomplete(
        evidence, given, off.told, gang, REQUIRED
    )
    if unfinished is not None:
        return Outcome(f"with {name} switched off: {unfinished.observed}", "open", unfinished.causes, gang)
    gap = _gap(evidence, given, off)
    if gap:
        return Outcome(f"with {name} switched off: {gap}", "open", (rank_logs.SILENT,), gang)
    if not switch.seen(on.facts):
        return Outcome(f"{name} is not in use", "off-anyway")
    odd = _unsound(off.told)
    if odd is not None:
        return Outcome(f"with {name} switched off: {odd[0]}", "open", (odd[1],), gang)
    before, after = switches.path_names(on.facts), switches.path_names(off.facts)
    if switch.seen(off.facts):
        text = f"{name} is labelled off and the ranks still use {wording.listed(after, 4)}: the switch had no effect"
        return Outcome(text, "none", (UNHEARD,), gang)
    unshown = _unshown(on.facts, off.facts)
    if unshown:
        return Outcome(f"with {name} switched off {unshown}", "open", (rank_logs.SILENT,), gang)
    if not _set(off, switch):
        text = f"{name} is not seen any more, but not every rank had {wording.listed(list(switch.env))} set"
        return Outcome(text, "open", (BY_OTHERS,), gang)
    unlike = _unlike(on.told, off.told, switch)
    if unlike:
        text = f"{name}: the two runs differ by more than the switch: {unlike}"
        return Outcome(text, "open", (UNLIKE,), gang)
    return _figures(name, (on, off), f"{wording.listed(before, 4)} became {wording.listed(after, 4)}")


def _unsound(told: Told) -> tuple[str, Cause] | None:
    """Return why the figures of a run are none, with the cause; None if they are: others differ for any reason."""
    wrong = next(((rank, one) for rank in told.ranks for one in rank.results if (one.wrong or 0) > 0), None)
    if wrong is not None:
        return f"{wrong[0].where}: {plausibility.what(wrong[1])} has wrong data", bus_bandwidth.WRONG
    checks = (
        (plausibility.impossible(told), plausibility.CONTRADICTS),
        (plausibility.unchecked(told), plausibility.UNCHECKED),
        (plausibility.partly(told), plausibility.PARTLY),
    )
    return next(((text, cause) for text, cause in checks if text), None)


def _unshown(on: Facts, off: Facts) -> str:
    """Return which paths of the run with a switch its logs do not show, "" for none: silence is no other transport."""
    if not switches.path_names(off):
        return "the logs show no path at all"
    silent = sorted({path.rank for path in on.paths} - {path.rank for path in off.paths})
    if silent:
        return f"the logs of rank {wording.listed([str(n) for n in silent])} show no path"
    if any(path.carrier for path in on.paths) and not any(path.carrier for path in off.paths):
        return "the logs show no path between nodes"
    return ""


def _unlike(on: Told, off: Told, switch: switches.Switch) -> str:
    """Return by what else than a switch two runs differ, "" for nothing that ranks tell of."""
    early = [rank for rank in on.ranks if all(_has(rank, *one) for one in switch.env.items())]
    if early:
        return f"{early[0].where} has {wording.listed(list(switch.env))} set with everything on too"
    for name in ("device_name", "nccl"):
        before, after = ({rank.says(name) for rank in told.ranks} for told in (on, off))
        if before != after:
            return f"{wording.listed(sorted(after))} in place of {wording.listed(sorted(before))}"
    sizes = [sorted(Counter(rank.node for rank in told.ranks).values()) for told in (on, off)]
    if sizes[0] != sizes[1]:
        before, after = ({f"{n} ranks of a node" for n in size} for size in sizes)
        return f"{wording.listed(sorted(after))} in place of {wording.listed(sorted(before))}"
    others = {rank.rank: _settings(rank, switch) for rank in off.ranks}
    strange = sorted(
        {
            name
            for rank in on.ranks
            for name, _ in _settings(rank, switch) ^ others.get(rank.rank, frozenset())
        }
    )
    return f"{wording.listed(strange, 4)} of a rank" if strange else ""


def _settings(rank: Rank, switch: switches.Switch) -> frozenset[tuple[str, str]]:
    """Return the variables of a rank that bear on its transport, but for those of a switch."""
    kept = (rank.environment or {}).items()
    return frozenset(one for one in kept if one[0] not in switch.env and not one[0].startswith("NCCL_DEBUG"))


def _has(rank: Rank, name: str, value: str) -> bool:
    return (rank.environment or {}).get(name) == value


def _set(run: Run, switch: switches.Switch) -> bool:
    """Report whether each rank says that it had the variables of a switch."""
    return all(_has(rank, *one) for rank in run.told.ranks for one in switch.env.items())


def _figures(name: str, runs: tuple[Run, Run], text: str) -> Outcome:
    """Say whether the figures of two runs differ by more than each varies."""
    on, off = runs
    common = sorted(
        {size for kind, size in bus_bandwidth.slowest(on.told) if kind == COMPARED}
        & {size for kind, size in bus_bandwidth.slowest(off.told) if kind == COMPARED}
    )
    spreads = [_spread(run.told, common[-1]) for run in runs] if common else [None]
    if not common or None in spreads:
        return Outcome(f"{name}: {text}, but both runs have no figure to compare", "open", (), off.gang)
    first, second = (spread for spread in spreads if spread is not None)
    told = f"{COMPARED} of {size_text(common[-1])} {first[1]:.4g} and {second[1]:.4g} GB/s"
    if first[0] <= second[2] and second[0] <= first[2]:
        text = f"{name}: {text}, but {told} are equal within their spread: the switch had no effect on them"
        return Outcome(text, "none", (ELSEWHERE, UNHEARD), off.gang)
    nodes = [{rank.node for rank in run.told.ranks} for run in runs]
    moved = "" if nodes[0] == nodes[1] else f", on {wording.listed(sorted(nodes[1]), 4)} in place of others"
    return Outcome(f"{name} off: {text}, {told}{moved}", "effect", (), off.gang)


def _spread(told: Told, size: int) -> tuple[float, float, float] | None:
    """Return least, mean and most bus bandwidth of the slowest rank, by its 90th percentile and its shortest time."""
    found = bus_bandwidth.slowest(told).get((COMPARED, size))
    if found is None:
        return None
    rate, rank = found
    data = next(one.data for one in rank.results if (one.collective, one.size) == (COMPARED, size))
    mean, most, least, worst = (samples.number(data.get(key)) for key in ("mean", "p90", "min", "p99"))
    # Times that do not go together are no figure.
    if not mean or not most or not least or not worst or rate <= 0 or not least <= mean <= worst:
        return None
    if not least <= most <= worst or (samples.number(data.get("iters")) or 0) < bus_bandwidth.LEAST_TIMES:
        return None
    return min(rate, rate * mean / most), rate, rate * mean / least


def _gap(evidence: Evidence, given: subjects.Given, run: Run) -> str:
    """Return whose log is missing or not whole, "" for none."""
    world = shared.expected(given, run.told) or len(run.told.ranks)
    logs = nccl_logs.read(evidence, subjects.uids(run.gang))
    silent = payload_lines.absent(world, {log.rank for log in logs if log.whole and log.lines})
    return (
        f"the NCCL log of rank {wording.listed([str(n) for n in silent])} is missing or incomplete"
        if silent
        else ""
    )


def _numbers(
    evidence: Evidence, on: Run, labels: fields.Object, others: Mapping[str, Gang]
) -> tuple[Number, ...]:
    """Return the figures of all runs at their largest size."""
    each = [("everything on", on.told)]
    each += [
        (f"{switch} off", shared.told(evidence, others[str(name)]))
        for name, switch in labels.items()
        if str(name) in others
    ]
    found = []
    for what, told in each:
        sizes = [size for kind, size in bus_bandwidth.slowest(told) if kind == COMPARED]
        if sizes:
            rate = bus_bandwidth.slowest(told)[COMPARED, max(sizes)][0]
            found.append(Number(f"{COMPARED} of {size_text(max(sizes))}, {what}", rate, "GB/s"))
    return tuple(found)
