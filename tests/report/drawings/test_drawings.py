"""Drawings: what they show, that they are always well-formed, and that no name becomes markup."""

import math
import xml.etree.ElementTree as ET

import hypothesis
import hypothesis.strategies as st
import pytest

from pytest_gpucluster.report import decisions
from pytest_gpucluster.report.drawings import products, svg, sweep, targets, timeline
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
    moments = {name for each in told for name in each.split(", ")}
    assert {"watched from here", "to here", "room made"} <= moments
    assert "decided here" not in moments
    zero = facts_of("GANG-002")["timeline"]["zero"]
    assert f"0 s is t={zero:.2f} s of the evidence: the first gang was seen." in told


def decided(picture):
    """Report whether a moment is marked as the one that decided."""
    return any(each.startswith("decided here") for each in words(picture))


def test_the_deciding_moment_is_marked():
    """By the first key that has a time within the timeline; one that lies outside marks nothing."""
    facts = facts_of("GANG-002")
    zero = facts["timeline"]["zero"]
    assert decided(timeline.drawn(facts, ["NOTE:x", f"Pod/x@{zero + 0.1:.3f}"]))
    assert not decided(timeline.drawn(facts, [f"Pod/x@{zero + 900:.3f}"]))


def test_what_did_not_come_is_decided_when_the_wait_ended():
    """Where no violation was seen; the lines that a finding cites are then no moments of a decision."""
    facts = facts_of("GANG-002")
    late = {"t": facts["timeline"]["end"], "name": "a wait ran out"}
    told = {**facts["timeline"], "moments": [*facts["timeline"]["moments"], late]}
    assert decided(timeline.drawn({"timeline": told}, waited=True))
    assert not decided(timeline.drawn({"timeline": told}))


@pytest.mark.parametrize("count", [2, 9])
def test_no_moment_is_lost_however_near_they_lie(count):
    """Those at one place share a label, the others get rows of their own; no label lies over another."""
    facts = facts_of("GANG-002")
    end = facts["timeline"]["end"]
    moments = [
        {"t": end / 2 + number * end / 100, "name": f"moment number {number}"} for number in range(count)
    ]
    moments.append({"t": end / 2, "name": "at the same time"})
    picture = timeline.drawn({"timeline": {**facts["timeline"], "moments": moments}})
    told = [each for each in parsed(picture).iter("text") if "moment number" in each.text]
    assert {name for each in told for name in each.text.split(", ")} == {moment["name"] for moment in moments}
    rows = {}
    for each in sorted(told, key=lambda each: float(each.get("x"))):
        assert float(each.get("x")) >= rows.get(each.get("y"), 0.0)
        rows[each.get("y")] = float(each.get("x")) + 6 * len(each.text)


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
    drawn = dict(products.drawn(facts))
    assert list(drawn) == list(facts["products"])
    name = next(iter(drawn))
    told = words(drawn[name])
    assert any(each.startswith("GPU 0 on ") for each in told)
    assert "712, 697 W, 1455 MHz" in told
    median = [700.0 + number for number in range(len(facts["gpus"]))]
    median[0] = 600.0
    slow = {**facts, "products": {name: {**facts["products"][name], "median": median}}}
    assert any(each.endswith("under its node's median") for each in words(products.drawn(slow)[0][1]))


def test_a_gpu_is_compared_with_its_own_node():
    """A slow node is no slow GPU; of very many GPUs those furthest below their nodes are drawn, the rest is counted."""
    gpus = [f"rank {n}, GPU {n % 8} on Pod/p on gpu-{n // 8}" for n in range(160)]
    median = [600.0 if n < 8 else 660.0 for n in range(160)]
    median[150] = 640.0
    ((_, picture),) = products.drawn({"gpus": gpus, "products": {"bf16": {"median": median}}})
    told = words(picture)
    assert [each for each in told if "under" in each] == ["3.0% under its node's median"]
    assert f"{160 - products.MOST} more GPUs, nearer to the median of their nodes, are not drawn" in told


def row_with(**number):
    """Return a decided row with one figure."""
    figure = {"name": "bf16 products (rank 0)", "value": 660.0, "unit": "TFLOP/s", "bound": None, **number}
    return {"id": "MFU-001", "finding": {"numbers": [figure]}}


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ({"bound": 627.0, "floor": True, "peak": 989.4}, "660 TFLOP/s, 5.3% above its floor 627, 67% of 989.4 at most"),
        ({"bound": 700.0, "floor": True}, "660 TFLOP/s, 5.7% under its floor 700"),
        ({"peak": 989.4}, "660 TFLOP/s, 67% of 989.4 at most"),
        ({"value": 0.0, "bound": 1.0, "floor": True}, "0 TFLOP/s, 100.0% under its floor 1"),
    ],
)  # fmt: skip
def test_a_figure_is_drawn_against_floor_and_peak(number, said):
    """With the same in words: nothing is told by lines and colours alone."""
    told = words(targets.drawn([row_with(**number)]))
    assert told[:2] == ["MFU-001  bf16 products", said]


@pytest.mark.parametrize(
    "number",
    [{}, {"bound": 5.0}, {"value": None, "bound": 5.0, "floor": True}, {"value": math.nan, "peak": 1.0}, {"peak": 0.0},
     {"value": -1.0, "peak": 2.0}],
)  # fmt: skip
def test_a_figure_without_floor_and_peak_is_not_drawn(number):
    """A limit that must not be exceeded is no floor."""
    assert targets.drawn([row_with(**number)]) is None


def test_of_many_figures_the_nearest_to_their_floors_are_drawn():
    """The others are counted."""
    rows = [row_with(bound=600.0 - number, floor=True) for number in range(40)]
    told = words(targets.drawn(rows))
    assert "660 TFLOP/s, 10.0% above its floor 600" in told
    assert "16 more figures, further above their floors, are not drawn" in told


def test_a_floor_of_bandwidth_is_drawn():
    """At the sizes for which it holds."""
    points = [{"collective": "all_reduce", "size": 1 << size, "busbw": 10.0 * size} for size in (20, 24, 30)]
    points[-1]["floor"] = 293.0
    assert "floor 293 from 1 GiB" in words(sweep.drawn({"bandwidth": points}))


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
    assert not draw(facts)


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
