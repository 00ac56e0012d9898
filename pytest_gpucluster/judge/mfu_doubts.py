"""What speaks against a figure: no number, a contradiction with its own counts, more than physics allows, too short."""

import itertools
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence import fields, own_gpus
from pytest_gpucluster.evidence.figures import Rank
from pytest_gpucluster.judge import mfu_terms, terms
from pytest_gpucluster.judge.mfu_terms import SHORT, SLACK, UNKNOWN_GPU, WRONG_PEAK, WRONG_PRODUCT, Doubt
from pytest_gpucluster.measure import flops, samples
from pytest_gpucluster.requirement import Cause

ROUNDED = 1e-3
"""By how much percentiles may seem out of order: lines tell five digits."""
LEAST_WINDOWS = 10
LEAST_STEPS = 10
"""Figures from fewer windows or steps are not judged."""
LEAST_SECONDS = 2.0
"""The same for seconds on a GPU, whose clock needs as long to settle."""
PER_CPU = 6e9 * 128 / 1e12
"""TFLOP/s that no core reaches: 6 GHz, four units of 512 bits for fp32 (sold ones have two)."""
TIMES_COUNTED = (0, 12, 14)
"""What torch's counter sees of attention, times layers x width x sequence: nothing, as the formula, with what flash
attention computes again."""

CONTRADICTS = Cause(
    "the figure does not follow from what was counted: another formula, another clock, or a line that was changed",
    "run the shipped payload, and compare products, size and seconds of its line",
)
UNSTEADY = Cause(
    "the speed does not settle: clocks that jump, another process on the GPU, or the host that starts too slowly",
    "look for other processes on the GPU and for throttle reasons; let it run longer",
)
COUNTERS = Cause(
    "formula and counter of torch differ by more than attention explains: another model was trained than was declared",
    "compare size and weights in the line with the profile",
)


def _impossible(rank: Rank, text: str, cause: Cause) -> Doubt:
    return Doubt(f"{rank.place}: {text}", rank, cause, impossible=True)


def _unknown(rank: Rank, text: str, cause: Cause) -> Doubt:
    return Doubt(f"{rank.place}: {text}", rank, cause)


def of_numbers(rank: Rank, what: str, data: Mapping[str, Any], names: tuple[str, ...]) -> list[Doubt]:
    """Return which of some values are no finite numbers above 0."""
    wrong = {name: data.get(name) for name in names if not (samples.number(data.get(name)) or 0) > 0}
    if not wrong:
        return []
    listed = ", ".join(f"{name} is {value!r}" for name, value in wrong.items())
    return [_impossible(rank, f"{what} is no measurement: {listed}", CONTRADICTS)]


def above(rank: Rank, what: str, tflops: float, number_format: str, given: terms.Given) -> list[Doubt]:
    """Return whether a speed is above what the device can do, or cannot be compared with that."""
    if rank.cpu:
        cpus = fields.number(rank.device, "cpus") or 1
        if tflops > cpus * PER_CPU:
            text = f"{what} of {tflops:g} TFLOP/s is more than {cpus} CPUs can do ({cpus * PER_CPU:g})"
            return [_impossible(rank, text, WRONG_PEAK)]
        return []
    peak, why = mfu_terms.peak(rank, number_format, given)
    if peak is None:
        return [_unknown(rank, f"{what} of {tflops:g} TFLOP/s: {why}", UNKNOWN_GPU)]
    if tflops > peak:
        text = f"{what} of {tflops:g} TFLOP/s is above the dense peak of {peak:g} TFLOP/s"
        return [_impossible(rank, text, WRONG_PEAK)]
    return []


def of_spread(rank: Rank, what: str, data: Mapping[str, Any]) -> list[Doubt]:
    """Return whether percentiles stand in the wrong order: a mean below the least, a median above the largest."""
    names = [
        name for name in ("min", "p5", "median", "p95", "max") if samples.number(data.get(name)) is not None
    ]
    for low, high in itertools.pairwise(names):
        if data[low] > data[high] * (1 + ROUNDED):
            text = f"{what}: its {low} of {data[low]:g} is above its {high} of {data[high]:g}"
            return [_impossible(rank, text, CONTRADICTS)]
    return []


def of_time(rank: Rank) -> list[Doubt]:
    """Return whether figures were told before they can have been measured."""
    early = own_gpus.too_short(rank)
    return [_impossible(rank, early, CONTRADICTS)] if early else []


def of_products(rank: Rank, given: terms.Given) -> list[Doubt]:
    """Return what speaks against the figures of a line of `gemm`, of any format."""
    told = [one for name in formats(rank) for one in of_product(rank, name, given)]
    return told + of_time(rank)


