"""FAB-007: adapters that open, and their ports."""

import pytest

from pytest_gpucluster.judge.fabric import adapter_ports
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants.fabric_adapters import MUTANTS
from pytest_gpucluster.requirement import Verdict
from tests import recordings


@pytest.fixture(scope="module")
def recorded():
    """Return the evidence of a passing run on the embedded cluster."""
    return recordings.embedded("adapters")


def decided(evidence, **rdma):
    """Judge FAB-007 with other declarations."""
    given = {**evidence.given, "rdma": {**evidence.given["rdma"], **rdma}}
    return adapter_ports.open_and_active(evidence, given)


def ports(evidence, **told):
    """Return the evidence in which every port tells something else."""
    return base.on("adapter", lambda word: word["ports"][0].update(told))(evidence)


def test_all_adapters_of_all_nodes(recorded):
    """Four on each of three nodes, at the declared rate."""
    found = decided(recorded)
    assert found.verdict is Verdict.PASS
    assert "12 adapters on 3 nodes open, their ports active at 400 Gbit/s" in found.observed
    assert "(no rate is declared: rdma.port_gbps)" in decided(recorded, port_gbps=None).observed


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_each_departure(recorded, name):
    """What is wrong has a cause with its fix; what is not known is no pass."""
    found = decided(MUTANTS[name].act(recorded))
    assert found.verdict == MUTANTS[name].flips["FAB-007"]
    assert found.verdict is not Verdict.FAIL or (found.violation and found.causes)


@pytest.mark.parametrize(
    ("told", "causes"),
    [
        ({"state": "2: INIT"}, ["one candidate: no subnet manager", "another candidate"]),
        ({"state": "1: DOWN", "phys_state": "2: Polling"}, ["the link is physically down"]),
        ({"state": "1: DOWN", "phys_state": "3: Disabled"}, ["the link is physically down"]),
        (
            {"state": "2: INIT", "link_layer": "Ethernet"},
            ["the port is linked and not active", "the link is phys"],
        ),
    ],
)
def test_the_subnet_manager_is_one_candidate_only(recorded, told, causes):
    """Nobody accuses it of a cable, nor on Ethernet, where there is none."""
    found = decided(ports(recorded, **told), link_layer=None)
    assert [cause.text.startswith(text) for cause, text in zip(found.causes, causes, strict=True)] == [
        True
    ] * len(causes)


@pytest.mark.parametrize("value", ["", "400", "NaN Gb/sec", "-400 Gb/sec (4X)", "0 Gb/sec (4X)", None, 17])
def test_a_rate_that_is_none_is_no_pass(recorded, value):
    """Neither a text nor another number."""
    assert decided(ports(recorded, rate=value)).verdict in (Verdict.INCONCLUSIVE, Verdict.FAIL)


def test_a_second_port_that_is_down_is_said(recorded):
    """One active port is enough; the other is a remark."""

    def add(word):
        word["ports"].append({**word["ports"][0], "port": 2, "state": "1: DOWN", "phys_state": "3: Disabled"})

    found = decided(base.on("adapter", add, alone=True)(recorded))
    assert found.verdict is Verdict.PASS
    assert "port 2 on" in found.observed


def test_an_adapter_that_was_not_given_is_not_judged(recorded):
    """A pod sees all of the node's adapters, and may open its own alone."""

    def other(word):
        if word["name"] == "mlx5_3":
            word.update(file="", opens=False)
            word["ports"][0].update(state="1: DOWN")

    found = decided(base.on("adapter", other)(recorded))
    assert found.verdict is Verdict.PASS
    assert "9 adapters on 3 nodes" in found.observed


def test_a_node_that_was_tried_and_said_nothing(recorded):
    """Its pod is no part of the evidence."""
    given = {**recorded.given, "tried": [*recorded.given["tried"], "gpu-9"]}
    found = adapter_ports.open_and_active(recorded, given)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "gpu-9" in found.observed
