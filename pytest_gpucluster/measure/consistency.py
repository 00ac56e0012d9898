"""Whether the figures of one record can be true beside each other: looked at in one place, before a judge compares any.

A record is what one line of a payload tells of one measurement. Each function returns why it cannot have been so, in
words that follow the name of what was measured; nothing for a record that can be true. What a GPU or a wire can do at
most is no matter of one record, and stands with the judges that know it.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_gpucluster.measure import collective, flops, samples

SLACK = 0.02
"""By how much two figures of one thing may differ: lines tell five digits, clocks of host and device drift."""
ROUNDED = 1e-3
"""By how much percentiles may seem out of order, as part of them: lines tell five digits."""
ROUNDED_US = 0.01
"""Microseconds by which two times of a collective may be in the wrong order, since they are rounded."""
TICK_US = 1.0
"""Microseconds by which a mean may leave the bounds that its percentiles set: a device's events have such a grain."""
HOST_SHARE, HOST_SECONDS = 0.1, 1.0
"""What the host's clock may show beyond the device's while that is never left without work: a part of it, and this."""
TOLERANCE = {"fp32": 1e-4, "tf32": 1 / 256, "fp16": 1 / 256, "bf16": 1 / 128, "fp8": 1 / 32}
"""Largest error of a product of a format, as part of its largest element: that of the payload `gemm`."""
SUM_TOLERANCE = {"bf16": 1 / 32, "fp32": 1e-4}
"""The same of a sum of products over ranks: that of the payload `smoke`."""
STREAMS = 8
"""Kernels of one kind that may run at once, so that their sum is more than a step takes."""
SPREAD = ("min", "p5", "median", "p95", "max")
TIMES = ("min", "p50", "p90", "p99", "max")
"""Names of percentiles, each at least the one before."""
MOST = 1 << 63
"""What no count reaches."""
HOTTEST = 150.0
"""Degrees that no GPU survives."""
FASTEST_MHZ = 10_000.0
"""Clock that no GPU has."""
OVER_LIMIT = 2.0
"""Times a board's own power limit that neither a peak of its power nor a limit set by hand reaches."""


def numbers(
    data: Mapping[str, Any],
    above: Iterable[str] = (),
    *,
    least: Iterable[str] = (),
    whole: Iterable[str] = (),
) -> str:
    """Return which of some values are no numbers of their kind.

    Args:
        data: the record.
        above: finite numbers above 0.
        least: finite numbers of at least 0.
        whole: whole numbers above 0.
    """
    wrong = [name for name in above if not (samples.number(data.get(name)) or 0) > 0]
    wrong += [name for name in least if (found := samples.number(data.get(name))) is None or found < 0]
    wrong += [name for name in whole if not _whole(data.get(name))]
    listed = ", ".join(f"{name} is {data.get(name)!r}" for name in wrong)
    return f"is not a measurement: {listed}" if listed else ""


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST


