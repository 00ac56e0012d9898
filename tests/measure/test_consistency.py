"""A record whose figures contradict each other, or cannot be, is found out whatever it is compared with later."""

import copy
import math

import pytest

from pytest_gpucluster.evidence import read
from pytest_gpucluster.evidence.hardware import throughput
from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.measure import consistency, flops
from tests import recordings
from tests.defects import matrix

SILENT = {
    # What nothing can be compared with, or what no speed follows from.
    "device", "index", "sms", "gib", "free_gib", "capability", "warm_steps", "samples", "rank", "world", "local_rank",
    "loss", "gauges", "iters", "default_limit_w",
    "t", "run", "attempt", "start_s", "counted", "attention_causal", "heads", "first", "last",
}  # fmt: skip
LATE_STEPS = {"min": 0.5, "p5": 0.5, "median": 0.9, "p95": 0.9, "max": 0.9}
KEPT = {
    "smoke": {"n", "steps", "flop_per_product", "seconds", "product_seconds", "tflops", "product_tflops",
              "tflops_documented"},
    "product": {"max"},
}  # fmt: skip
"""Of what a formula of its judge or the peak of a GPU says that it is absurd, and no other figure of the record."""
GOOD = {
    "product": lambda: _line(matrix.evidence("speed"), "gemm")["results"]["bf16"],
    "product on a CPU": lambda: _line(recordings.embedded("speed"), "gemm")["results"]["fp32"],
    "training": lambda: _line(matrix.evidence("speed"), "train"),
    "training on a CPU": lambda: _line(recordings.embedded("speed"), "train"),
    "smoke": lambda: _line(recordings.embedded("smoke-loop"), "smoke"),
    "gauges": lambda: _line(matrix.evidence("speed"), "gemm")["gauges"],
    "collective": lambda: _line(read(matrix.HOST / "collectives.jsonl"), "measured")["results"][2],
    "collective on a CPU": lambda: _line(recordings.embedded("collectives"), "measured")["results"][1],
    "exchange": lambda: _line(read(matrix.HOST / "collectives.jsonl"), "pairs")["results"][0],
}


def _line(evidence, event):
    return copy.deepcopy(dict(payload_lines.words(evidence).of(event)[0].data))


def against(kind, record):
    """Return all that speaks against a record."""
    kind = kind.removesuffix(" on a CPU")
    if kind == "product":
        error = consistency.accuracy(record, consistency.TOLERANCE["bf16"])
        return [*consistency.product(record), *filter(None, [error])]
    if kind == "training":
        size = record["size"]
        whole = [size[name] for name in ("layers", "width", "heads", "seq", "vocab")]
        return consistency.training(record, flops.Decoder(*whole), size["batch"])
    if kind == "smoke":
        error = consistency.accuracy(record, consistency.SUM_TOLERANCE[record["format"]])
        return [*consistency.smoke(record, record["world"]), *filter(None, [error])]
    if kind == "gauges":
        return consistency.gauges(record)
    name = record.get("collective", "sendrecv")
    world = 8 if "busbw" in record and record["iters"] == 20 else 4
    return list(filter(None, [consistency.exchange(name, record, world), consistency.mean_of(record)]))


def places(record, path=()):
    """Yield the paths of all numbers of a record that say something."""
    if isinstance(record, dict):
        for key, value in record.items():
            if key not in SILENT:
                yield from places(value, (*path, key))
    elif isinstance(record, list):
        for at, value in enumerate(record):
            yield from places(value, (*path, at))
    elif isinstance(record, int | float) and not isinstance(record, bool):
        yield path


def changed(record, path, change):
    """Return a record with another value at a path."""
    record = copy.deepcopy(record)
    at = record
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = change(at[path[-1]])
    return record


@pytest.mark.parametrize("kind", GOOD)
def test_what_was_measured_can_be(kind):
    """On GPUs and on CPUs."""
    assert against(kind, GOOD[kind]()) == []


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("nan", lambda _: math.nan), ("infinite", lambda _: math.inf), ("negative", lambda value: -1 - abs(value)),
        ("absurd", lambda value: (abs(value) or 1) * 10**9),
    ],
)  # fmt: skip
def test_no_figure_of_a_record_can_be_anything(kind, what, change):
    """Each number in turn is NaN, infinite, below zero or absurd: no time, speed, share or count is."""
    good = GOOD[kind]()
    kept = KEPT.get(kind.removesuffix(" on a CPU"), set()) if what == "absurd" else set()
    missed = [
        path
        for path in places(good)
        if path[-1] not in {*kept, "size", "wrong", "peer"} and not against(kind, changed(good, path, change))
    ]
    assert not missed, f"{what} in {kind}"


