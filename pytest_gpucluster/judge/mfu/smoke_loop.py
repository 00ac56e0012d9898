"""MFU-004: the smoke loop's throughput counts 2 N^3 FLOPs a product, on each rank."""

import re
from typing import Any

from pytest_gpucluster.evidence.hardware.throughput import Rank
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.mfu import plausibility, shared
from pytest_gpucluster.measure import consistency, flops, peaks, samples
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = "throughput in the smoke loop is steps x 2 N^3 FLOPs / seconds of each rank, and the sum over ranks is right"
DOCUMENTED = Cause(
    "the documented formula counts each product twice and divides by the number of ranks, although every rank "
    "does the whole product: it gives 2/world of the true value, and is right only by accident on two ranks",
    "count STEPS * 2 * HID**3 / dt per rank; the sum over ranks is world times that",
)
OTHER = Cause(
    "the figure does not follow from steps, size and seconds of its own line",
    "count STEPS * 2 * HID**3 / dt per rank",
)
WRONG_SUM = Cause(
    "a collective mixed or lost contributions, or a GPU computed a wrong product",
    "look at the products of each GPU (MFU-001) and at the data of collectives (FAB-006)",
)
PRINTED = re.compile(
    r"world=(?P<world>\d{1,7}) steps=(?P<steps>\d{1,9}) wall=(?P<wall>\d{1,9}(?:\.\d{1,9})?)s "
    r"per_gpu_TFLOPs=(?P<told>\d{1,9}(?:\.\d{1,9})?)"
)
"""What the documented program prints."""
DOCUMENTED_SIZE = 8192
SLACK = 0.02