def odd(data: object, path: str = "") -> Iterator[str]:
    """Yield the figures anywhere in a record that are not finite or below zero: no time, speed, share or count is."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from odd(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list | tuple):
        for at, value in enumerate(data):
            yield from odd(value, f"{path}[{at}]")
    elif isinstance(data, int | float) and not isinstance(data, bool) and not 0 <= data < math.inf:
        yield f"its {path} is {data!r}"


def accuracy(data: Mapping[str, Any], allowed: float) -> str:
    """Return why a result is wrong, or is told to be right beside an error that says otherwise; "" for a right one."""
    error, right = samples.number(data.get("error")), data.get("right")
    if right is True and error is not None and 0 <= error <= allowed:
        return ""
    text = f"is wrong by {data.get('error')!r} of its largest element"
    if right is True:
        return f"{text}, more than the allowed {allowed:.3g}, but is reported as right"
    return text if right is False else f"{text}, and is not reported as right"


def wrong(data: Mapping[str, Any], allowed: float) -> bool:
    """Report whether a result is shown to be wrong, by what is told of it or by its own error."""
    return data.get("right") is False or (samples.number(data.get("error")) or 0.0) > allowed


def product(data: Mapping[str, Any]) -> list[str]:
    """Return what speaks against the figures of one format in a line of `gemm`, but for its error."""
    speeds = _mapping(data.get("tflops"))
    bare = [
        numbers(data, ("seconds", "wall"), least=("cv",), whole=("n", "products", "windows")),
        numbers(speeds, SPREAD),
        _order(speeds),
        *odd({key: value for key, value in data.items() if key != "error"}),
    ]
    if any(bare):
        return list(filter(None, bare))
    n, count, seconds, windows = data["n"], data["products"], float(data["seconds"]), data["windows"]
    mean = flops.product(n, n, n) * count / seconds / 1e12
    found = []
    if count < windows:
        found.append(f"counts {count} products in {windows} windows")
    # What fits a mean are times, and those of a window are its products by its speed.
    turned = {"min": "max", "median": "median", "max": "min"}
    inverse = {name: 1 / float(speeds[other]) for name, other in turned.items()}
    if not mean > 0 or not _fits(1 / mean, inverse, windows):
        found.append(
            f"{count} of 2 x {n}^3 in {seconds:g} s are {mean:.4g} TFLOP/s, but reported are {speeds['min']:g} to "
            f"{speeds['max']:g}, with a median of {speeds['median']:g}"
        )
    found += _clocks(seconds, float(data["wall"]))
    found += _steadiness(data, speeds)
    return found


def training(data: Mapping[str, Any], size: flops.Decoder, batch: int) -> list[str]:
    """Return what speaks against the figures in a line of `train_step`."""
    step = _mapping(data.get("step_s"))
    names = ("wall", "seconds", "tokens_per_s", "tflops", "tflops_causal")
    bare = [
        numbers(data, names, least=("cv", "start_s"), whole=("steps",)),
        numbers(step, SPREAD),
        _order(step),
        *odd({key: value for key, value in data.items() if key not in ("t", "loss")}),
    ]
    if any(bare):
        return list(filter(None, bare))
    steps, wall, seconds = data["steps"], float(data["wall"]), float(data["seconds"])
    speed = batch * size.seq * steps / wall
    rights = {
        "tokens_per_s": speed,
        "tflops": speed * size.per_token() / 1e12,
        "tflops_causal": speed * size.per_token(causal=True) / 1e12,
    }
    found = [
        f"{steps} steps of {batch} x {size.seq} tokens in {wall:g} s: {right:.4g} {name}, but "
        f"{data[name]:g} is reported"
        for name, right in rights.items()
        if not _same(data[name], right)
    ]
    if float(data["tflops_causal"]) > float(data["tflops"]):
        found.append(
            f"{data['tflops_causal']:g} TFLOP/s with half of attention, {data['tflops']:g} with all of it"
        )
    found += _clocks(seconds, wall)
    if not _fits(seconds / steps, step, steps):
        found.append(
            f"the mean of the steps is {seconds / steps:.4g} s, but reported are {step['min']:g} to "
            f"{step['max']:g} s, with a median of {step['median']:g}"
        )
    found += _steadiness(data, step)
    found += _parts(data, float(step["max"]))
    return found + _model(data, size)


def _parts(data: Mapping[str, Any], longest: float) -> list[str]:
    """Return which part of a step takes longer than any step, or needs more memory than there is."""
    in_ms = [_mapping(_mapping(data.get("how")).get("attention_ms")), _mapping(data.get("breakdown_ms"))]
    took = [(name, one / 1e3 / STREAMS) for part in in_ms for name, one in _known(part)]
    took += _known(_mapping(data.get("parts_s")))
    found = [
        f"{name} takes {one:g} s of a step, but the longest step took {longest:g} s"
        for name, one in took
        if one > longest * (1 + HOST_SHARE)
    ]
    most, there = (
        samples.number(data.get("peak_gib")),
        samples.number(_mapping(data.get("device")).get("gib")),
    )
    if most is not None and there is not None and most > there * (1 + SLACK):
        found.append(f"{most:g} GiB of {there:g} were used")
    return found[:2]


def _known(data: Mapping[str, Any]) -> list[tuple[str, float]]:
    return [(name, one) for name, value in data.items() for one in samples.finite([value])]


def _model(data: Mapping[str, Any], size: flops.Decoder) -> list[str]:
    """Return which counts of what was trained do not follow from its size."""
    counts = _mapping(data.get("flop_per_token"))
    rights = {
        "the weights": (data.get("weights"), size.weights),
        "FLOPs per token for the weights": (counts.get("weights"), 6 * size.multiplying),
        "FLOPs per token for attention": (counts.get("attention"), size.per_token() - 6 * size.multiplying),
    }
    return [
        f"{what} are reported as {told!r}, but the formula gives {right}"
        for what, (told, right) in rights.items()
        if told != right
    ]


def smoke(data: Mapping[str, Any], world: int) -> list[str]:
    """Return what speaks against the figures in a line of `smoke`, but for its error and its formulas."""
    found = list(odd({key: value for key, value in data.items() if key not in ("t", "error")}))
    share = data.get("documented_by_right")
    if share is not None and not _same(share, 2 / world):
        found.append(
            f"the documented formula is reported to give {share!r} of the true value on {world} ranks, but "
            f"it gives 2/{world}"
        )
    return found


def exchange(name: str, data: Mapping[str, Any], world: int) -> str:
    """Return what speaks against a line of a collective, or of an exchange of two ranks (`sendrecv`)."""
    return _times(data) or _rates(name, data, world)


def mean_of(data: Mapping[str, Any]) -> str:
    """Return why the mean of a collective's times is not one of times with its percentiles, each by nearest rank.

    The bandwidth is that of the mean: one that is too low stays so, whatever the percentiles say.
    """
    known = {name: value for name in TIMES if (value := samples.number(data.get(name))) is not None}
    mean, count = samples.number(data.get("mean")), data.get("iters")
    if mean is None or not _whole(count) or any(name not in known for name in TIMES[:-1]):
        return "reports no mean with percentiles"
    return _mean_of(known, mean, int(count or 0))


def outlying(data: Mapping[str, Any]) -> bool:
    """Report whether a few times of a collective make its mean, which lies above all but one in a hundred of them."""
    mean, high = samples.number(data.get("mean")), samples.number(data.get("p99"))
    return mean is not None and high is not None and mean > high * (1 + SLACK) + TICK_US


def _times(data: Mapping[str, Any]) -> str:
    """Return which of a figure's times contradict each other."""
    if not _whole(data.get("iters")):
        return f"was measured {data.get('iters')!r} times"
    times = {name: samples.number(data.get(name)) for name in (*TIMES[:-1], "mean")}
    if data.get("max") is not None:
        times["max"] = samples.number(data["max"])
    for name, value in times.items():
        if value is None or value <= 0:
            return _below_its_least(times, name) or f"has {name} {data.get(name)!r}, which is not a time"
    known = {name: value for name in TIMES if (value := times.get(name)) is not None}
    for (before, less), (name, more) in itertools.pairwise(known.items()):
        if more < less - ROUNDED_US:
            return f"has {name} {more:g} us below its own {before} {less:g} us"
    mean = float(times["mean"] or 0)
    if "max" in known and mean > known["max"] + ROUNDED_US:
        return f"has a mean of {mean:g} us above its own max {known['max']:g} us"
    return _below_its_least(times, "mean")


