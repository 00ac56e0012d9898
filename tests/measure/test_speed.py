"""FLOP formulas, statistics, floors: arithmetic that figures of speed stand on."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.measure import baseline, floors, flops, peaks, proposing, samples, shipped

SIZES = st.integers(1, 64)
SPEEDS = st.lists(st.floats(0.1, 1e4), min_size=1, max_size=30)


@given(
    SIZES,
    SIZES.map(lambda n: 16 * n),
    SIZES.map(lambda n: 8 * n),
    SIZES.map(lambda n: 32 * n),
    st.integers(1, 8),
)
def test_two_formulas_of_a_decoder_agree(layers, width, seq, vocab, batch):
    """PaLM's count a token, and Megatron's a step, are the same FLOPs."""
    model = flops.Decoder(layers, width, 1, seq, vocab)
    assert batch * seq * model.per_token() == pytest.approx(model.by_megatron(batch))


def test_a_known_size():
    """GPT-3 of 175 B: 6 N is nearly all of it."""
    model = flops.Decoder(layers=96, width=12288, heads=96, seq=2048, vocab=50257)
    assert model.weights == pytest.approx(175e9, rel=0.01)
    assert model.per_token() == pytest.approx(6 * 174.6e9, rel=0.03)
    assert model.per_token() - model.per_token(causal=True) == 6 * 96 * 12288 * 2048


@given(st.integers(1, 8192), st.integers(1, 200), st.floats(1e-3, 1e3), st.integers(1, 512))
def test_the_documented_formula_tells_two_by_world(n, steps, seconds, world):
    """It doubles the products and divides by the ranks: right by accident on two."""
    right = flops.smoke_right(n, steps, seconds)
    documented = flops.smoke_documented(n, steps, seconds, world)
    assert documented == pytest.approx(right * 2 / world)


@given(SPEEDS, st.floats(0, 1))
def test_percentiles_lie_among_the_values(values, share):
    """Monotonous in the share, and within the range."""
    assert min(values) <= samples.percentile(values, share) <= max(values)
    assert samples.percentile(values, 0) == min(values)
    assert samples.percentile(values, 1) == max(values)
    assert samples.percentile(values, share) <= samples.percentile(values, min(1.0, share + 0.1)) + 1e-9


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], 1.5), ([1.0], -0.1)])
def test_no_percentile(values, share):
    """Of nothing, or outside the range, there is none."""
    with pytest.raises(ValueError, match="no percentile"):
        samples.percentile(values, share)


@given(SPEEDS, st.floats(0.1, 10))
def test_variation_and_spread_have_no_unit(values, factor):
    """Other units change neither."""
    scaled = [factor * value for value in values]
    assert samples.variation(scaled) == pytest.approx(samples.variation(values), abs=1e-6)
    assert samples.spread(scaled) == pytest.approx(samples.spread(values), abs=1e-9)
    assert 0 <= samples.spread(values) < 1


def test_what_is_no_number():
    """NaN, infinity, truth values and texts are none."""
    assert samples.finite([1, 2.5, math.nan, math.inf, True, "3", None]) == [1.0, 2.5]
    assert samples.number(math.nan) is None
    assert samples.number(value=True) is None
    assert samples.number("1") is None
    assert samples.variation([]) == math.inf
    assert samples.variation([0.0, 0.0]) == math.inf


@given(SPEEDS, st.integers(1, 12))
def test_steady_from_there_to_the_end(values, window):
    """From the value that is named on every window is steady, and not from the one before."""
    start = samples.steady_from(values, window, 0.1)
    if start is None:
        assert len(values) < window or samples.variation(values[-window:]) >= 0.1
        return
    assert all(
        samples.variation(values[at : at + window]) < 0.1 for at in range(start, len(values) - window + 1)
    )
    if start:
        assert samples.variation(values[start - 1 : start - 1 + window]) >= 0.1


def test_a_floor_for_a_gpu():
    """The first that names it; a part of an unknown peak is none."""
    declared = [
        {"format": "bf16", "tflops": 600.0, "device": "H100 80GB", "origin": "a"},
        {"format": "bf16", "share": 0.5, "origin": "b"},
    ]
    assert floors.of_products(declared, "NVIDIA-H100-80GB-HBM3", "bf16", 989.4) == floors.Floor(600.0, "a")
    share = floors.of_products(declared, "NVIDIA A100-SXM4-40GB", "bf16", 312.0)
    assert share is not None
    assert share.tflops == 156.0
    assert "0.5 of the peak of 312" in share.origin
    assert floors.of_products(declared, "NVIDIA X9000", "bf16", None) is None
    assert floors.of_products(declared, "NVIDIA H100 80GB HBM3", "fp8", 1978.9) is None


def test_shipped_floors_are_below_the_peak_of_what_they_name():
    """Each names a part that the list of peaks knows, and leaves room below it; NVL is not taken for SXM."""
    listed = shipped.load("products")
    for one in listed:
        peak = peaks.look_up(one["device"]).peak(one["format"])
        assert peak is not None, one["device"]
        assert one["tflops"] == int(one["figure"] * one["share"])
        assert 0.3 * peak < one["tflops"] < 0.8 * peak
    assert floors.of_products(listed, "NVIDIA H200", "bf16", 989.5) is not None
    assert floors.of_products(listed, "NVIDIA H200 NVL", "bf16", 835.5) is None
    assert floors.of_products(listed, "NVIDIA GB200", "bf16", 2500).tflops == 1366


@given(SPEEDS, st.floats(0, 0.5))
def test_a_proposed_floor_lies_below_what_was_measured(values, margin):
    """By the margin, but for three digits."""
    assert floors.proposed(values, margin) == pytest.approx(min(values) * (1 - margin), rel=0.006)


def report(**parts):
    """Return figures of one run."""
    shape = {"device": "NVIDIA H100 80GB HBM3", "nodes": 1, "per_node": [4], "limit_w": 700.0}
    products = {
        "shape": shape,
        "products": {"bf16": {"median": [700.0, 690.0], "p5": [690.0, 680.0], "n": 8192}},
    }
    return {"products": products, "origin": "one.json, run a", **parts}


def test_floors_are_proposed_from_the_lowest_of_all_runs():
    """With the margin, the spread with room, and where it all comes from."""
    worse = report(origin="two.json, run b")
    worse["products"] = {
        **worse["products"],
        "products": {"bf16": {"median": [695.0, 650.0], "p5": [690.0, 640.0]}},
    }
    told = proposing.profile([report(), worse], 0.05)["mfu"]
    assert told["floors"][0]["tflops"] == 608.0
    assert "0.95 of the lowest in 2 runs: one.json, run a; two.json, run b" in told["floors"][0]["origin"]
    assert told["spread"] == pytest.approx(0.098)


def test_reports_of_different_nodes_propose_nothing():
    """It is said in which way they differ."""
    other = report(origin="two.json, run b")
    other["products"] = {**other["products"], "shape": {**other["products"]["shape"], "limit_w": 500.0}}
    with pytest.raises(
        proposing.ProposalError, match=r"limit_w is 700\.0 in one\.json, run a and 500\.0 in two\.json"
    ):
        proposing.profile([report(), other], 0.05)


def test_figures_of_cpus_propose_nothing():
    """A floor measured on CPUs would be none."""
    cpu = report()
    cpu["products"] = {**cpu["products"], "shape": {"device": "CPU"}}
    with pytest.raises(proposing.ProposalError, match="no figure of a GPU"):
        proposing.profile([cpu], 0.05)


def row(row_id, part, verdict="pass"):
    """Return a row of a report."""
    return {"id": row_id, "verdict": verdict, "finding": {"facts": {part: {"x": 1}, "shape": {}}}}


def test_figures_of_a_report():
    """Rows that passed, or had no floor; a failed one is no example."""
    run = {"id": "r", "started": "2026-11-28T10:00:00Z"}
    told = baseline.figures_of({"run": run, "requirements": [row("MFU-001", "products")]}, "x.json")
    assert told["origin"] == "x.json, run r of 2026-11-28"
    assert set(told) == {"products", "origin"}
    failed = {"run": run, "requirements": [row("MFU-001", "products", "fail")]}
    with pytest.raises(baseline.BaselineError, match="MFU-001 is fail"):
        baseline.figures_of(failed, "x.json")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["run", "requirements", "id", "finding", "facts", "verdict"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_a_report_holds(data):
    """It is refused, never with another error."""
    with contextlib.suppress(baseline.BaselineError):
        assert "origin" in baseline.figures_of(data, "x.json")


@pytest.mark.parametrize("text", ["", "[", "[]", '{"run": {}}', "\x00"])
def test_files_that_are_no_reports(tmp_path, text):
    """Empty, cut, of another shape: one line that names the file."""
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(baseline.BaselineError, match=r"report\.json"):
        baseline.read(path)
    with pytest.raises(baseline.BaselineError, match="cannot be read"):
        baseline.read(tmp_path / "absent.json")
