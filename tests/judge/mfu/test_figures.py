"""Rows about speed: what judges make of good lines, of bad ones, and of none."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.evidence.hardware import throughput
from pytest_gpucluster.judge.mfu import baseline, gemm, possible_figures, smoke_loop, train_step
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants import mfu as mutants
from pytest_gpucluster.requirement import Verdict
from tests import amount, recordings
from tests.defects import matrix

ROWS = {
    "MFU-001": gemm.reach_the_floor,
    "MFU-002": train_step.reaches_the_floor,
    "MFU-003": possible_figures.possible,
    "MFU-006": baseline.not_fallen,
}


@pytest.fixture(scope="module")
def gpus():
    """Return constructed evidence of four H100 on which all is well."""
    return matrix.evidence("speed")


@pytest.fixture(scope="module")
def cpus():
    """Return the evidence of a run on CPUs."""
    return recordings.embedded("speed")


@pytest.fixture(scope="module")
def smoke():
    """Return the evidence of the smoke loop on CPUs."""
    return recordings.embedded("smoke-loop")


def verdicts(evidence, **mfu):
    """Return the verdict of each row, with something else declared."""
    given_ = {**evidence.given, "mfu": {**evidence.given["mfu"], **mfu}}
    return {row: str(judge(evidence, given_).verdict) for row, judge in ROWS.items()}


def judged(judge, evidence, **mfu):
    """Return a finding, with something else declared."""
    return judge(evidence, {**evidence.given, "mfu": {**evidence.given["mfu"], **mfu}})


def with_text(evidence, event, rank, texts):
    """Return the evidence in which a rank's line with an event is replaced by other texts."""
    lines = []
    for line in evidence.lines:
        text = str(line.data.get("line") or "")
        if line.type == "LOG" and f'"event":"{event}"' in text and f'"rank":{rank},' in text:
            lines += [base.dataclasses.replace(line, data={**line.data, "line": one(text)}) for one in texts]
        else:
            lines.append(line)
    return base.with_lines(evidence, lines)


def test_all_is_well_on_gpus(gpus):
    """Every row passes, and names the slowest GPU."""
    assert set(verdicts(gpus).values()) == {"pass"}
    finding = judged(gemm.reach_the_floor, gpus)
    assert "slowest: rank 3, GPU 3" in finding.observed
    assert {number.unit for number in finding.numbers} >= {"TFLOP/s"}


def test_on_cpus_figures_are_notes(cpus):
    """Floors do not apply, figures are told; what is impossible would be seen."""
    assert verdicts(cpus) == {
        "MFU-001": "not_applicable", "MFU-002": "not_applicable", "MFU-003": "pass", "MFU-006": "not_applicable",
    }  # fmt: skip
    assert "TFLOP/s" in judged(gemm.reach_the_floor, cpus).observed
    fast = mutants.MUTANTS["mfu.above-the-peak"].act(cpus)
    assert judged(possible_figures.possible, fast).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("mutant", "row"),
    [("mfu.wrong-product", "MFU-001"), ("mfu.losses-differ", "MFU-002"), ("mfu.loss-stays", "MFU-002")],
)
def test_what_is_computed_wrongly_is_wrong_on_cpus_too(cpus, mutant, row):
    """No speed of CPUs is judged; a wrong product and a loss that does not fall or differs are violations anywhere."""
    assert verdicts(mutants.MUTANTS[mutant].act(cpus))[row] == "fail"


def test_gpus_that_were_asked_for_and_are_not_seen(cpus):
    """A profile that measures GPUs and ranks on CPUs: a fault, and no reason to be silent."""
    found = verdicts(cpus, device="gpu")
    assert (found["MFU-001"], found["MFU-002"], found["MFU-003"]) == ("fail", "fail", "inconclusive")


def test_the_slow_gpu_is_named_with_what_holds_it(gpus):
    """Below the floor: which GPU on which node, by how much, and the throttle reason read beside it."""
    slow = mutants.last("gemm", mutants.faster(0.6))(gpus)
    hot = mutants.MUTANTS["mfu.throttled"].act(slow)
    finding = judged(gemm.reach_the_floor, hot)
    assert finding.verdict is Verdict.FAIL
    assert finding.violation
    assert finding.where[0].startswith("rank 3, GPU 3 (GPU-00000003")
    assert "hw_thermal in 40% of the samples" in finding.observed
    assert "cooling" in finding.causes[0].fix


