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


@pytest.mark.parametrize(
    "told",
    [
        {"phys_state": "2: Polling"},
        {"phys_state": "3: Disabled"},
        {"phys_state": "6: LinkErrorRecovery"},
        {"state": "1: ACTIVE"},
        {"state": "4: DOWN"},
        {"state": "9: ACTIVE"},
        {"link_layer": "Unknown"},
        {"link_layer": "N/A"},
        {"state": "ACTIVE"},
        {"state": "4:ACTIVE"},
    ],
)
def test_a_port_that_contradicts_itself_decides_nothing(recorded, told):
    """Active without a link, or a number that stands for another word."""
    assert decided(ports(recorded, **told)).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("why", "cause"),
    [
        ("Operation not permitted", adapter_ports.CLOSED),
        ("Permission denied", adapter_ports.NO_RIGHT),
        ("No such device or address", adapter_ports.MADE_ANEW),
        ("No such device", adapter_ports.MADE_ANEW),
        ("Input/output error", adapter_ports.ANSWERS_NOT),
    ],
)
def test_why_a_device_file_does_not_open(recorded, why, cause):
    """The kernel's own word for it tells the causes apart."""
    found = decided(base.on("adapter", lambda word: word.update(opens=False, why=why), alone=True)(recorded))
    assert (found.verdict, found.causes) == (Verdict.FAIL, (cause,))


@pytest.mark.parametrize(
    ("said", "differs"), [({"opens": False}, True), ({"lost": ["1/state: gone"]}, True), ({}, False)]
)
def test_an_adapter_that_is_told_twice(recorded, said, differs):
    """The same words again are no matter; other words contradict them, whichever came last."""
    lines = list(recorded.lines)
    at = next(n for n, line in enumerate(lines) if line.type == "LOG" and "mlx5_0" in line.data["line"])
    other = base.on("adapter", lambda word: word.update(said))(base.with_lines(recorded, [lines[at]])).lines[
        0
    ]
    for places in ((at, at), (at, at + 1)):
        again = [*lines]
        again.insert(places[1], other)
        found = decided(base.with_lines(recorded, again))
        assert found.verdict is (Verdict.INCONCLUSIVE if differs else Verdict.PASS)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_device_file_whose_adapter_the_pod_does_not_see(recorded, hidden):
    """It was given and cannot be judged; it is no device file that is missing."""
    changed = base.on("adapters", lambda word: word.update(files=[*word["files"], "uverbs9"]), alone=True)(
        recorded
    )
    if hidden:
        changed = base.drop("adapter")(
            base.on("adapters", lambda word: word.update(names=[], count=0))(changed)
        )
    found = decided(changed)
    assert (found.verdict, found.causes) == (
        Verdict.INCONCLUSIVE, (adapter_ports.HIDDEN, adapter_ports.MADE_ANEW),
    )  # fmt: skip


@pytest.mark.parametrize("value", [None, 7, 1.5, True, "uverbs0", {"a": 1}])
@pytest.mark.parametrize("name", ["names", "files"])
def test_lists_that_are_none(recorded, name, value):
    """They end no judge; without names nothing is told."""
    found = decided(base.on("adapters", lambda word: word.update({name: value}), alone=True)(recorded))
    assert found.verdict is (Verdict.INCONCLUSIVE if name == "names" else Verdict.PASS)


def test_names_that_leave_out_an_adapter_are_not_all_names(recorded):
    """What was told and what was counted must agree."""
    fewer = base.on("adapters", lambda word: word.update(names=["mlx5_0"], count=1), alone=True)(recorded)
    assert decided(fewer).verdict is Verdict.INCONCLUSIVE


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
