"""FAB-021: the curve of bus bandwidth over size, on the constructed run of two nodes with changed figures."""

import pytest

from pytest_gpucluster.judge.fabric import bandwidth_curve as judge
from pytest_gpucluster.mutants import base, fabric_curve
from pytest_gpucluster.requirement import Verdict
from tests.defects import matrix

SMALL, MIDDLE, LARGE = 64 << 10, 16 << 20, 1 << 30
RUN = matrix.evidence("collectives")


def rates(**of_size):
    """Return the run with bus bandwidths of all-reduce as given, all figures following from them."""
    wanted = {SMALL: of_size["small"], MIDDLE: of_size["middle"], LARGE: of_size["large"]}

    def change(word):
        for one in word.get("results") or []:
            if one["collective"] == "all_reduce":
                left = wanted[one["size"]] / one["busbw"]
                times = {name: one[name] / left for name in ("mean", "min", "p50", "p90", "p99")}
                one.update(busbw=wanted[one["size"]], algbw=one["algbw"] * left, **times)

    return base.on("measured", change)(RUN)


@pytest.mark.parametrize(
    ("middle", "large", "verdict", "told"),
    [
        (160.0, 187.0, Verdict.PASS, "no size is below 0.8"),
        (160.0, 129.0, Verdict.PASS, "no size is below 0.8"),
        (160.0, 127.0, Verdict.FAIL, "all_reduce falls from 160 GB/s at 16M to 127 at 1G (0.79)"),
        (3.0, 187.0, Verdict.FAIL, "all_reduce falls from 4 GB/s at 64K to 3 at 16M (0.75)"),
    ],
)
def test_a_fall_below_the_share_is_a_dip(middle, large, verdict, told):
    """In the middle and at the end; a small loss is the change of a protocol."""
    found = judge.without_dip(rates(small=4.0, middle=middle, large=large))
    assert (found.verdict, told in found.observed) == (verdict, True), found.observed
    if verdict is Verdict.FAIL:
        assert found.where
        assert set(found.causes) == {judge.TUNING, judge.CONGESTED}


def test_the_profile_says_how_much_may_be_lost():
    """Its share counts, and stands beside the number."""
    run = rates(small=4.0, middle=160.0, large=127.0)
    given = {**run.given, "fabric": {**run.given["fabric"], "dip_share": 0.5}}
    found = judge.without_dip(run, given)
    assert (found.verdict, found.numbers[0].value) == (Verdict.PASS, pytest.approx(127 / 160))


def test_the_slowest_rank_counts():
    """One node's fall is the collective's, and its ranks are named."""
    found = judge.without_dip(fabric_curve.MUTANTS["fabric.falls-on-one-node"].act(RUN))
    assert found.verdict is Verdict.FAIL
    assert all("worker-1" in place or "more" in place for place in found.where)


def test_fewer_than_three_sizes_are_no_curve():
    """Nor are figures of CPUs, or of other nodes than were asked for."""
    found = judge.without_dip(fabric_curve.MUTANTS["fabric.curve-of-two-sizes"].act(RUN))
    assert (found.verdict, "fewer than 3 sizes" in found.observed) == (Verdict.INCONCLUSIVE, True)
    assert judge.without_dip(RUN, {**RUN.given, "nodes": 4}).verdict is Verdict.INCONCLUSIVE
    cpu = base.on("who", lambda word: word.update(device="cpu"))(RUN)
    assert judge.without_dip(cpu).verdict is not Verdict.PASS
