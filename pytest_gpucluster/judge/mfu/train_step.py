"""MFU-002: a real training step reaches the floor of model FLOPs utilisation."""

import math
from typing import Any

from pytest_gpucluster.evidence.hardware.throughput import Rank, Told
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.mfu import plausibility, shared, simultaneous
from pytest_gpucluster.measure import samples
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "training reaches the floor of model FLOPs utilisation, without credit for recomputation; the loss falls and "
    "is the same on all ranks"
)
SAME = 1e-4
"""By how much the loss of one batch may differ between ranks, as part of it."""
SLOW = Cause(
    "time is spent outside matrix products: exposed communication, a slow GPU that all ranks wait for, eager "
    "code, or small shapes",
    "read `breakdown_ms` and `parts_s` of the line; compare with the products of each GPU (MFU-001) and the bus "
    "bandwidth (FAB-006)",
)
APART = Cause(
    "ranks hold different weights or compute differently: a lost collective, or a GPU that computes wrongly",
    "see FAB-006 (is the data of collectives right?) and MFU-001 (are products right?) for the odd rank",
)
UNLEARNED = Cause(
    "the loss does not fall: gradients are not applied, or are not numbers",
    "run the shipped payload; look for NaN in its line, and compare with --plain",
)

UTILISATION = "model FLOPs utilisation"
"""Name of the figure that is compared with the floor."""

UNTOLD = Cause(
    "the line does not report the loss before and after training, or the value is not a loss",
    "run the shipped payload: it reports the loss of one common batch before the first step and at the end",
)


