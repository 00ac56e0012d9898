"""What speaks against a figure: no number, a contradiction with its own counts, more than physics allows, too short."""

from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence.hardware import own_gpus
from pytest_gpucluster.evidence.hardware.throughput import Rank
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.judge import subjects
from pytest_gpucluster.judge.mfu import shared
from pytest_gpucluster.judge.mfu.shared import SHORT, UNKNOWN_GPU, WRONG_PEAK, WRONG_PRODUCT, Doubt
from pytest_gpucluster.measure import consistency, flops, peaks, samples
from pytest_gpucluster.requirement import Cause

LEAST_WINDOWS = 10
LEAST_STEPS = 10
"""Figures from fewer windows or steps are not judged."""
LEAST_SECONDS = 2.0
"""The same for seconds on a GPU, whose clock needs as long to settle."""
PER_CPU = 6e9 * 128 / 1e12
"""TFLOP/s that no core reaches: 6 GHz, four units of 512 bits for fp32 (sold ones have two)."""
MOST_CPUS = 4096
"""CPUs that no node has."""
STEADY = 0.05
"""Variation of the last windows or steps from which on nothing on a GPU is steady, whatever the line says."""
FASTEST_WINDOW = 1.25
"""Part of the peak that no single window reaches: a clock may stand above the one that the peak is told for."""
BEYOND = 10.0
"""Times the largest peak of all listed GPUs that no GPU's is."""
PEAKS_APART = 1.4
"""Times by which a declared peak differs from the listed one of the same part only where it is another part's, or the
one with sparsity: variants of one part are closer."""
TIMES_COUNTED = (0, 12, 14)
"""What torch's counter sees of attention, times layers x width x sequence: nothing, as the formula, with what flash
attention computes again."""

CONTRADICTS = Cause(
    "the figure does not follow from what was counted: another formula, another clock, or a line that was changed",
    "run the shipped payload, and compare products, size and seconds of its line",
)
UNSTEADY = Cause(
    "the speed does not settle: clocks that jump, another process on the GPU, or a host that launches work too slowly",
    "look for other processes on the GPU and for throttle reasons; make it run longer",
)
OTHER_PEAK = Cause(
    "the declared peak belongs to another GPU, or counts sparsity",
    "leave mfu.peaks out for a GPU that the list knows, or declare the dense peak of this exact part",
)
COUNTERS = Cause(
    "the formula and torch's counter differ by more than attention explains: the trained model is not the "
    "declared one",
    "compare size and weights in the line with the profile",
)


def _impossible(rank: Rank, text: str, cause: Cause) -> Doubt:
    return Doubt(f"{rank.place}: {text}", rank, cause, impossible=True)


def _unknown(rank: Rank, text: str, cause: Cause) -> Doubt:
    return Doubt(f"{rank.place}: {text}", rank, cause)


def above(rank: Rank, what: str, tflops: float, number_format: str, given: subjects.Given) -> list[Doubt]:
    """Return whether a speed is above what the device can do, or cannot be compared with that."""
    if rank.cpu:
        told = fields.number(rank.device, "cpus") or MOST_CPUS
        cpus = min(told, MOST_CPUS)
        if tflops > cpus * PER_CPU:
            text = f"{what} of {tflops:g} TFLOP/s is more than {cpus} CPUs can do ({cpus * PER_CPU:g})"
            return [_impossible(rank, text, WRONG_PEAK)]
        return []
    most = BEYOND * peaks.largest()
    if tflops > most:
        return [_impossible(rank, f"{what} of {tflops:g} TFLOP/s is beyond any GPU ({most:g})", WRONG_PEAK)]
    other = of_peak(rank, number_format, tflops, given)
    if other:
        return [_impossible(rank, f"{what}: {other}", OTHER_PEAK)]
    peak, why = shared.peak(rank, number_format, given)
    if peak is None:
        return [_unknown(rank, f"{what} of {tflops:g} TFLOP/s: {why}", UNKNOWN_GPU)]
    if tflops > peak:
        text = f"{what} of {tflops:g} TFLOP/s is above the dense peak of {peak:g} TFLOP/s"
        return [_impossible(rank, text, WRONG_PEAK)]
    return []


def of_peak(rank: Rank, number_format: str, tflops: float, given: subjects.Given) -> str:
    """Return how the declared peak is not that of the GPU, as far as the list knows it; "" where it may be."""
    declared = samples.number(fields.sub(shared.mfu(given), "peaks").get(number_format))
    found = shared.part(rank)
    known = found.peak(number_format) if found.certain else None
    if declared is None or known is None or found.part is None:
        return ""
    if known / PEAKS_APART <= declared <= known * PEAKS_APART:
        return ""
    return (
        f"a dense {number_format} peak of {declared:g} TFLOP/s is declared, but {found.part.name} has {known:g}: "
        f"{tflops:g} TFLOP/s are {tflops / known:.3f} of it"
    )


def of_time(rank: Rank) -> list[Doubt]:
    """Return whether figures were told before they can have been measured."""
    early = own_gpus.too_short(rank)
    return [_impossible(rank, early, CONTRADICTS)] if early else []


def of_products(rank: Rank, given: subjects.Given) -> list[Doubt]:
    """Return what speaks against the figures of a line of `gemm`, of any format."""
    told = [one for name in formats(rank) for one in of_product(rank, name, given)]
    return told + of_time(rank)


