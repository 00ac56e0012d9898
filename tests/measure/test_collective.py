"""Formulas of nccl-tests, and what the wires of a shape can carry."""

import dataclasses
import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.measure import bus_floors
from pytest_gpucluster.measure import collective as c

H100 = c.Shape(2, 8, 8, 400, 450, "NET/IB")


@pytest.mark.parametrize(
    ("name", "ranks", "factor"),
    [
        ("all_reduce", 8, 1.75), ("all_reduce", 16, 1.875), ("all_gather", 4, 0.75), ("sendrecv", 4, 1.0),
        ("all_reduce", 1, 0.0), ("reduce_scatter", 2, 0.5), ("all_to_all", 64, 0.984375), ("allreduce", 8, None),
        ("all_reduce", 0, None),
    ],
)  # fmt: skip
def test_factors_are_those_of_nccl_tests(name, ranks, factor):
    """Bus over algorithm bandwidth, by collective and ranks; unknown ones have none."""
    assert c.factor(name, ranks) == factor


@given(st.sampled_from(sorted(c.TWICE | c.SHARED)), st.integers(1, 500))
def test_the_ratio_gives_the_ranks_back(name, ranks):
    """A ratio of bus to algorithm bandwidth tells how many ranks took part; 0 is a world of one."""
    assert c.ranks_of(name, c.factor(name, ranks)) == ranks


def test_a_ratio_of_no_world_is_told():
    """A ratio that no number of ranks gives, and a collective whose ratio is always 1."""
    assert c.ranks_of("all_reduce", 2.5) is None
    assert c.ranks_of("all_gather", 0.6) is None
    assert c.ranks_of("sendrecv", 1.0) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_no_bandwidth_without_a_time(seconds):
    """Zero, negative, infinite and absent times give no figure, never an infinite one."""
    assert c.algorithm_bandwidth(1024, seconds) is None
    assert c.bus_bandwidth("all_reduce", 8, 1024, seconds) is None


def test_a_known_line_of_nccl_tests():
    """1 GiB over 8 ranks in 5.3 ms, as a table of nccl-tests has it."""
    assert c.bus_bandwidth("all_reduce", 8, 1 << 30, 0.0053) == pytest.approx(354.5, abs=0.1)


SHAPES = st.builds(
    c.Shape,
    nodes=st.integers(1, 64),
    gpus=st.integers(1, 16),
    nics=st.integers(1, 16),
    nic_gbps=st.floats(10, 800),
    link_gbs=st.one_of(st.none(), st.floats(50, 2000)),
)


@given(st.sampled_from(sorted(c.TWICE | c.SHARED | c.PLAIN)), SHAPES)
def test_a_ceiling_grows_with_the_wires(name, shape):
    """No ceiling is below zero, and twice the adapters never lower it."""
    double = dataclasses.replace(shape, nics=2 * shape.nics)
    top, more = c.ceiling(name, shape), c.ceiling(name, double)
    assert (top is None) == (more is None)
    if top is not None:
        assert 0 < top <= more


def test_published_figures_lie_below_their_ceilings():
    """What was measured, on two nodes and on eight, inside a node and in one NVLink domain, the wires can carry."""
    for one in bus_floors.shipped("bus_bandwidth"):
        floor = c.floor_of(one)
        assert floor.implausible() == "", one
        assert one["figure"] < c.ceiling(floor.collective, floor.shape), one
        # Either a share of a published figure, or the bands of whoever runs such machines.
        share = one.get("share")
        assert ("warn" in one) is (share is None), one
        if share is None:
            assert one["busbw"] < one["warn"] < one["figure"], one
        else:
            assert one["busbw"] == pytest.approx(one["figure"] * share, rel=0.015), one


def test_two_nodes_may_exceed_the_adapters_and_eight_hardly():
    """An all-reduce that reduces inside nodes first moves each byte once over the adapters of two nodes."""
    assert c.ceiling("all_reduce", H100) == pytest.approx(750)
    assert c.ceiling("all_reduce", c.Shape(8, 8, 8, 400, 450)) == pytest.approx(450)
    assert c.ceiling("all_reduce", c.Shape(1, 8, None, None, 450)) == pytest.approx(787.5)
    assert c.ceiling("all_gather", c.Shape(1, 8, None, None, 450)) == 450
    assert c.ceiling("all_reduce", c.Shape(1, 1, None, None, 450)) is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"nodes": None}, "its number of nodes and GPUs"),
        ({"nics": None}, "does not state nics"),
        ({"nic_gbps": None, "nics": None}, "does not state nics and nic_gbps"),
        ({"busbw": 3400.0}, "more than the wires carry (750)"),
        ({"busbw": math.inf}, "more than the wires carry"),
        ({"busbw": 20.0}, "sockets reach it"),
        ({"busbw": 0}, "sockets reach it"),
        ({"collective": "allreduce"}, "no bus bandwidth"),
        ({"origin": ""}, "its origin"),
    ],
)
def test_a_floor_without_its_ground_is_not_used(change, why):
    """No shape, no adapters, more than they carry, or so little that sockets reach it."""
    good = {
        "collective": "all_reduce", "size": 1 << 30, "busbw": 393, "nodes": 2, "gpus": 8, "nics": 8, "nic_gbps": 400,
        "link_gbs": 450, "origin": "a run of ours",
    }  # fmt: skip
    assert c.floor_of(good).implausible() == ""
    assert why in c.floor_of({**good, **change}).implausible()


def test_a_floor_takes_the_adapters_of_the_section():
    """What a floor leaves out of its shape is that of the cluster; nodes and GPUs are its own."""
    bare = {"collective": "all_gather", "size": 1 << 20, "busbw": 100, "nodes": 4, "gpus": 8, "origin": "us"}
    floor = c.floor_of(bare, {"nics": 8, "nic_gbps": 200.0, "link_gbs": None, "transport": "NET/IB"})
    assert floor.shape == c.Shape(4, 8, 8, 200.0, None, "NET/IB")
    assert floor.implausible() == ""


def test_a_list_that_is_not_shipped_is_named():
    """One line says which list is missing."""
    with pytest.raises(bus_floors.FloorsError, match="no list of floors 'nothing'"):
        bus_floors.shipped("nothing")


def test_the_shipped_list_is_plain_data():
    """Every entry has all that a floor needs, and its origin."""
    for one in bus_floors.shipped("bus_bandwidth"):
        assert yaml.safe_load(yaml.safe_dump(one)) == one
        assert {"collective", "size", "busbw", "nodes", "gpus", "origin", "device"} <= set(one)
