"""MFU-006: no figure has fallen against the baseline report of the same node shape."""

from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.mfu import gemm, plausibility, shared, simultaneous, train_step
from pytest_gpucluster.measure import samples
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = "no figure fell by more than declared from the baseline report of the same node shape"
REGRESSED = Cause(
    "something changed since the accepted run: driver, firmware, power limit, cooling, image, or a GPU",
    "compare versions of both reports (driver, NCCL, torch), then clocks and power of the GPUs in the facts of MFU-001",
)
OTHER_SHAPE = Cause(
    "the baseline comes from other nodes: its figures cannot be compared with these",
    "name a baseline of this shape, or accept this run as the baseline of its shape",
)
UNREADABLE = Cause(
    "the file under mfu.baseline is not a report of this suite with figures of MFU-001 or MFU-002",
    "name the report.json of an accepted run",
)
DEFAULT_LOSS = 0.05


@subjects.judge
def not_fallen(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge MFU-006."""
    products, gang = shared.told(evidence, given, "gemm", "gemm")
    training, trained = shared.told(evidence, given, "train", "train")
    base = fields.sub(shared.mfu(given), "baseline_figures")
    problem = str(shared.mfu(given).get("baseline_problem") or "")
    ranks = [*products.measured, *training.measured]
    if not ranks and not shared.mfu(given):
        text = "no rank reported figures, and no baseline is declared"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang or trained)
    if not base and not problem:
        text = "no baseline is declared (mfu.baseline)"
        return wording.finding(Verdict.NOT_APPLICABLE, REQUIRED, text, gang or trained)
    if ranks and all(rank.cpu for rank in ranks):
        text = "no GPU was measured: figures of CPUs are not compared"
        return wording.finding(Verdict.NOT_APPLICABLE, REQUIRED, text, gang or trained)
    keys = (*shared.keys(products), *shared.keys(training))
    if problem:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, problem, gang or trained, causes=(UNREADABLE,), evidence=keys
        )
    now: dict[str, Any] = {}
    if products.measured:
        now["products"] = gemm.facts_of(products)
    if training.measured:
        now["training"] = train_step.facts_of(training)
    pairs, apart = compared(base, now)
    if not pairs:
        text = "; ".join(apart) or "the baseline has no figure that this run measured"
        cause = OTHER_SHAPE if apart else shared.NO_LINE
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text, gang or trained, causes=(cause,), evidence=keys
        )
    allowed = samples.number(shared.mfu(given).get("regression")) or DEFAULT_LOSS
    origin = f"{1 - allowed:g} of {base.get('origin') or 'the baseline report'}"
    numbers = tuple(
        Number(what, is_, unit, round((1 - allowed) * was, 5), origin, floor=True)
        for what, unit, was, is_ in pairs
    )
    fallen = [pair for pair in pairs if pair[3] < (1 - allowed) * pair[2]]
    if fallen:
        text = "; ".join(
            f"{what} fell from {was:g} to {is_:g} {unit} ({is_ / was - 1:+.1%})"
            for what, unit, was, is_ in fallen
        )
        slowest = shared.places(list(products.measured)) if products.measured else ()
        return wording.finding(
            Verdict.FAIL, REQUIRED, text, gang or trained, violation=True, causes=(REGRESSED,), numbers=numbers,
            evidence=keys, where=slowest,
        )  # fmt: skip
    doubts = shared.incomplete(products, shared.world(given, products, "world")) if "products" in base else []
    if "training" in base:
        doubts += shared.incomplete(training, shared.world(given, training, "training_world"))
    for rank in products.measured:
        doubts += plausibility.of_products(rank, given)
    for rank in training.measured:
        doubts += plausibility.of_training(rank, given)
    for told in (products, training):
        doubts += [*simultaneous.of_devices(told), *simultaneous.of_times(told)]
    # A peak is not needed to compare a figure with an older one.
    doubts = [doubt for doubt in doubts if doubt.cause is not shared.UNKNOWN_GPU]
    if doubts:
        return shared.undecided(doubts, REQUIRED, gang or trained, evidence=keys, numbers=numbers)
    if apart:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, "; ".join(apart), gang or trained, causes=(OTHER_SHAPE,), evidence=keys,
            numbers=numbers,
        )  # fmt: skip
    worst = min(pairs, key=lambda pair: pair[3] / pair[2])
    change = f"{worst[3] / worst[2] - 1:+.1%}"
    text = f"{wording.count(len(pairs), 'figure')}; the lowest against the baseline is {worst[0]}, {change}"
    return wording.finding(Verdict.PASS, REQUIRED, text, gang or trained, evidence=keys, numbers=numbers)


Pair = tuple[str, str, float, float]
"""What, its unit, the baseline's value, the value now."""


def compared(base: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[list[Pair], list[str]]:
    """Return figures of both with their names, and what keeps others from being compared."""
    pairs: list[Pair] = []
    apart: list[str] = []
    for part in ("products", "training"):
        was, is_ = fields.sub(base, part), fields.sub(now, part)
        if not was:
            continue
        if not is_:
            apart.append(f"the baseline has figures of {part}, but this run has none")
            continue
        differ = _differ(fields.sub(was, "shape"), fields.sub(is_, "shape"))
        if part == "training":
            differ += _differ_in(fields.sub(was, "training"), fields.sub(is_, "training"))
        if differ:
            apart.append(f"{part}: {'; '.join(differ)}")
            continue
        pairs += _products(was, is_) if part == "products" else _training(was, is_)
    return pairs, apart


def _differ(was: Mapping[str, Any], is_: Mapping[str, Any]) -> list[str]:
    names = ("device", "nodes", "per_node", "limit_w")
    return [
        f"{name} was {was.get(name)!r}, is {is_.get(name)!r}"
        for name in names
        if was.get(name) != is_.get(name)
    ]


def _differ_in(was: Mapping[str, Any], is_: Mapping[str, Any]) -> list[str]:
    names = ("size", "format", "recompute", "compiled")
    return [
        f"{name} was {was.get(name)!r}, is {is_.get(name)!r}"
        for name in names
        if was.get(name) != is_.get(name)
    ]


def _lowest(data: Mapping[str, Any], *path: str) -> float | None:
    value = fields.sub(data, *path[:-1]).get(path[-1])
    found = samples.finite(value) if isinstance(value, list) else []
    return min(found) if found else None


def _products(was: Mapping[str, Any], is_: Mapping[str, Any]) -> list[Pair]:
    found = []
    for name in fields.sub(was, "products"):
        if fields.sub(was, "products", name).get("n") != fields.sub(is_, "products", name).get("n"):
            continue
        before, after = _lowest(was, "products", name, "median"), _lowest(is_, "products", name, "median")
        if before is not None and after is not None and before > 0:
            found.append((f"{name} products of the slowest GPU", "TFLOP/s", before, after))
    return found


def _training(was: Mapping[str, Any], is_: Mapping[str, Any]) -> list[Pair]:
    before, after = _lowest(was, "training", "tflops"), _lowest(is_, "training", "tflops")
    if before is None or after is None or before <= 0:
        return []
    return [("training of the slowest rank", "TFLOP/s", before, after)]