@subjects.judge
def counts_right(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge MFU-004."""
    told, gang = shared.told(evidence, given, "smoke", "smoke")
    if not told.ranks:
        printed = _printed(evidence, given)
        if printed is not None:
            return printed
    nothing = shared.nobody(evidence, told, gang, REQUIRED, "figures of the smoke loop")
    if nothing is not None:
        return nothing
    keys = shared.keys(told)
    world = shared.world(given, told, "world")
    wrong = [
        (rank, fault) for rank in told.measured if (fault := _fault(rank, told.world, given)) is not None
    ]
    numbers = tuple(_numbers(list(told.measured)))
    if wrong:
        rank, (text, cause) = wrong[0]
        where = shared.places([one for one, _ in wrong])
        return wording.finding(
            Verdict.FAIL, REQUIRED, f"{rank.place}: {text}", gang, violation=True, causes=(cause,), where=where,
            evidence=keys, numbers=numbers,
        )  # fmt: skip
    doubts = shared.incomplete(told, world)
    if doubts:
        return shared.undecided(doubts, REQUIRED, gang, evidence=keys, numbers=numbers)
    data = told.measured[0].told
    factor = 2 / (told.world or 1)
    text = (
        f"{wording.count(len(told.measured), 'rank')}, N {data['n']}, {data['steps']} steps: {data['tflops']:g} "
        f"TFLOP/s per rank with the all-reduce, {data['product_tflops']:g} without; the documented formula gives "
        f"{data['tflops_documented']:g} TFLOP/s (ratio {factor:.3g})"
    )
    return wording.finding(Verdict.PASS, REQUIRED, text, gang, evidence=keys, numbers=numbers)


def _fault(rank: Rank, world: int | None, given: subjects.Given) -> tuple[str, Cause] | None:
    """Return what is wrong with a rank's line and why, None where nothing is."""
    data = rank.told
    tolerances = consistency.SUM_TOLERANCE
    wrong_sum = consistency.accuracy(data, tolerances.get(str(data.get("format")), max(tolerances.values())))
    if wrong_sum:
        return f"the sum over ranks {wrong_sum}", WRONG_SUM
    names = ("n", "steps", "seconds", "product_seconds", "tflops", "product_tflops", "tflops_documented")
    wrong = [name for name in names if not (samples.number(data.get(name)) or 0) > 0]
    n, steps = fields.number(data, "n"), fields.number(data, "steps")
    if wrong or n is None or steps is None:
        return f"{', '.join(wrong) or 'its size'} is not a number above 0", OTHER
    if data.get("flop_per_product") != flops.product(n, n, n):
        return (
            f"a product of {n}^3 is counted as {data.get('flop_per_product')!r} FLOPs, it is {2 * n**3}",
            OTHER,
        )
    for name, seconds in (("tflops", "seconds"), ("product_tflops", "product_seconds")):
        right, got = flops.smoke_right(n, steps, float(data[seconds])), float(data[name])
        if abs(got - right) > SLACK * right:
            ways = flops.smoke_documented(n, steps, float(data[seconds]), world or 1)
            cause = DOCUMENTED if abs(got - ways) <= SLACK * ways else OTHER
            text = (
                f"{name} is reported as {got:g}, but {steps} x 2 x {n}^3 in {data[seconds]:g} s are {right:.4g} "
                "TFLOP/s"
            )
            return text, cause
    documented = (
        flops.smoke_documented(n, steps, float(data["seconds"]), rank.line.number("world") or 1)
        if rank.line
        else 0
    )
    if abs(float(data["tflops_documented"]) - documented) > SLACK * documented:
        return (
            f"the documented figure is reported as {data['tflops_documented']:g}, but it would be {documented:.4g}",
            OTHER,
        )
    odd = plausibility.of_smoke(rank, rank.line.number("world") or 1 if rank.line else 1, given)
    return (odd, OTHER) if odd else None


def _numbers(ranks: list[Rank]) -> list[Number]:
    found = []
    for name, what in (("tflops", "with the all-reduce"), ("product_tflops", "products alone"),
                       ("tflops_documented", "by the documented formula")):  # fmt: skip
        values = samples.finite(rank.told.get(name) for rank in ranks)
        if values:
            found.append(Number(f"smoke loop, {what}, slowest rank", min(values), "TFLOP/s"))
    return found


def _printed(evidence: Evidence, given: subjects.Given) -> Finding | None:
    """Judge what the documented program itself printed; None where it printed nothing."""
    lines = [
        (line, match)
        for line in evidence.logs()
        if (match := PRINTED.search(str(line.data.get("line") or "")))
    ]
    if not lines:
        return None
    line, match = lines[-1]
    n = subjects.count(given, "smoke_n") or DOCUMENTED_SIZE
    world, steps, wall, told = (
        int(match["world"]),
        int(match["steps"]),
        float(match["wall"]),
        float(match["told"]),
    )
    if not (world and steps and wall > 0):
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, f"{match[0]}: it gives no figure", evidence=(line.key,)
        )
    most = plausibility.BEYOND * peaks.largest()
    if told > most:
        text = f"{match[0]}: {told:g} TFLOP/s are beyond any GPU ({most:g})"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, causes=(OTHER,), evidence=(line.key,))
    right, documented = flops.smoke_right(n, steps, wall), flops.smoke_documented(n, steps, wall, world)
    # The line has two digits of the seconds and one of the figure.
    slack = SLACK + 0.006 / wall + 0.06 / max(told, 0.06)
    number = Number(
        "smoke loop as printed", told, "TFLOP/s", round(right, 3), f"{steps} x 2 x {n}^3 / {wall:g} s"
    )
    more: dict[str, Any] = {"evidence": (line.key,), "numbers": (number,)}
    text = (
        f"the line prints {told:g} TFLOP/s per GPU on {world} ranks; {steps} x 2 x {n}^3 in {wall:g} s are "
        f"{right:.4g}"
    )
    if abs(told - right) <= slack * right:
        tail = "; the documented formula is right only by accident on two ranks" if world == 2 else ""
        return wording.finding(Verdict.PASS, REQUIRED, text + tail, **more)
    if abs(told - documented) <= slack * documented:
        text += f", and {documented:.4g} by the documented formula"
        return wording.finding(Verdict.FAIL, REQUIRED, text, violation=True, causes=(DOCUMENTED,), **more)
    return wording.finding(
        Verdict.INCONCLUSIVE, REQUIRED, f"{text}: neither formula gives it with this N", **more
    )