def of_product(rank: Rank, name: str, given: subjects.Given) -> list[Doubt]:
    """Return what speaks against the figures of one format in a line of `gemm`."""
    data = fields.sub(rank.told, "results", name)
    what = f"{name} product"
    told = [_impossible(rank, f"{what}: {text}", CONTRADICTS) for text in consistency.product(data)]
    error = inaccurate(rank, name)
    if error:
        return [*told, _impossible(rank, f"{what} {error}", WRONG_PRODUCT)]
    if told:
        return told
    seconds = float(data["seconds"])
    speeds = fields.sub(data, "tflops")
    doubts = above(rank, what, float(speeds["median"]), name, given)
    peak, _ = shared.peak(rank, name, given)
    if not doubts and not rank.cpu and peak is not None and float(speeds["max"]) > peak * FASTEST_WINDOW:
        text = f"{what}: a window of {speeds['max']:g} TFLOP/s where the dense peak is {peak:g}"
        doubts.append(_impossible(rank, text, WRONG_PEAK))
    if data["windows"] < LEAST_WINDOWS or (not rank.cpu and seconds < LEAST_SECONDS):
        text = f"{what}: {data['windows']} windows in {seconds:g} s are too few, {LEAST_WINDOWS} windows are needed"
        doubts.append(_unknown(rank, f"{text} in {LEAST_SECONDS:g} s", SHORT))
        return doubts
    return doubts + _unsteady(rank, what, data)


def inaccurate(rank: Rank, name: str) -> str:
    """Return how the product of a format is wrong, or by how much nobody says; "" for a right one."""
    return consistency.accuracy(fields.sub(rank.told, "results", name), _allowed(name))


def wrong(rank: Rank, name: str) -> bool:
    """Report whether the product of a format is shown to be wrong."""
    return consistency.wrong(fields.sub(rank.told, "results", name), _allowed(name))


def _allowed(name: str) -> float:
    return consistency.TOLERANCE.get(name, max(consistency.TOLERANCE.values()))


def _unsteady(rank: Rank, what: str, data: Mapping[str, Any]) -> list[Doubt]:
    """Return whether a speed on a GPU did not get steady, by what the line says or by its own variation."""
    if rank.cpu or (data.get("steady") is True and float(data["cv"]) <= STEADY):
        return []
    return [_unknown(rank, f"{what} did not get steady, CV {data.get('cv')!r}", UNSTEADY)]


def of_smoke(rank: Rank, world: int, given: subjects.Given) -> str:
    """Return what speaks against the figures in a line of `smoke`, "" where nothing does."""
    data = rank.told
    own = "bf16" if data.get("format") == "bf16" else "fp32"
    beyond = [
        doubt.text
        for name in ("tflops", "product_tflops")
        for doubt in above(rank, name, samples.number(data.get(name)) or 0.0, own, given)
        if doubt.impossible
    ]
    return next(
        iter([*consistency.smoke(data, world), *beyond, *(doubt.text for doubt in of_time(rank))]), ""
    )


def formats(rank: Rank) -> list[str]:
    """Return the formats of which a line of `gemm` tells figures."""
    results: Mapping[str, Any] = fields.sub(rank.told, "results")
    return [name for name, data in results.items() if not (isinstance(data, Mapping) and "absent" in data)]


def decoder(rank: Rank) -> flops.Decoder | None:
    """Return the size that a line of `train_step` tells; None where it does not."""
    size = fields.sub(rank.told, "size")
    values = [fields.number(size, name) for name in ("layers", "width", "heads", "seq", "vocab")]
    known = [value for value in values if value and value < consistency.MOST]
    return flops.Decoder(*known) if len(known) == len(values) and known[1] % known[2] == 0 else None


def of_training(rank: Rank, given: subjects.Given) -> list[Doubt]:
    """Return what speaks against the figures in a line of `train_step`."""
    data, what = rank.told, "training step"
    size = decoder(rank)
    batch = fields.number(fields.sub(data, "size"), "batch")
    if size is None or not batch or batch >= consistency.MOST:
        return [_impossible(rank, f"{what}: the line does not describe the trained model", CONTRADICTS)]
    told = [
        _impossible(rank, f"{what}: {text}", CONTRADICTS) for text in consistency.training(data, size, batch)
    ]
    if told:
        return told + of_time(rank)
    number_format = "bf16" if data.get("format") == "bf16" else "fp32"
    doubts = [
        *of_time(rank),
        *above(rank, what, float(data["tflops"]), number_format, given),
        *_of_counts(rank, size),
    ]
    if data["steps"] < LEAST_STEPS:
        doubts.append(
            _unknown(rank, f"{what}: {data['steps']} steps are too few, {LEAST_STEPS} are needed", SHORT)
        )
        return doubts
    return doubts + _unsteady(rank, what, data)


def _of_counts(rank: Rank, size: flops.Decoder) -> list[Doubt]:
    """Return whether formula and counter of torch differ by what attention does not explain."""
    counts = fields.sub(rank.told, "flop_per_token")
    counted = samples.number(counts.get("counted"))
    weights = 6 * size.multiplying
    if counted is None:
        return [
            _impossible(rank, f"the counted FLOPs are reported as {counts.get('counted')!r}", CONTRADICTS)
        ]
    one = size.layers * size.width * size.seq
    if any(abs(counted - weights - times * one) <= 0.005 * weights for times in TIMES_COUNTED):
        return []
    text = f"torch's counter saw {counted:.5g} FLOPs per token, the formula gives {weights + 12 * one:.5g}"
    return [_unknown(rank, text, COUNTERS)]