def test_gpus_of_a_node_too_far_apart(gpus):
    """Without any floor the slowest still stands out."""
    slow = mutants.last("gemm", mutants.faster(0.85))(gpus)
    finding = judged(gemm.reach_the_floor, slow, floors=[])
    assert finding.verdict is Verdict.FAIL
    assert "GPUs of gpu-0 differ by" in finding.observed
    assert judged(gemm.reach_the_floor, slow, floors=[], spread=None).verdict is Verdict.NOT_APPLICABLE


def test_a_floor_that_nobody_measured(gpus):
    """A format with a floor and without a figure is not decided."""
    floor = [{"format": "fp8", "tflops": 100.0, "origin": "us"}]
    absent = base.on("gemm", lambda w: w["results"].update(fp8={"absent": "not on this device"}))(gpus)
    finding = judged(gemm.reach_the_floor, absent, floors=floor)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "not on this device" in finding.observed


def test_an_unknown_gpu_passes_only_by_its_declared_peak(gpus):
    """Its floor in TFLOP/s can still be missed; its peak can be declared."""
    strange = base.on("gemm", mutants._nameless)(gpus)
    floor = [{"format": "bf16", "tflops": 700.0, "origin": "us"}]
    assert judged(gemm.reach_the_floor, strange, floors=floor).verdict is Verdict.FAIL
    peaks = {"bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp8": 1978.9}
    low = [{"format": "bf16", "share": 0.5, "origin": "us"}]
    assert judged(gemm.reach_the_floor, strange, floors=low).verdict is Verdict.INCONCLUSIVE
    assert judged(gemm.reach_the_floor, strange, floors=low, peaks=peaks).verdict is Verdict.PASS


def test_a_lowered_power_limit_that_is_meant(gpus):
    """500 W on a board of 700 W is undecided, unless the profile says so."""
    capped = base.on("gemm", mutants._capped)(gpus)
    assert judged(gemm.reach_the_floor, capped).verdict is Verdict.INCONCLUSIVE
    assert judged(gemm.reach_the_floor, capped, power_w=500.0).verdict is Verdict.PASS


def test_a_gpu_lost_in_the_middle(gpus):
    """The GPU is named, the fix is about Xids; of figures nobody can say anything."""
    lost = mutants.MUTANTS["mfu.gpu-lost"].act(gpus)
    finding = judged(gemm.reach_the_floor, lost)
    assert finding.verdict is Verdict.FAIL
    assert "GPU 3" in finding.where[0]
    assert "Xid" in finding.causes[0].text
    assert judged(possible_figures.possible, lost).verdict is Verdict.INCONCLUSIVE


def test_memory_that_is_short_decides_nothing(gpus):
    """A batch that does not fit is no slow GPU; the line says what to change."""

    def short(told):
        return {**mutants.lost(told), "kind": "memory", "error": "take a smaller --batch"}

    for rank in range(4):
        gpus = mutants.of_rank("train", short)(gpus)
        assert rank < 4
    finding = judged(train_step.reaches_the_floor, gpus)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "smaller --batch" in finding.observed


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "rank 2 of 4 reported no figures"),
        ([lambda text: text[: len(text) // 2]], "1 line cut in the middle"),
        ([lambda text: text, lambda text: text.replace('"cv":0.006', '"cv":0.007')], "two different figures"),
        ([lambda _: "GPUCONF1 []"], "rank 2 of 4 reported no figures"),
        ([lambda _: "\x00\xff GPUCONF1"], "rank 2 of 4 reported no figures"),
    ],
)
def test_lines_that_are_missing_cut_or_doubled(gpus, texts, said):
    """A payload that dies before its line, prints half of it, prints two: undecided, and which rank."""
    broken = with_text(gpus, "gemm", 2, texts)
    for judge in (gemm.reach_the_floor, possible_figures.possible):
        finding = judged(judge, broken)
        assert finding.verdict is Verdict.INCONCLUSIVE
        assert said in finding.observed


def test_the_same_line_twice_is_one(gpus):
    """A log that was read twice changes nothing."""
    twice = with_text(gpus, "gemm", 2, [lambda text: text, lambda text: text])
    assert set(verdicts(twice).values()) == {"pass"}


def test_a_rank_that_was_started_anew_counts_from_then(gpus):
    """What an earlier life told does not stand for the new one."""
    again = with_text(
        gpus, "gemm", 2, [lambda text: text, lambda text: text.replace('"event":"gemm"', '"event":"rank"')]
    )
    finding = judged(gemm.reach_the_floor, again)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "rank 2 of 4 reported no figures" in finding.observed


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0, "700", None, True, [1]])
@pytest.mark.parametrize("name", ["median", "p5"])
def test_what_is_no_number_never_passes(gpus, value, name):
    """NaN, infinity, nothing, a text: no measurement, in no row."""
    odd = mutants.last("gemm", mutants.first_product(lambda one: one["tflops"].update({name: value})))(gpus)
    found = verdicts(odd)
    assert found["MFU-003"] == "fail"
    assert found["MFU-001"] != "pass"
    for judge in ROWS.values():
        json.dumps(judged(judge, odd).as_dict(), allow_nan=False)


