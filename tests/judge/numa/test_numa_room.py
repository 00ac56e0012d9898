"""NUMA-003 and its neighbours: pods that fit and were turned away, devices that are split, plugins that lie."""

import json

import pytest

from pytest_gpucluster.judge.numa.alignment import on_one_numa_node, topology_reported
from pytest_gpucluster.report import decisions
from pytest_gpucluster.requirement import REGISTRY
from tests.defects import matrix
from tests.judge.numa.test_alignment import DECLARED, REJECTED, evidence, lines, machine, says

FAIL, NO, PASS, ENVIRONMENT = "fail", "inconclusive", "pass", "environment"
SMALL = {**DECLARED, "gpus_per_node": 4}
"""Nodes of two NUMA nodes with two devices each."""


def decided(row, seen, told=DECLARED):
    """Return the finding of a row, presuppositions included."""
    assert matrix.rows()
    return decisions.decide(REGISTRY.get(row), seen, told)


def turned_away(name, gpus, reason, message="", *, t=0.0, node="n1"):
    """Return the lines of a pod that its kubelet refuses."""
    found = lines(name, gpus, t=t, node=node, phase="Failed", reason=reason)
    found[-1]["object"]["status"]["message"] = message
    return found


def others(node="n2"):
    """Return pods that show that both NUMA nodes of another node serve."""
    return [
        machine(name=node),
        lines("a", 3, node=node), says("a", dict.fromkeys(("g0", "g1", "g2"), 0), 0.5),
        lines("b", 4, t=1.0, node=node), says("b", dict.fromkeys(("g4", "g5", "g6", "g7"), 1), 1.5),
    ]  # fmt: skip


FAILED = "Pod was rejected: Allocate failed due to {}, which is unexpected"
LOST = FAILED.format("device plugin GetPreferredAllocation rpc failed: GPU is lost")
SHORT = FAILED.format(
    "requested number of devices unavailable for nvidia.com/gpu. Requested: 3, Available: 2"
)


@pytest.mark.parametrize(
    ("reason", "message", "verdict"),
    [
        ("UnexpectedAdmissionError", LOST, FAIL),
        ("UnexpectedAdmissionError", "Pod was rejected: no healthy devices present", FAIL),
        ("unexpectedadmissionerror", "", FAIL),
        ("UnexpectedAdmissionError", SHORT, FAIL),
        ("OutOfnvidia.com/gpu", "Pod was rejected: Node didn't have enough resource", FAIL),
        # Not for want of devices: nobody knows whether it would have been aligned.
        ("OutOfcpu", "", NO),
        ("NodeAffinity", "", NO),
        ("Evicted", "The node was low on resource: memory", NO),
        ("SMTAlignmentError", "", NO),
    ],
)
def test_a_pod_that_fits_and_is_turned_away(reason, message, verdict):
    """Others that were admitted do not make up for it; a refusal of its devices is a violation with pod and word."""
    seen = evidence(machine(), turned_away("p", 3, reason, message), *others())
    finding = decided("NUMA-003", seen)
    assert finding.verdict == verdict, finding.observed
    assert "p (3 GPUs on n1)" in finding.observed
    assert reason in finding.observed
    assert message[:150] in finding.observed


def test_a_kubelet_that_lacks_devices_while_others_hold_some():
    """A shortage that the scheduler did not know of is no violation, and no pass."""
    seen = evidence(
        machine(), lines("h", 2), says("h", {"g0": 0, "g1": 0}, 0.4),
        turned_away("p", 3, "UnexpectedAdmissionError", SHORT, t=1.0), *others(),
    )  # fmt: skip
    assert decided("NUMA-003", seen).verdict == NO


def test_a_kubelet_that_has_not_decided():
    """Bound, and neither ran nor rejected: others do not show what it would have done."""
    seen = evidence(machine(), lines("p", 3)[:2], *others())
    finding = decided("NUMA-003", seen)
    assert finding.verdict == NO
    assert "p (3 GPUs on n1) was not decided by its kubelet" in finding.observed


