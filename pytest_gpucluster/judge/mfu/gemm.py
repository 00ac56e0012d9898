"""MFU-001: every GPU's sustained matrix products reach the floor, and the GPUs of a node are alike."""

import dataclasses
from typing import Any

from pytest_gpucluster.evidence.hardware.throughput import Rank, Told
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.mfu import plausibility, shared, simultaneous
from pytest_gpucluster.measure import floors, samples
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "every GPU's sustained matrix products reach the floor of their format, and GPUs of one node differ by no "
    "more than declared"
)
NOTHING = "neither a floor of products (mfu.floors, mfu.floor_file) nor a spread (mfu.spread) is declared"
SLOW = Cause(
    "the GPU is slower than others of its kind: a lowered power limit, heat, another process on it, or worn cooling",
    "compare clock, power and temperature with those of its neighbours in the facts of this row; swap it or drain it",
)


@subjects.judge
def reach_the_floor(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge MFU-001."""
    told, gang = shared.told(evidence, given, "gemm", "gemm")
    nothing = shared.nobody(evidence, told, gang, REQUIRED, "figures of products")
    if nothing is not None:
        return nothing
    facts = facts_of(told)
    shown: dict[str, Any] = {"evidence": shared.keys(told), "facts": facts}
    wrong = _wrong(told)
    if wrong is not None:
        # On CPUs too: of them no speed is judged, but what they compute is right.
        text, ranks, cause = wrong
        return wording.finding(
            Verdict.FAIL, REQUIRED, text, gang, violation=True, causes=(cause,), numbers=tuple(_numbers(told, given)),
            where=shared.places(ranks), **shown,
        )  # fmt: skip
    blind = shared.without_gpu(told, given, gang, REQUIRED, _listed(told), numbers=_bare(told), **shown)
    if blind is not None:
        return blind
    lost = shared.lost_gpu(told)
    if lost is not None:
        return shared.of_failed(lost, gang, REQUIRED)
    sharing = simultaneous.of_devices(told)
    seen = _violation(_alone(told, sharing), given)
    numbers = tuple(_numbers(told, given))
    if seen is not None:
        text, ranks, cause = seen
        held = [doubt for rank in ranks for doubt in shared.of_clocks(rank, given, readable=False)]
        causes = tuple(dict.fromkeys([*(doubt.cause for doubt in held), cause]))
        more = "".join(f"; {doubt.text}" for doubt in held[:2])
        return wording.finding(
            Verdict.FAIL, REQUIRED, text + more, gang, violation=True, causes=causes, numbers=numbers,
            where=shared.places(ranks), **shown,
        )  # fmt: skip
    doubts = [*sharing, *simultaneous.of_times(told)]
    doubts += shared.incomplete(told, shared.world(given, told, "world"))
    for rank in told.measured:
        doubts += plausibility.of_products(rank, given)
        doubts += shared.of_clocks(rank, given, readable=False)
    absent = _unmeasured(told, given)
    if doubts or absent:
        if not doubts:
            return wording.finding(
                Verdict.INCONCLUSIVE,
                REQUIRED,
                absent,
                gang,
                numbers=numbers,
                causes=(shared.SHORT,),
                **shown,
            )
        return shared.undecided(doubts, REQUIRED, gang, numbers=numbers, **shown)
    if not any(number.bound is not None for number in numbers):
        text = f"{NOTHING}; measured: {_listed(told)}"
        return wording.finding(Verdict.NOT_APPLICABLE, REQUIRED, text, gang, numbers=numbers, **shown)
    text = f"{wording.count(len(told.measured), 'GPU')} of {facts['shape']['device']}: {_listed(told)}"
    return wording.finding(
        Verdict.PASS,
        REQUIRED,
        text,
        gang,
        numbers=numbers,
        where=shared.places(list(told.measured)),
        **shown,
    )


def _alone(told: Told, sharing: list[shared.Doubt]) -> Told:
    """Return the ranks that have a GPU of their own: what two get of one says nothing about its speed."""
    two = {rank.rank for doubt in sharing if doubt.cause is simultaneous.SHARED for rank in doubt.about}
    return dataclasses.replace(told, ranks=tuple(rank for rank in told.ranks if rank.rank not in two))


def speed(rank: Rank, name: str) -> float | None:
    """Return the median TFLOP/s of a rank in a format; None where it is no number, or the product was wrong."""
    data = fields.sub(rank.told, "results", name)
    return (
        None
        if plausibility.inaccurate(rank, name)
        else samples.number(fields.sub(data, "tflops").get("median"))
    )


def floor_of(rank: Rank, name: str, given: subjects.Given) -> floors.Floor | None:
    """Return the floor of a rank's GPU in a format."""
    declared = fields.items(shared.mfu(given), "floors")
    peak, _ = shared.peak(rank, name, given)
    return floors.of_products(declared, str(rank.device.get("name") or ""), name, peak)


def _wrong(told: Told) -> tuple[str, list[Rank], Cause] | None:
    """Return which product is wrong, and where; None where all are right.

    Wrong is one that its rank calls so, and one whose own error says so.
    """
    wrong = [
        (rank, name)
        for rank in told.measured
        for name in plausibility.formats(rank)
        if plausibility.wrong(rank, name)
    ]
    if not wrong:
        return None
    rank, name = wrong[0]
    text = f"{rank.place}: the {name} product {plausibility.inaccurate(rank, name)}"
    return text, [one for one, _ in wrong], shared.WRONG_PRODUCT


def _violation(told: Told, given: subjects.Given) -> tuple[str, list[Rank], Cause] | None:
    """Return what must not be and was measured: a GPU below its floor, GPUs too far apart."""
    for name in _names(told):
        low = []
        for rank in told.measured:
            value, floor = speed(rank, name), floor_of(rank, name, given)
            if value is None or not _counts(rank, name, given):
                continue
            if floor is not None and value < floor.tflops:
                low.append((value, floor, rank))
        if low:
            value, floor, rank = min(low, key=lambda one: one[0] / one[1].tflops)
            others = (
                f"; {wording.count(len(low), 'GPU')} of {len(told.measured)} below it" if len(low) > 1 else ""
            )
            text = f"{rank.place}: {name} products at {value:g} TFLOP/s, the floor is {floor.tflops:g} ({floor.origin})"
            return text + others, [one[2] for one in low], SLOW
    allowed = samples.number(shared.mfu(given).get("spread"))
    for name in _names(told) if allowed is not None else ():
        for node, every in _by_node(told, name).items():
            ranks = [one for one in every if _counts(one[0], name, given)]
            values = [value for _, value in ranks]
            apart = samples.spread(values)
            if allowed is not None and apart > allowed:
                slowest = min(ranks, key=lambda one: one[1])
                text = (
                    f"GPUs of {node} differ by {apart:.1%} in {name} products, {allowed:.1%} are allowed; the slowest "
                    f"is {slowest[0].place} with {slowest[1]:g} TFLOP/s, the fastest has {max(values):g}"
                )
                return text, [slowest[0]], SLOW
    return None


def _counts(rank: Rank, name: str, given: subjects.Given) -> bool:
    """Report whether nothing makes the figure of a rank in a format no figure."""
    return not any(_voids(doubt) for doubt in plausibility.of_product(rank, name, given))


def _voids(doubt: shared.Doubt) -> bool:
    """Report whether a doubt makes a figure no figure: a GPU whose peak is unknown can still be below a floor."""
    return doubt.cause is not shared.UNKNOWN_GPU


def _names(told: Told) -> list[str]:
    return list(dict.fromkeys(name for rank in told.measured for name in plausibility.formats(rank)))


def _by_node(told: Told, name: str) -> dict[str, list[tuple[Rank, float]]]:
    found: dict[str, list[tuple[Rank, float]]] = {}
    for rank in told.measured:
        value = speed(rank, name)
        if value is not None:
            found.setdefault(rank.node, []).append((rank, value))
    return found


def _unmeasured(told: Told, given: subjects.Given) -> str:
    """Return which format has a floor and was not measured by a GPU; "" for none."""
    for rank in told.measured:
        declared = {str(one.get("format")) for one in fields.items(shared.mfu(given), "floors")}
        for name in sorted(declared):
            if speed(rank, name) is None and floor_of(rank, name, given) is not None:
                told_of = (
                    fields.sub(rank.told, "results", name).get("absent")
                    or "the rank reported nothing about it"
                )
                return f"{rank.place}: a floor of {name} products is declared, but they were not measured: {told_of}"
    return ""


def _numbers(told: Told, given: subjects.Given) -> list[Number]:
    """Return the slowest GPU of each format with its floor, and how far GPUs of a node lie apart."""
    found = []
    for name in _names(told):
        ranked = [(value, rank) for rank in told.measured if (value := speed(rank, name)) is not None]
        if not ranked:
            continue
        value, rank = min(ranked, key=lambda one: one[0])
        floor, (peak, _) = floor_of(rank, name, given), shared.peak(rank, name, given)
        what = f"{name} products of the slowest GPU ({rank.place})"
        found.append(
            Number(
                what,
                value,
                "TFLOP/s",
                None if floor is None else floor.tflops,
                "" if floor is None else floor.origin,
                floor=floor is not None,
                peak=peak,
            )
        )
    allowed = samples.number(shared.mfu(given).get("spread"))
    for name in _names(told)[:1]:
        apart = {
            n: samples.spread([value for _, value in ranks]) for n, ranks in _by_node(told, name).items()
        }
        node = max(apart, key=lambda one: apart[one], default="")
        if node:
            value = round(apart[node], 4)
            found.append(
                Number(f"spread of {name} products on {node}", value, "", allowed, "profile mfu.spread")
            )
    return found


def _bare(told: Told) -> tuple[Number, ...]:
    return tuple(_numbers(told, {}))


def _listed(told: Told) -> str:
    parts = []
    for name in _names(told):
        ranked = [(value, rank) for rank in told.measured if (value := speed(rank, name)) is not None]
        if ranked:
            slowest = min(ranked, key=lambda one: one[0])
            top = max(value for value, _ in ranked)
            parts.append(f"{name} {slowest[0]:g} to {top:g} TFLOP/s (slowest: {slowest[1].place})")
    return "; ".join(parts) or "no product"


def facts_of(told: Told) -> dict[str, Any]:
    """Return what a later run is compared with, and floors are proposed from."""
    products: dict[str, Any] = {}
    for name in _names(told):
        data = [fields.sub(rank.told, "results", name) for rank in told.measured]
        products[name] = {
            key: [samples.number(fields.sub(one, "tflops").get(key)) for one in data]
            for key in ("median", "p5")
        }
        products[name]["n"] = max((fields.number(one, "n") or 0 for one in data), default=0)
    gauges = [
        {key: fields.sub(rank.told, "gauges").get(key) for key in ("sm_mhz", "watts", "celsius", "reasons")}
        for rank in told.measured
    ]
    places = [rank.place for rank in told.measured]
    found = {"shape": shared.shape(told), "products": products, "gpus": places, "gauges": gauges}
    return {key: shared.plain(value) for key, value in found.items()}