def of_product(rank: Rank, name: str, given: terms.Given) -> list[Doubt]:
    """Return what speaks against the figures of one format in a line of `gemm`."""
    data = fields.sub(rank.told, "results", name)
    what = f"{name} product"
    speeds = fields.sub(data, "tflops")
    bare = of_numbers(rank, what, data, ("n", "products", "seconds", "wall", "windows"))
    bare += of_numbers(rank, what, speeds, ("median", "p5", "min", "max"))
    bare += of_spread(rank, what, speeds)
    if bare:
        return bare
    error = samples.number(data.get("error"))
    if data.get("right") is not True or error is None:
        return [
            _impossible(
                rank, f"{what} is wrong by {data.get('error')!r} of its largest element", WRONG_PRODUCT
            )
        ]
    n, count, seconds = data["n"], data["products"], float(data["seconds"])
    mean = flops.product(n, n, n) * count / seconds / 1e12
    doubts = []
    if not speeds["min"] * (1 - SLACK) <= mean <= speeds["max"] * (1 + SLACK):
        text = f"{what}: {count} of 2 x {n}^3 in {seconds:g} s are {mean:.4g} TFLOP/s, told are {speeds['min']:g} to "
        doubts.append(_impossible(rank, f"{text}{speeds['max']:g}", CONTRADICTS))
    if seconds > float(data["wall"]) * (1 + SLACK):
        text = f"{what}: {seconds:g} s by the device's clock in {data['wall']:g} s of the host's"
        doubts.append(_impossible(rank, text, CONTRADICTS))
    doubts += above(rank, what, float(speeds["median"]), name, given)
    if data["windows"] < LEAST_WINDOWS or (not rank.cpu and seconds < LEAST_SECONDS):
        text = f"{what}: {data['windows']} windows in {seconds:g} s are too few, {LEAST_WINDOWS} windows are needed"
        doubts.append(_unknown(rank, f"{text} in {LEAST_SECONDS:g} s", SHORT))
    elif not rank.cpu and data.get("steady") is not True:
        doubts.append(_unknown(rank, f"{what} did not get steady, CV {data.get('cv')!r}", UNSTEADY))
    return doubts


def formats(rank: Rank) -> list[str]:
    """Return the formats of which a line of `gemm` tells figures."""
    results: Mapping[str, Any] = fields.sub(rank.told, "results")
    return [name for name, data in results.items() if not (isinstance(data, Mapping) and "absent" in data)]


def decoder(rank: Rank) -> flops.Decoder | None:
    """Return the size that a line of `train_step` tells; None where it does not."""
    size = fields.sub(rank.told, "size")
    values = [fields.number(size, name) for name in ("layers", "width", "heads", "seq", "vocab")]
    known = [value for value in values if value]
    return flops.Decoder(*known) if len(known) == len(values) else None


def of_training(rank: Rank, given: terms.Given) -> list[Doubt]:
    """Return what speaks against the figures in a line of `train_step`."""
    data, what = rank.told, "training step"
    size = decoder(rank)
    batch = fields.number(fields.sub(data, "size"), "batch")
    bare = of_numbers(
        rank, what, data, ("steps", "wall", "seconds", "tokens_per_s", "tflops", "tflops_causal")
    )
    bare += of_numbers(rank, what, fields.sub(data, "step_s"), ("median", "p5", "p95"))
    bare += of_spread(rank, what, fields.sub(data, "step_s"))
    if size is None or not batch:
        bare.append(_impossible(rank, f"{what}: the line does not say what was trained", CONTRADICTS))
    if bare or size is None or not batch:
        return bare
    steps, wall = data["steps"], float(data["wall"])
    doubts = []
    speed = batch * size.seq * steps / wall
    needed = speed * size.per_token() / 1e12
    for name, right in (("tokens_per_s", speed), ("tflops", needed)):
        if abs(float(data[name]) - right) > SLACK * right:
            text = f"{what}: {steps} steps of {batch} x {size.seq} tokens in {wall:g} s: {right:.4g} {name}, told is "
            doubts.append(_impossible(rank, f"{text}{data[name]:g}", CONTRADICTS))
    if float(data["seconds"]) > wall * (1 + SLACK):
        text = f"{what}: {data['seconds']:g} s by the device's clock in {wall:g} s of the host's"
        doubts.append(_impossible(rank, text, CONTRADICTS))
    doubts += _of_mean(rank, float(data["seconds"]) / steps, fields.sub(data, "step_s"))
    if float(data["tflops_causal"]) > float(data["tflops"]) * (1 + SLACK):
        text = f"{what}: {data['tflops_causal']:g} TFLOP/s with half of attention, {data['tflops']:g} with all of it"
        doubts.append(_impossible(rank, text, CONTRADICTS))
    doubts += of_time(rank)
    doubts += above(rank, what, needed, "bf16" if data.get("format") == "bf16" else "fp32", given)
    doubts += _of_counts(rank, size)
    if steps < LEAST_STEPS:
        doubts.append(_unknown(rank, f"{what}: {steps} steps are too few, {LEAST_STEPS} are needed", SHORT))
    elif not rank.cpu and data.get("steady") is not True:
        doubts.append(_unknown(rank, f"{what} did not get steady, CV {data.get('cv')!r}", UNSTEADY))
    return doubts


def _of_mean(rank: Rank, mean: float, steps: Mapping[str, Any]) -> list[Doubt]:
    """Return whether the mean of the steps lies outside of what the steps are told to have taken."""
    low, high = samples.number(steps.get("min")), samples.number(steps.get("max"))
    below, above_ = (
        low is not None and mean < low * (1 - SLACK),
        high is not None and mean > high * (1 + SLACK),
    )
    if not below and not above_:
        return []
    text = f"training step: the mean of the steps is {mean:.4g} s, told are {steps.get('min')} to {steps.get('max')} s"
    return [_impossible(rank, text, CONTRADICTS)]


def _of_counts(rank: Rank, size: flops.Decoder) -> list[Doubt]:
    """Return whether formula and counter of torch differ by what attention does not explain."""
    counts = fields.sub(rank.told, "flop_per_token")
    counted = samples.number(counts.get("counted"))
    weights = 6 * size.multiplying
    if counts.get("weights") != weights or counted is None:
        text = f"FLOPs of a token for the weights are told as {counts.get('weights')!r}, by formula {weights}"
        return [_impossible(rank, text, CONTRADICTS)]
    one = size.layers * size.width * size.seq
    if any(abs(counted - weights - times * one) <= 0.005 * weights for times in TIMES_COUNTED):
        return []
    text = f"the counter of torch saw {counted:.5g} FLOPs a token, the formula has {weights + 12 * one:.5g}"
    return [_unknown(rank, text, COUNTERS)]