@subjects.judge
def reaches_the_floor(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge MFU-002."""
    told, gang = shared.told(evidence, given, "train", "train")
    nothing = shared.nobody(evidence, told, gang, REQUIRED, "figures of training")
    if nothing is not None:
        return nothing
    shown: dict[str, Any] = {"evidence": shared.keys(told), "facts": facts_of(told)}
    # What is learned wrongly is wrong on CPUs too.
    wrong = _wrong(told)
    if wrong is not None:
        text, ranks, cause = wrong
        where = shared.places(ranks)
        return wording.finding(
            Verdict.FAIL, REQUIRED, text, gang, violation=True, causes=(cause,), where=where, **shown
        )
    blind = shared.without_gpu(told, given, gang, REQUIRED, _text(told), numbers=(_speed(told),), **shown)
    if blind is not None:
        return blind
    lost = shared.lost_gpu(told)
    if lost is not None:
        return shared.of_failed(lost, gang, REQUIRED)
    doubts = [*simultaneous.of_devices(told), *simultaneous.of_times(told), *_untold(told)]
    doubts += shared.incomplete(told, shared.world(given, told, "training_world"))
    for rank in told.measured:
        doubts += plausibility.of_training(rank, given)
        doubts += shared.of_clocks(rank, given, readable=False)
    training = fields.sub(shared.mfu(given), "training")
    floor = samples.number(training.get("mfu"))
    reached = min(
        (value for rank in told.measured if (value := share(rank, given)) is not None), default=None
    )
    number = Number(
        UTILISATION, None if reached is None else round(reached, 4), "", floor,
        str(training.get("origin") or ""), floor=floor is not None, peak=1.0,
    )  # fmt: skip
    numbers = (number, _speed(told))
    void = [doubt for doubt in doubts if doubt.cause not in (shared.THROTTLED, shared.CAPPED)]
    text = f"MFU {reached:.4f}, {_text(told)}" if reached is not None else _text(told)
    if floor is not None and reached is not None and reached < floor and not void:
        held = tuple(dict.fromkeys(doubt.cause for doubt in doubts))
        more = "".join(f"; {doubt.text}" for doubt in doubts[:2])
        return wording.finding(
            Verdict.FAIL, REQUIRED, f"{text}; the floor is {floor:g} ({training.get('origin')}){more}", gang,
            violation=True, causes=(*held, SLOW), numbers=numbers, where=shared.places(list(told.measured)), **shown,
        )  # fmt: skip
    if doubts:
        return shared.undecided(doubts, REQUIRED, gang, numbers=numbers, **shown)
    if floor is None:
        text = f"no floor is declared (mfu.training.mfu); measured: {text}"
        return wording.finding(Verdict.NOT_APPLICABLE, REQUIRED, text, gang, numbers=numbers, **shown)
    return wording.finding(Verdict.PASS, REQUIRED, text, gang, numbers=numbers, **shown)


def share(rank: Rank, given: subjects.Given) -> float | None:
    """Return the model FLOPs utilisation of a rank's GPU; None where peak or speed is not known."""
    size, speed = plausibility.decoder(rank), samples.number(rank.told.get("tokens_per_s"))
    peak, _ = shared.peak(rank, str(rank.told.get("format") or ""), given)
    if size is None or speed is None or peak is None:
        return None
    return speed * size.per_token() / 1e12 / peak


def _wrong(told: Told) -> tuple[str, list[Rank], Cause] | None:
    """Return what is wrong with what was learned, None where nothing is."""
    losses: list[tuple[Rank, float, float]] = []
    for rank in told.measured:
        told_of = fields.sub(rank.told, "loss")
        for name in ("common", "first", "last"):
            value = told_of.get(name)
            if any(isinstance(one, float) and not math.isfinite(one) for one in _listed(value)):
                return f"{rank.place}: the loss ({name}) is {value!r}", [rank], UNLEARNED
        common = _common(rank)
        if common is None:
            continue
        losses.append((rank, *common))
        own = samples.number(told_of.get("last"))
        if own is not None and own >= common[0]:
            text = f"{rank.place}: the loss of its own batches is {own:.4f} at the end; it began with {common[0]:.4f}"
            return text, [rank], UNLEARNED
    risen = [(rank, first, last) for rank, first, last in losses if last >= first]
    if risen:
        rank, first, last = risen[0]
        text = f"{rank.place}: the loss of the common batch went from {first:.4f} to {last:.4f}"
        return text, [one[0] for one in risen], UNLEARNED
    if not losses:
        return None
    pairs = {rank.rank: (first, last) for rank, first, last in losses}
    for at, when in ((0, "before"), (1, "after")):
        values = sorted(one[at] for one in pairs.values())
        middle = values[len(values) // 2]
        odd = [rank for rank, _, _ in losses if abs(pairs[rank.rank][at] - middle) > SAME * middle]
        if odd:
            text = f"{odd[0].place}: its loss of the same batch {when} training differs from the others ({middle:.6f})"
            return text, odd, APART
    return None


def _common(rank: Rank) -> tuple[float, float] | None:
    """Return the loss of the common batch before and after training; None where it is not told."""
    both = fields.sub(rank.told, "loss").get("common")
    values = samples.finite(both) if isinstance(both, list) else []
    return (values[0], values[1]) if len(values) == 2 and min(values) >= 0 else None


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _untold(told: Told) -> list[shared.Doubt]:
    """Return which ranks did not tell a loss that can be one."""
    found = [rank for rank in told.measured if _common(rank) is None]
    texts = (f"{rank.place}: its loss of the common batch is {_told_loss(rank)!r}" for rank in found)
    return [shared.Doubt(text, rank, UNTOLD) for text, rank in zip(texts, found, strict=True)]


def _told_loss(rank: Rank) -> object:
    return fields.sub(rank.told, "loss").get("common")


def _speed(told: Told) -> Number:
    values = samples.finite(rank.told.get("tokens_per_s") for rank in told.measured)
    return Number("tokens of one rank", min(values) if values else None, "tokens/s")


def _text(told: Told) -> str:
    rank = min(told.measured, key=lambda one: samples.number(one.told.get("tokens_per_s")) or 0.0)
    data, how = rank.told, fields.sub(rank.told, "how")
    step = fields.sub(data, "step_s")
    size = plausibility.decoder(rank)
    weights = f"{size.weights / 1e9:.3g} B weights" if size is not None else "a model of unknown size"
    compiled = "compiled" if how.get("compiled") is True else "not compiled"
    return (
        f"{weights} on {wording.count(len(told.measured), 'rank')}, {data.get('format')}, {compiled}: "
        f"{data.get('tflops')} TFLOP/s and {data.get('tokens_per_s')} tokens/s per rank, step {step.get('median')} s "
        f"(p95 {step.get('p95')})"
    )


def facts_of(told: Told) -> dict[str, Any]:
    """Return what a later run is compared with, and floors are proposed from."""
    first = told.measured[0].told
    found = {
        "shape": shared.shape(told),
        "training": {
            "size": dict(fields.sub(first, "size")),
            "format": first.get("format"),
            "recompute": fields.sub(first, "how").get("recompute"),
            "compiled": fields.sub(first, "how").get("compiled"),
            "tflops": [samples.number(rank.told.get("tflops")) for rank in told.measured],
            "tokens_per_s": [samples.number(rank.told.get("tokens_per_s")) for rank in told.measured],
            "step_s": dict(fields.sub(first, "step_s")),
            "breakdown_ms": dict(fields.sub(first, "breakdown_ms")),
            "attention": "the whole square, by the published convention",
        },
    }
    return {key: shared.plain(value) for key, value in found.items()}
