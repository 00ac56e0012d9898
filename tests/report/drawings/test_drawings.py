"""Drawings: what they show, that they are always well-formed, and that no name becomes markup."""

import math
import xml.etree.ElementTree as ET

import hypothesis
import hypothesis.strategies as st
import pytest

from pytest_gpucluster.report import decisions
from pytest_gpucluster.report.drawings import products, svg, sweep, timeline
from tests import amount
from tests.defects import matrix


def parsed(picture):
    """Return a drawing, which must be well-formed XML."""
    return ET.fromstring(str(picture))  # noqa: S314 (made here)


def words(picture):
    """Return the texts of a drawing."""
    return [each.text for each in parsed(picture).iter("text")]


def facts_of(row_id):
    """Return the facts of a row on its recorded evidence."""
    row = next(row for row in matrix.rows() if row.id == row_id)
    return decisions.decide(row, matrix.evidence(row.scenario.name)).facts


def test_a_timeline_has_a_lane_per_pod_and_its_moments():
    """Of GANG-002: four members, the window, and when room was made."""
    told = words(timeline.drawn(facts_of("GANG-002")))
    assert {f"scarce-worker-{n}" for n in range(4)} <= set(told)
    assert {"watched from here", "to here", "room made"} <= set(told)
    assert "decided here" not in told


def test_the_deciding_moment_is_marked():
    """By the first key that has a time within the timeline; one that lies outside marks nothing."""
    facts = facts_of("GANG-002")
    zero = facts["timeline"]["zero"]
    assert "decided here" in words(timeline.drawn(facts, ["NOTE:x", f"Pod/x@{zero + 0.1:.3f}"]))
    assert "decided here" not in words(timeline.drawn(facts, [f"Pod/x@{zero + 900:.3f}"]))


@pytest.mark.parametrize(
    "row", [row.id for row in matrix.rows() if row.area in ("gang", "lifecycle", "kueue")]
)
def test_each_row_in_time_is_drawn_or_has_no_pods(row):
    """On what was recorded; all coordinates are within the drawing."""
    facts = facts_of(row)
    picture = timeline.drawn(facts)
    assert (picture is None) == (not facts.get("timeline"))
    if picture is None:
        return
    root = parsed(picture)
    height = float(root.get("viewBox").split()[3])
    for each in root.iter("rect"):
        assert 0 <= float(each.get("x")) <= svg.WIDTH
        assert float(each.get("x")) + float(each.get("width")) <= svg.WIDTH
        assert 0 <= float(each.get("y")) <= height


def test_bus_bandwidth_is_drawn_by_size():
    """A line per collective, sizes in bytes as people say them."""
    told = words(sweep.drawn(facts_of("FAB-006")))
    assert {"all_reduce", "all_gather", "64 KiB", "16 MiB", "1 GiB", "GB/s"} <= set(told)


def test_every_gpu_is_drawn_and_a_slow_one_is_named():
    """With watts and MHz; two per cent under the median are told in words."""
    facts = facts_of("MFU-001")
    told = words(products.drawn(facts))
    assert "GPU 0 on gpu-0" in told or any(each.startswith("GPU 0 on ") for each in told)
    assert "712.0, 697 W, 1455 MHz" in told
    name = next(iter(facts["products"]))
    median = [700.0, 701.0, 600.0, 702.0]
    slow = {**facts, "products": {name: {**facts["products"][name], "median": median}}}
    assert any(each.endswith("14.4 % under the median") for each in words(products.drawn(slow)))


@pytest.mark.parametrize(
    "draw", [timeline.drawn, sweep.drawn, products.drawn], ids=["timeline", "sweep", "products"]
)
@pytest.mark.parametrize(
    "facts",
    [{}, {"timeline": {}}, {"bandwidth": []}, {"products": {}}, {"products": {"bf16": {}}, "gpus": []},
     {"bandwidth": [{"collective": "x", "size": 1, "busbw": 1.0}]}, {"timeline": "no", "bandwidth": 3, "products": 1}],
)  # fmt: skip
def test_nothing_is_drawn_of_nothing(draw, facts):
    """A record of another version may have anything there."""
    assert draw(facts) is None


def test_a_name_from_the_cluster_is_no_markup():
    """It is shown, and cut in the middle if it is long."""
    lane = {
        "pod": "<script>&\"'",
        "node": "n" * 80,
        "phase": "Failed",
        "created": 0.0,
        "bound": 0.1,
        "finished": 0.2,
    }
    gang = {"title": "</svg><b>", "role": "r", "minimum": 1, "lanes": [lane]}
    picture = timeline.drawn(
        {"timeline": {"zero": 0.0, "end": 1.0, "gangs": [gang], "moments": [], "left_out": 7}}
    )
    told = words(picture)
    assert "<script>&\"'" in told
    assert "<script>" not in str(picture)
    assert f"{'n' * 7}…{'n' * 8}" in told
    assert "7 more pods are not drawn" in told


_NUMBER = st.floats(0, 1e6) | st.integers(0, 1 << 40)


@amount.examples(100)
@hypothesis.given(
    st.lists(
        st.fixed_dictionaries(
            {
                "collective": st.sampled_from(["a", "b", "c", "d", "e"]),
                "size": st.integers(1, 1 << 40),
                "busbw": _NUMBER,
            }
        ),
        max_size=12,
    )
)
def test_any_sweep_is_well_formed(points):
    """Whatever was measured, also zeros."""
    picture = sweep.drawn({"bandwidth": points})
    if picture is not None:
        assert "nan" not in str(picture)
        words(picture)


@amount.examples(100)
@hypothesis.given(st.floats(allow_nan=True, allow_infinity=True))
def test_ticks_are_few_and_round(top):
    """From 0 up to the value."""
    found = svg.ticks(top)
    assert found[0] == 0
    assert len(found) <= 8
    assert not math.isfinite(top) or top <= 0 or found[-1] <= top * 1.0001


def test_a_fabric_that_moved_nothing_is_drawn():
    """Zeros, and numbers that are almost that."""
    for value in (0.0, 5e-324, 1e-12):
        points = [{"collective": "a", "size": size, "busbw": value} for size in (1, 1 << 20)]
        assert "nan" not in str(sweep.drawn({"bandwidth": points}))