def scaled(record, names, factor):
    """Return a record with some figures times a factor."""
    return {**record, **{name: record[name] * factor for name in names}}


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("product", lambda one: one.update(error=1e9), "is reported as right"),
        ("product", lambda one: one.update(right=None), "is not reported as right"),
        ("product", lambda one: one.update(wall=one["seconds"] * 2), "of the host's"),
        ("product", lambda one: one.update(cv=0.5), "a variation of 0.5"),
        ("product", lambda one: one.update(windows=one["products"] + 1), "windows"),
        ("product", lambda one: one.update(seconds=16.0, wall=16.0, tflops=one["tflops"] | {"min": 400.0}), "reported"),
        ("training", lambda one: one.update(weights=7_000_000_000), "the weights are reported as"),
        ("training", lambda one: one.update(tflops_causal=one["tflops_causal"] / 2), "tflops_causal, but"),
        ("training", lambda one: one.update(wall=1e9), "is reported"),
        ("training", lambda one: one.update(peak_gib=200.0), "200 GiB of"),
        ("training", lambda one: one["parts_s"].update(forward=30.0), "forward takes 30 s"),
        ("training", lambda one: one.update(step_s=LATE_STEPS), "the mean"),
        ("smoke", lambda one: one.update(error=1e9), "is reported as right"),
        ("smoke", lambda one: one.update(documented_by_right=1.0), "of the true value"),
        ("gauges", lambda one: one.update(reasons={"hw_thermal": 3.0}), "of the samples"),
        ("gauges", lambda one: one.update(sm_mhz=[2000, 1500, 1000]), "not a minimum"),
        ("gauges", lambda one: one.update(sm_mhz=[0, 0, 0]), "a clock of 0"),
        ("gauges", lambda one: one.update(celsius=[20, 300, 400]), "400 degrees"),
        ("exchange", lambda one: one.update(factor=1.75), "reports a factor of 1.75"),
        ("collective", lambda one: one.update(p99=one["mean"] / 2), "below its own p90"),
        ("collective", lambda one: one.update(p50=one["min"], p90=one["min"], p99=one["min"]), "at most"),
        ("collective", lambda one: one.update(p50=3e4, p90=3e4, p99=3e4), "at least"),
        ("collective", lambda one: one.update(iters=True), "True times"),
        ("exchange", lambda one: one.update(busbw=one["busbw"] * 2), "reports"),
        ("exchange", lambda one: one.update(algbw=one["algbw"] * 2), "algorithm bandwidth"),
        ("exchange", lambda one: one.update(factor=0.5), "reports a factor of 0.5"),
    ],
)  # fmt: skip
def test_figures_that_contradict_each_other(kind, change, said):
    """Each may stand alone; beside the others it cannot be."""
    record = GOOD[kind]()
    change(record)
    found = against(kind, record)
    assert any(said in text for text in found), found


def test_a_few_slow_times_are_no_contradiction():
    """Of two hundred times two are no part of the p99: they may make the mean, which is then told apart."""
    times = [10.0] * 198 + [5000.0] * 2
    mean = sum(times) / len(times)
    record = {"iters": 200, "mean": mean, "min": 10.0, "p50": 10.0, "p90": 10.0, "p99": 10.0}
    assert consistency.mean_of(record) == ""
    assert consistency.outlying(record)
    assert consistency.mean_of({**record, "iters": 20}) != ""


def test_a_whole_number_beyond_all_numbers_is_none():
    """JSON may hold one of four hundred digits."""
    record = GOOD["product"]()
    assert consistency.product({**record, "n": 10**400, "wall": 10**400})


def test_the_payloads_allow_as_much_as_the_judges():
    """The tolerance of a product stands in the payload too, which depends on torch alone."""
    root = matrix.RECORDED.parents[2] / "payloads"
    for name, right in (("gemm", consistency.TOLERANCE), ("smoke", consistency.SUM_TOLERANCE)):
        text = (root / f"{name}.py").read_text(encoding="utf-8")
        line = next(one for one in text.splitlines() if one.startswith("TOLERANCE"))
        told = line.partition("=")[2].strip(" {}")
        pairs = [one.split(":") for one in told.split(",")]
        assert {key.strip(' "'): eval(value) for key, value in pairs} == right  # noqa: S307 - a share of our own


def test_a_rank_without_a_line_has_no_record():
    """There is nothing to be consistent."""
    assert throughput.read(recordings.evidence_of([]), "gemm").measured == ()
    assert consistency.product({}) != []
    assert consistency.gauges({}) == []