@pytest.mark.parametrize("name", ["wall", "seconds", "tokens_per_s", "tflops", "steps", "tflops_causal"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 0, "1"])
def test_training_figures_that_are_none(gpus, name, value):
    """The same for training."""
    odd = mutants.last("train", lambda w: w.update({name: value}))(gpus)
    found = verdicts(odd)
    assert found["MFU-003"] == "fail"
    assert found["MFU-002"] != "pass"
    for judge in ROWS.values():
        json.dumps(judged(judge, odd).as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("loss", "verdict"),
    [
        ({"common": [math.nan, 1.0]}, Verdict.FAIL),
        ({"common": [10.0, math.inf]}, Verdict.FAIL),
        ({"common": [10.0, 10.0]}, Verdict.FAIL),
        ({"common": [8.0, 9.0]}, Verdict.FAIL),
        ({"common": [10.92, 8.31], "last": math.nan}, Verdict.FAIL),
        ({"common": [10.92, 8.31], "first": 10.9, "last": 14.0}, Verdict.FAIL),
        # What was not told is not known to be wrong.
        ({"common": [10.0]}, Verdict.INCONCLUSIVE),
        ({"common": None}, Verdict.INCONCLUSIVE),
        ({"common": "x"}, Verdict.INCONCLUSIVE),
        ({"common": [10.0, -1.0]}, Verdict.INCONCLUSIVE),
        ({}, Verdict.INCONCLUSIVE),
        (None, Verdict.INCONCLUSIVE),
    ],
)
def test_losses_that_do_not_fall(gpus, loss, verdict):
    """NaN, a rise or no change: training did not train. Nothing told, or what is no loss: nobody knows."""
    odd = mutants.last("train", lambda w: w.update(loss=loss))(gpus)
    assert judged(train_step.reaches_the_floor, odd).verdict is verdict


def test_training_faster_than_its_products(gpus):
    """A step that was left out makes training beat the products that it is made of."""
    quick = base.on("train", lambda w: _quicker(w, 0.65))(gpus)
    finding = judged(possible_figures.possible, quick)
    assert finding.verdict is Verdict.FAIL
    assert "products at" in finding.observed


def _quicker(told, part):
    for name in ("wall", "seconds"):
        told[name] *= part
    told["step_s"] = {name: part * value for name, value in told["step_s"].items()}
    for name in ("tokens_per_s", "tflops", "tflops_causal"):
        told[name] /= part


def test_a_formula_that_the_counter_contradicts(gpus):
    """More than attention explains: another model was trained than was declared."""
    odd = base.on(
        "train", lambda w: w["flop_per_token"].update(counted=1.2 * w["flop_per_token"]["counted"])
    )(gpus)
    finding = judged(possible_figures.possible, odd)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "torch's counter" in finding.observed
    for times in (0, 12, 14):
        one = 24 * 3072 * 2048

        def counts(told, times=times, one=one):
            told["flop_per_token"]["counted"] = told["flop_per_token"]["weights"] + times * one

        assert judged(possible_figures.possible, base.on("train", counts)(gpus)).verdict is Verdict.PASS