@pytest.mark.parametrize(
    ("held", "asked", "told"),
    [
        ([{"d0": 0}, {"d3": 1}], 2, SMALL),
        ([{"g0": 0, "g1": 0}, {"g4": 1, "g5": 1}], 3, DECLARED),
        ([{"g0": 0, "g4": 1, "g5": 1}], 4, DECLARED),
        ([{"g0": 0}, {"g4": 1}, {"g1": 0}, {"g5": 1}], 3, DECLARED),
    ],
)
def test_devices_that_are_free_and_split(held, asked, told):
    """Enough in number, on no NUMA node: the environment, with the pod and where devices were free."""
    pods = []
    for n, devices in enumerate(held):
        pods += [lines(f"h{n}", len(devices), t=n / 10), says(f"h{n}", devices, 0.9)]
    seen = evidence(machine(told["gpus_per_node"]), *pods, lines("p", asked, t=2.0, **REJECTED))
    finding = decided("NUMA-003", seen, told)
    if any(len(set(devices.values())) > 1 for devices in held):
        assert finding.verdict == FAIL
        return
    assert finding.verdict == ENVIRONMENT, finding.observed
    assert f"p ({asked} GPUs on n1) was rejected with TopologyAffinityError" in finding.observed
    assert "on NUMA node 0 and" in finding.observed
    assert "?" not in finding.observed


def test_a_rejection_beside_unknown_devices_keeps_the_row_open():
    """Where the others lie is not known, so whether there was room is not."""
    seen = evidence(machine(), lines("h", 3), lines("p", 3, t=1.0, **REJECTED), *others())
    finding = decided("NUMA-003", seen)
    assert finding.verdict == NO
    assert "p (3 GPUs on n1)" in finding.observed


def test_single_devices_alone_show_nothing():
    """One device lies on one NUMA node whatever the policy; no number that is not there is named."""
    seen = evidence(
        machine(), lines("a", 1), says("a", {"g0": 0}, 0.5), lines("b", 1, t=1.0), says("b", {"g4": 1}, 1.5)
    )
    finding = on_one_numa_node(seen, DECLARED)
    assert finding.verdict == NO
    assert "no pod of several devices ran" in finding.observed


def both(pod, devices, t, by="GPUCLUSTER_DEVICES"):
    """Return the line in which a pod tells of each device what plugin and machine say: id -> (plugin's, bus')."""
    told = [{"id": name, "numa": numa, "bus": bus} for name, (numa, bus) in devices.items()]
    return {
        "type": "LOG", "t": t, "pod": pod, "uid": pod, "container": "c",
        "line": "GPUCONF1 " + json.dumps({"event": "devices", "devices": told, "by": by}),
    }  # fmt: skip


def two_pods(first, second, by="GPUCLUSTER_DEVICES"):
    """Return evidence of two pods of three devices, each told (plugin's, machine's) NUMA node of its devices."""
    ids = ("g0", "g1", "g2"), ("g4", "g5", "g6")
    return evidence(
        machine(), lines("a", 3), both("a", dict(zip(ids[0], first, strict=True)), 0.5, by),
        lines("b", 3, t=1.0), both("b", dict(zip(ids[1], second, strict=True)), 1.5, by),
    )  # fmt: skip


RIGHT, LEFT = [(0, 0)] * 3, [(1, 1)] * 3


@pytest.mark.parametrize(
    ("first", "second", "alignment", "report"),
    [
        (RIGHT, LEFT, PASS, PASS),
        # The machine has them apart, whatever the plugin says.
        ([(0, 0), (0, 1), (0, 0)], LEFT, FAIL, FAIL),
        # They lie together by luck: the plugin has them elsewhere, wholly or in part.
        ([(1, 0)] * 3, [(0, 1)] * 3, NO, FAIL),
        ([(0, 0), (1, 0), (0, 0)], LEFT, NO, FAIL),
        # The machine tells none: the plugin's word stands.
        ([(0, -1)] * 3, [(1, -1)] * 3, PASS, PASS),
        # The plugin tells none: where they lie is known from the machine, that it reports is not so.
        ([(None, 0)] * 3, [(None, 1)] * 3, PASS, FAIL),
        ([(0, 0), (None, 0), (0, 0)], LEFT, PASS, FAIL),
    ],
)
def test_what_the_plugin_tells_and_what_the_machine_tells(first, second, alignment, report):
    """The machine decides where devices lie; a plugin that tells otherwise is named, and makes no row pass."""
    seen = two_pods(first, second)
    assert on_one_numa_node(seen, DECLARED).verdict == alignment
    assert topology_reported(seen, DECLARED).verdict == report


def test_a_plugin_that_was_not_heard():
    """Ids alone, as the vendor's plugin hands them out: the machine shows where they lie, not who says so."""
    seen = two_pods([(None, 0)] * 3, [(None, 1)] * 3, by="NVIDIA_VISIBLE_DEVICES")
    assert on_one_numa_node(seen, DECLARED).verdict == PASS
    assert topology_reported(seen, DECLARED).verdict == NO
