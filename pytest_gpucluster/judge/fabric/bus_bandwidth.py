"""FAB-006: the data of every collective is right, and its bus bandwidth reaches the floor of this shape.

The slowest rank's figure counts. A figure that its own times contradict, or that the wires cannot carry, is none.
"""

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping

from pytest_gpucluster.evidence.hardware.collectives import Rank, Told
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import plausibility, shared
from pytest_gpucluster.measure import collective, peaks, samples
from pytest_gpucluster.measure.collective import Floor, Shape, size_text
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "the data of every collective is right on every rank, and its bus bandwidth reaches the declared floor"
)

Figures = Mapping[tuple[str, int], tuple[float, Rank]]
"""(collective, size) -> bus bandwidth of the slowest rank, and whose it is."""
OTHER_FORM = re.compile(r"\b(?:PCIe|NVL|MIG|SHARED)\b", re.IGNORECASE)
"""In the name of a GPU with fewer links than the boards that published floors speak of, or of a part of one."""
ABOUT = 0.05
"""By how much two figures of the same links may differ, as they are rounded."""
LEAST_TIMES = 5
"""Times that a figure must be measured before it is compared."""
WRONG = Cause(
    "the collective mixed or lost data: a faulty GPU, link or adapter, or a mismatch of library versions over ranks",
    "look for Xid and ECC errors on the nodes of the named ranks, and compare NCCL versions over ranks",
)
SLOW = Cause(
    "the traffic did not take the declared path: sockets (FAB-003), without GPUDirect RDMA (FAB-002), fewer adapters "
    "(FAB-005), or SHM inside a node (FAB-018)",
    "read those rows first: they name the ranks",
)
LINK = Cause(
    "one link or node is slow and holds all others back",
    "see FAB-012, which names it; then PCIe width (nvidia-smi topo -m, lspci), port rate (ibstat), congestion counters",
)
IMPOSSIBLE = Cause(
    "the figure exceeds what the wires carry: the declared number or rate of adapters is too small, or the "
    "times are wrong",
    "compare nics_per_node and nic_gbps of the profile with `ibstat` on a node",
)