def test_a_baseline_that_cannot_be_read(gpus):
    """One line that says why; and a baseline that has figures which this run lacks."""
    finding = judged(baseline.not_fallen, gpus, baseline_figures=None, baseline_problem="x.json: is no JSON")
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.observed == "x.json: is no JSON"
    untrained = base.drop("train")(gpus)
    assert judged(baseline.not_fallen, untrained).verdict is Verdict.INCONCLUSIVE


def test_a_small_loss_is_allowed(gpus):
    """4 % below the baseline is within the 5 % that are allowed, 6 % is not."""
    for factor, verdict in ((0.96, Verdict.PASS), (0.94, Verdict.FAIL)):
        slower = base.on("gemm", mutants.faster(factor))(gpus)
        assert judged(baseline.not_fallen, slower).verdict is verdict


def test_the_smoke_loop_counts_each_product_once(smoke):
    """Three ranks: the documented formula tells two thirds, and is named where it was used."""
    finding = smoke_loop.counts_right(smoke, smoke.given)
    assert finding.verdict is Verdict.PASS
    assert "(ratio 0.667)" in finding.observed
    wrong = mutants.MUTANTS["mfu.counted-as-documented"].act(smoke)
    finding = smoke_loop.counts_right(wrong, wrong.given)
    assert finding.verdict is Verdict.FAIL
    assert "divides by the number of ranks" in finding.causes[0].text


@pytest.mark.parametrize(
    "name", ["n", "steps", "seconds", "tflops", "product_tflops", "flop_per_product", "right"]
)
@pytest.mark.parametrize("value", [math.nan, 0, "8", None, -3])
def test_smoke_figures_that_are_none(smoke, name, value):
    """Nothing that is no number passes."""
    odd = mutants.last("smoke", lambda w: w.update({name: value}))(smoke)
    assert smoke_loop.counts_right(odd, odd.given).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("world=16 steps=50 wall=4.21s per_gpu_TFLOPs=1.6", Verdict.FAIL),
        ("world=16 steps=50 wall=4.21s per_gpu_TFLOPs=13.1", Verdict.PASS),
        ("world=1 steps=50 wall=0.08s per_gpu_TFLOPs=1374.4", Verdict.FAIL),
        ("world=2 steps=50 wall=4.21s per_gpu_TFLOPs=13.1", Verdict.PASS),
        ("world=8 steps=50 wall=4.21s per_gpu_TFLOPs=99.9", Verdict.INCONCLUSIVE),
        ("world=8 steps=50 wall=0.00s per_gpu_TFLOPs=99.9", Verdict.INCONCLUSIVE),
        ("world=8 steps=50 wall=nans per_gpu_TFLOPs=inf", Verdict.INCONCLUSIVE),
    ],
)
def test_what_the_documented_program_prints(line, verdict):
    """Its own line is read, with a prefix before it: right by accident on two ranks."""
    lines = [{"t": 1.0, "type": "LOG", "pod": "smoke-master-0", "uid": "a", "line": f"[rank0]: {line}"}]
    assert smoke_loop.counts_right(recordings.evidence_of(lines), {}).verdict is verdict


def test_nothing_at_all():
    """Without a line every row is undecided."""
    empty = recordings.evidence_of([])
    for judge in (*ROWS.values(), smoke_loop.counts_right):
        assert judge(empty, {}).verdict is Verdict.INCONCLUSIVE


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@amount.examples(150)
@given(
    event=st.sampled_from(["gemm", "train"]),
    path=st.lists(st.sampled_from(["results", "bf16", "tflops", "device", "gauges", "size", "loss", "rank", "world",
                                   "steps", "how", "flop_per_token", "step_s"]), min_size=1, max_size=3),
    value=JSON,
)  # fmt: skip
def test_no_line_makes_a_judge_raise(event, path, value):
    """Whatever stands where a figure should be: every judge answers, and in plain data."""

    def change(told):
        at = told
        for key in path[:-1]:
            at = at.get(key)
            if not isinstance(at, dict):
                return
        at[path[-1]] = value

    odd = mutants.last(event, change)(matrix.evidence("speed"))
    throughput.read(odd, event)
    for judge in (*ROWS.values(), smoke_loop.counts_right):
        json.dumps(judge(odd, odd.given).as_dict(), allow_nan=False)