def _below_its_least(times: Mapping[str, float | None], name: str) -> str:
    least, mean = times.get("min"), times.get("mean")
    if name != "mean" or mean is None or least is None or mean >= least - ROUNDED_US:
        return ""
    return f"has a mean of {mean:g} us below its own min {least:g} us"


def _mean_of(known: Mapping[str, float], mean: float, count: int) -> str:
    ranks = [max(1, math.ceil(share * count)) for share in (0.5, 0.9, 0.99)]
    # The time at a place by rank is the least of those from it on, and the most of those up to it.
    from_it = [after - before for before, after in itertools.pairwise([1, *ranks, count + 1])]
    up_to_it = [after - before for before, after in itertools.pairwise([0, *ranks, count])]
    lows = [known[name] for name in ("min", "p50", "p90", "p99")]
    least = sum(many * low for many, low in zip(from_it, lows, strict=True)) / count
    if mean < least * (1 - SLACK) - TICK_US:
        return f"has a mean of {mean:g} us, but its percentiles need at least {least:g} us"
    most = known.get("max") if up_to_it[-1] else known["p99"]
    if most is None:
        return ""
    highs = [known["p50"], known["p90"], known["p99"], most]
    top = sum(many * high for many, high in zip(up_to_it, highs, strict=True)) / count
    if mean > top * (1 + SLACK) + TICK_US:
        return f"has a mean of {mean:g} us, but its percentiles allow at most {top:g} us"
    return ""