@subjects.judge
def reaches_floor(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-006."""
    heard = shared.heard(evidence, given, REQUIRED)
    if isinstance(heard, Finding):
        return heard
    gang, told, found = heard
    wrong = [
        (rank, one) for rank in told.ranks for one in (*rank.results, *rank.pairs) if (one.wrong or 0) > 0
    ]
    if wrong:
        listed = wording.listed(
            [f"{rank.where}: {plausibility.what(one)}, {one.wrong} elements" for rank, one in wrong], 4
        )
        where = shared.places([rank for rank, _ in wrong])
        return found.fail(f"wrong data: {listed}", WRONG, violation=True, where=where)
    unfinished = incomplete(evidence, given, told, gang, REQUIRED)
    if unfinished is not None:
        return unfinished
    for odd, cause in (
        (plausibility.unchecked(told), plausibility.UNCHECKED),
        (plausibility.partly(told), plausibility.PARTLY),
    ):
        if odd:
            return found.inconclusive(odd, cause)
    figures = slowest(told)
    if told.cpu:
        text = f"{shared.CPU}; the data is right, but the figures say nothing about the fabric"
        return found.not_applicable(text, numbers=(*_starts(told), *_numbers(figures, [], None)))
    odd = plausibility.impossible(told)
    if odd:
        return found.inconclusive(odd, plausibility.CONTRADICTS)
    return _compared(given, told, figures, gang)


def incomplete(
    evidence: Evidence, given: subjects.Given, told: Told, gang: Gang | None, required: str
) -> Finding | None:
    """Return what ranks that are missing, failed, stood still or told no figures make of a row; None for none."""
    keys = shared.keys(told)
    stalled = [rank for rank in told.ranks if rank.stalled is not None]
    failed = [rank for rank in told.ranks if rank.failed is not None]
    killed = shared.killed(told)
    for ranks, what in ((stalled, "stands still"), (failed, "failed")):
        if ranks:
            word = ranks[0].stalled or ranks[0].failed
            said = "" if word is None else str(word.data.get("error") or word.data.get("collective") or "")
            text = f"{ranks[0].where} {what}: {said}"
            if killed:
                # What the others say is that they lost these.
                text = f"{shared.lost(killed)}; {text}"
            return wording.finding(
                Verdict.FAIL, required, text, gang, causes=(shared.KILLED if killed else shared.DIED,), evidence=keys,
                where=shared.places(killed + ranks),
            )  # fmt: skip
    absent = shared.missing(told, shared.expected(given, told) or len(told.ranks))
    mute = [rank for rank in told.ranks if not rank.results]
    bad = [rank for rank in told.ranks if rank.problems]
    if not (absent or mute or bad):
        return None
    text = ""
    if absent:
        text = f"rank {wording.listed([str(n) for n in absent])} said nothing"
    elif mute:
        text = shared.lost(killed) if killed else f"{mute[0].where} reported no figures"
    elif bad:
        text = f"{bad[0].where}: {bad[0].problems[0]}"
    if told.torn:
        text += f"; {wording.count(told.torn, 'line')} cut in the middle"
    expired = subjects.timed_out(evidence)
    died = expired is not None and not bad and not told.torn
    if expired is not None:
        text += f"; waited for {expired[0]}"
    verdict = Verdict.FAIL if died else Verdict.INCONCLUSIVE
    where = shared.places((killed if not absent else []) or mute or bad) or None
    more = {} if where is None else {"where": where}
    cause = shared.KILLED if killed else shared.DIED
    return wording.finding(verdict, required, text, gang, causes=(cause,), evidence=keys, **more)


def slowest(told: Told) -> dict[tuple[str, int], tuple[float, Rank]]:
    """Return (collective, size) -> the smallest bus bandwidth over ranks, and whose it is."""
    found: dict[tuple[str, int], tuple[float, Rank]] = {}
    for rank in told.ranks:
        for one in rank.results:
            key = (one.collective, one.size)
            if one.busbw is not None and not one.skipped and (key not in found or one.busbw < found[key][0]):
                found[key] = (one.busbw, rank)
    return found


def _compared(
    given: subjects.Given, told: Told, figures: dict[tuple[str, int], tuple[float, Rank]], gang: Gang | None
) -> Finding:
    """Compare with the floors of this shape."""
    shape = shared.shape(given, told)
    keys = shared.keys(told)

    def found(floors: Iterable[Floor] = ()) -> wording.Findings:
        compared = list(floors)
        numbers = (*_starts(told), *_numbers(figures, compared, shape))
        facts = _facts(shape, told, figures, compared)
        return wording.Findings(REQUIRED, gang, evidence=keys, numbers=numbers, facts=facts)

    if shape is None:
        return found().inconclusive("the nodes hold different numbers of ranks: no floor applies")
    device = told.ranks[0].says("device_name")
    listed = [(floor, one) for floor, one in shared.floors(given) if _fits(floor, one, shape, device)]
    floors = [floor for floor, one in listed if _asked(floor, one, figures)]
    impossible = _impossible(shape, figures, floors)
    if impossible:
        return found().inconclusive(impossible, IMPOSSIBLE)
    expected = subjects.count(given, "nodes")
    if expected is not None and expected != shape.nodes:
        text = f"{wording.count(expected, 'node')} expected, but the figures are for {shape.text()}"
        return found().inconclusive(text)
    unlike = plausibility.unlike(told, floors)
    if not floors:
        if unlike:
            return found().inconclusive(unlike, plausibility.CONTRADICTS)
        text = f"no floor is declared for {shape.text()} with {device or 'an unknown GPU'}"
        if shape.by_nics and shape.lacking():
            text += " (published floors need fabric.nics_per_node and fabric.nic_gbps)"
        if listed:
            larger = sorted({f"{floor.collective} from {size_text(floor.size)}" for floor, _ in listed})
            text = f"published floors of {shape.text()} begin above what was measured: {wording.listed(larger, 4)}"
        return found().not_applicable(f"{text}; the data is right, figures as measured")
    bad = [(floor, why) for floor in floors if (why := floor.implausible())]
    if bad:
        return found(floors).inconclusive(f"{bad[0][0].text()}: {bad[0][1]} (FAB-015)")
    below, unmeasured, few = [], [], []
    for floor in floors:
        sizes = [size for name, size in figures if name == floor.collective and size >= floor.size]
        if not sizes:
            unmeasured.append(f"{floor.collective} from {size_text(floor.size)}")
        for size in sizes:
            rate, rank = figures[floor.collective, size]
            if rate < floor.busbw:
                below.append((floor, size, rate, rank))
            if _times(rank, floor.collective, size) < LEAST_TIMES:
                few.append(f"{floor.collective} of {size_text(size)}")
    if below:
        slow = wording.listed(
            [f"{f.collective} of {size_text(s)} {r:.4g} of {f.busbw:g} GB/s" for f, s, r, _ in below], 4
        )
        where = shared.places([rank for *_, rank in below])
        return found(floors).fail(f"below the floor: {slow}", SLOW, LINK, where=where)
    if unmeasured or few:
        text = (
            f"not measured: {wording.listed(unmeasured)}"
            if unmeasured
            else f"too few times: {wording.listed(few)}"
        )
        return found(floors).inconclusive(text)
    if unlike:
        return found(floors).inconclusive(unlike, plausibility.CONTRADICTS)
    text = f"{wording.count(len(floors), 'floor')} of {shape.text()} reached, all data right on {len(told.ranks)} ranks"
    return found(floors).passed(text + _low(listed, figures))


def _asked(floor: Floor, told: fields.Object, figures: Figures) -> bool:
    """Report whether a floor is compared: those of a profile always, published ones from their size on."""
    measured = any(name == floor.collective and size >= floor.size for name, size in figures)
    return measured or told.get("of", "profile") == "profile"


def _low(listed: Iterable[tuple[Floor, fields.Object]], figures: Figures) -> str:
    """Return the figures that reach their floor and not what should make one look: the band between both."""
    low = []
    for floor, told in listed:
        warn = samples.number(told.get("warn"))
        for (name, size), (rate, _) in sorted(figures.items()):
            if warn is not None and name == floor.collective and size >= floor.size and rate < warn:
                low.append(f"{name} of {size_text(size)} {rate:.4g} GB/s is below {warn:g}")
    return f"; worth a look: {wording.listed(low, 4)}" if low else ""


def _facts(
    shape: Shape | None, told: Told, figures: dict[tuple[str, int], tuple[float, Rank]], floors: list[Floor]
) -> dict[str, object]:
    """Return what floors are proposed from: the slowest rank's figures with the shape that they belong to.

    A figure that a floor holds for has that floor beside it.
    """
    if shape is None:
        return {}
    own = {**dataclasses.asdict(shape), "device": told.ranks[0].says("device_name")}
    listed = [
        {
            "collective": name,
            "size": size,
            "busbw": rate if math.isfinite(rate) else None,
            **({"floor": floor.busbw} if (floor := _floor(floors, name, size)) is not None else {}),
        }
        for (name, size), (rate, _) in sorted(figures.items())
    ]
    return {"shape": own, "bandwidth": listed}


def _times(rank: Rank, name: str, size: int) -> int:
    """Return how often a rank measured something."""
    counted = [one.data.get("iters") for one in rank.results if (one.collective, one.size) == (name, size)]
    return min((n for n in counted if isinstance(n, int)), default=0)


def _impossible(
    shape: Shape, figures: dict[tuple[str, int], tuple[float, Rank]], floors: Iterable[Floor]
) -> str:
    """Return which figure is more than the wires carry: those of the profile, those of a floor, or any there are."""
    shapes = [shape, *(floor.shape for floor in floors if floor.shape is not None)]
    for (name, size), (rate, rank) in figures.items():
        tops = [top for one in shapes if (top := collective.ceiling(name, one)) is not None]
        top = min([*tops, collective.BEYOND])
        if rate > top * 1.02:
            return f"{rank.where}: {name} of {size_text(size)} at {rate:.4g} GB/s, the wires carry {top:.4g}"
    return ""


def _fits(floor: Floor, told: fields.Object, shape: Shape, device: str) -> bool:
    """Report whether a floor is one of this shape; a floor that says no shape is for whoever names it.

    A published floor is one of many clusters: what the profile does not declare of its wires is not guessed.
    """
    own = floor.shape
    if own is None:
        return True
    if (own.nodes, own.gpus) != (shape.nodes, shape.gpus) or not peaks.named(floor.device, device):
        return False
    published = told.get("of", "profile") != "profile"
    if published and (OTHER_FORM.search(device) or own.by_nics != shape.by_nics):
        return False
    if own.link_gbs and shape.link_gbs and not math.isclose(own.link_gbs, shape.link_gbs, rel_tol=ABOUT):
        return False
    if not shape.by_nics:
        return True
    same = shape.transport in ("", own.transport) or not own.transport
    return same and all(
        mine is None or mine == theirs or (theirs is None and not published)
        for mine, theirs in ((own.nics, shape.nics), (own.nic_gbps, shape.nic_gbps))
    )


def _starts(told: Told) -> tuple[Number, ...]:
    """Return how long the slowest rank took from its start to its first checked collective: what all overhead is."""
    words = {"pod": "from the pod's start", "process": "from the rank's start"}
    return tuple(
        Number(f"first checked collective {text}", max(taken), "s")
        for name, text in words.items()
        if (taken := [rank.first[name] for rank in told.ranks if name in rank.first])
    )


def _floor(floors: list[Floor], name: str, size: int) -> Floor | None:
    """Return the largest floor that holds for a collective of a size."""
    fitting = (one for one in floors if one.collective == name and size >= one.size)
    return max(fitting, key=lambda one: one.busbw, default=None)


def _numbers(
    figures: dict[tuple[str, int], tuple[float, Rank]], floors: list[Floor], shape: Shape | None
) -> tuple[Number, ...]:
    """Return the figures, each with the largest floor that holds for it.

    The largest size of a collective has also what the wires of the shape carry: a small one never comes near it.
    """
    largest: dict[str, int] = {}
    for name, size in figures:
        largest[name] = max(size, largest.get(name, 0))
    found = []
    for (name, size), (rate, _) in sorted(figures.items()):
        floor = _floor(floors, name, size)
        wires = None if shape is None else collective.ceiling(name, shape)
        peak = wires if size == largest[name] else None
        title = f"{name} of {size_text(size)}, slowest rank"
        bound, origin = (None, "") if floor is None else (floor.busbw, floor.origin)
        found.append(Number(title, rate, "GB/s", bound, origin, floor=floor is not None, peak=peak))
    return tuple(found[:48])