def _rates(name: str, data: Mapping[str, Any], world: int) -> str:
    """Return which bandwidth or factor does not follow from the time, the size and the world."""
    mean, size = samples.number(data.get("mean")) or 0.0, samples.number(data.get("size")) or 0.0
    if size <= 0:
        return f"is of {data.get('size')!r} bytes"
    told, right = samples.number(data.get("busbw")), collective.bus_bandwidth(name, world, size, mean / 1e6)
    if right is None or told is None or not _near(told, right):
        shown = "nothing" if right is None else f"{right:.4g} GB/s"
        return f"reports {data.get('busbw')} GB/s, but {mean:g} us and a world of {world} give {shown}"
    rate, own = samples.number(data.get("algbw")), collective.algorithm_bandwidth(size, mean / 1e6)
    if rate is None or own is None or not _near(rate, own):
        return (
            f"reports an algorithm bandwidth of {data.get('algbw')} GB/s, but its time gives {own or 0.0:.4g}"
        )
    factor, true = samples.number(data.get("factor")), collective.factor(name, world)
    if factor is None or true is None or not math.isclose(factor, true, abs_tol=ROUNDED):
        return f"reports a factor of {data.get('factor')}, but a world of {world} has {true or 0.0:.4g}"
    return ""


def _near(told: float, right: float) -> bool:
    return math.isclose(told, right, rel_tol=SLACK, abs_tol=1e-3)


def gauges(data: Mapping[str, Any]) -> list[str]:
    """Return what speaks against clocks, power, temperature and reasons that were read beside a measurement."""
    found = list(odd(data))
    shares = _mapping(data.get("reasons"))
    found += [
        f"{name} in {share!r} of the samples"
        for name, share in shares.items()
        if not (samples.number(share) or 0) <= 1
    ]
    for name in ("sm_mhz", "watts", "celsius"):
        values = data.get(name)
        if values is None:
            continue
        three = samples.finite(values) if isinstance(values, list) else []
        if len(three) != 3 or sorted(three) != three:
            found.append(f"{name} is {values!r}, which is not a minimum, middle and maximum")
    clock, top = _last(data.get("sm_mhz")), samples.number(data.get("max_sm_mhz"))
    if clock is not None and (clock <= 0 or (top is not None and clock > top * (1 + SLACK))):
        found.append(f"a clock of {clock:g} MHz, but the maximum is {data.get('max_sm_mhz')!r}")
    if top is not None and top > FASTEST_MHZ:
        found.append(f"a maximum clock of {top:g} MHz")
    board, watts = samples.number(data.get("default_limit_w")), _last(data.get("watts"))
    for what, value in (("draws", watts), ("may draw", samples.number(data.get("limit_w")))):
        if board is not None and value is not None and value > OVER_LIMIT * board:
            found.append(f"{what} {value:g} W on a board of {board:g} W")
    hottest = _last(data.get("celsius"))
    if hottest is not None and hottest > HOTTEST:
        found.append(f"{hottest:g} degrees Celsius")
    return found


def _last(value: object) -> float | None:
    found = samples.finite(value) if isinstance(value, list) else []
    return found[-1] if found else None


def _order(spread: Mapping[str, Any]) -> str:
    """Return which percentiles stand in the wrong order."""
    names = [name for name in SPREAD if samples.number(spread.get(name)) is not None]
    for low, high in itertools.pairwise(names):
        if spread[low] > spread[high] * (1 + ROUNDED):
            return f"its {low} of {spread[low]:g} is above its {high} of {spread[high]:g}"
    return ""


def _fits(mean: float, spread: Mapping[str, Any], count: int) -> bool:
    """Report whether a mean can be that of so many values with this least, median and largest one.

    At least half of all values are not above the median, and at least half are not below it; one is the largest.
    """
    least, middle, most = (float(spread[name]) for name in ("min", "median", "max"))
    low = max((least + middle) / 2, (most + (count - 1) * least) / count)
    return low * (1 - SLACK) <= mean <= (middle + most) / 2 * (1 + SLACK)


def _clocks(seconds: float, wall: float) -> list[str]:
    """Return how seconds by the device's clock do not fit those by the host's."""
    if wall * (1 + SLACK) < seconds or wall > seconds * (1 + HOST_SHARE) + HOST_SECONDS:
        return [f"{seconds:g} s by the device's clock in {wall:g} s of the host's"]
    return []


def _steadiness(data: Mapping[str, Any], spread: Mapping[str, Any]) -> list[str]:
    """Return whether values vary by more than their least and largest one allow."""
    cv, widest = float(data["cv"]), (float(spread["max"]) / float(spread["min"]) - 1) / 2
    if cv > widest * (1 + SLACK) + ROUNDED:
        return [f"a variation of {cv:g}, but {spread['min']:g} to {spread['max']:g} allow {widest:.4g}"]
    return []


def _same(told: object, right: float) -> bool:
    value = samples.number(told)
    return value is not None and abs(value - right) <= SLACK * right


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
