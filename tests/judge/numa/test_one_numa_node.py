"""NUMA-004 on what pods tell of their parts; the machine with two sockets is made up, as the file's header says."""

import pytest

from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.evidence.hardware import container_locality
from pytest_gpucluster.judge.numa import one_numa_node
from pytest_gpucluster.mutants import base
from pytest_gpucluster.requirement import Verdict
from tests.defects import matrix


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """Two Guaranteed pods, one on each NUMA node."""
    found = read(matrix.HOST / "alignment.jsonl")
    assert "made up" in found.header["constructed"]
    return found


def told(evidence, pod="alignment-1", **changes):
    """Let a pod tell other facts."""

    def act(line, said):
        return {**said, **changes} if line.data.get("pod") == pod else said

    return base.words(evidence, act)


def judged(evidence):
    """Return the finding."""
    return one_numa_node.one_numa_node(evidence, evidence.given)


def test_all_parts_on_one_node_each(evidence):
    """The finding names the parts of each pod with their NUMA node."""
    finding = judged(evidence)
    assert finding.verdict is Verdict.PASS
    assert "alignment-0: GPUs, CPUs 0, memory and network functions mlx5_0 on NUMA node 0" in finding.observed
    assert "alignment-1: GPUs, CPUs 1, memory and network functions mlx5_2 on NUMA node 1" in finding.observed
    assert [number.value for number in finding.numbers] == [1]


@pytest.mark.parametrize(
    ("changes", "text", "cause"),
    [
        ({"cpu_nodes": [0, 1], "cpus": "0-7"}, "its CPUs 0-7 lie on NUMA nodes 0, 1", "cpuManagerPolicy"),
        ({"cpu_nodes": [0]}, "its CPUs 1 lie on NUMA node 0, its GPUs on 1", "cpuManagerPolicy"),
        (
            {"memory": {"policy": "default", "pages": {"0": 2000, "1": 48}}},
            "its memory lies on NUMA nodes 0, 1",
            "memoryManagerPolicy",
        ),
        (
            {"functions": [{"name": "mlx5_0", "kind": "verbs", "numa": 0}]},
            "its network functions mlx5_0 lie on NUMA node 0, its GPUs on 1",
            "reports topology",
        ),
        (
            {"devices": [{"id": "GPU-a", "numa": 1, "bus": 1}, {"id": "GPU-b", "numa": 1, "bus": 0}]},
            "for GPU-b the plugin reports NUMA node 1, the machine 0, alignment-1: its GPUs lie on NUMA nodes 0, 1",
            "/sys/bus/pci/devices",
        ),
    ],
)
def test_parts_that_lie_apart(evidence, changes, text, cause):
    """Each is a violation with the part, the NUMA nodes and the documented fix."""
    finding = judged(told(evidence, **changes))
    assert finding.verdict is Verdict.FAIL
    assert finding.violation
    assert text in finding.observed
    assert finding.where == ("Pod/alignment-1 on gpu-0",)
    assert any(cause in one.fix for one in finding.causes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"memory": {}}, "NUMA node not known: memory of alignment-1"),
        ({"cpu_nodes": []}, "CPUs of alignment-1"),
        ({"devices": [{"id": "GPU-a", "numa": -1, "bus": -1}]}, "GPUs of alignment-1"),
        (
            {"functions": [{"name": "mlx5_0", "kind": "verbs", "numa": None}]},
            "network functions of alignment-1",
        ),
        ({"functions": []}, "alignment-1 sees no network function"),
    ],
)
def test_what_nobody_tells_is_not_judged(evidence, changes, text):
    """A part whose NUMA node is not known leaves the row open, whatever the others do."""
    finding = judged(told(evidence, **changes))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert text in finding.observed


def test_a_pod_without_network_functions_is_judged_by_the_rest(evidence):
    """Where none is declared none is missed, and the finding says so; the pod's own link is none."""
    given = {**evidence.given, "numa": {**evidence.given["numa"], "functions": None}}
    link = [{"name": "eth0", "kind": "net", "numa": None}]
    bare = told(told(evidence, functions=link), pod="alignment-0", functions=[])
    finding = one_numa_node.one_numa_node(bare, given)
    assert finding.verdict is Verdict.PASS
    assert "no network function was asked for" in finding.observed


def test_one_numa_node_is_the_machines_fault(evidence):
    """On a machine with one everything shares it, which shows nothing."""
    one = told(told(evidence, nodes="0"), pod="alignment-0", nodes="0")
    state = one_numa_node.two_on_the_machine(one, one.given)
    assert (state.held, state.observed) == (False, "it has 1")
    assert one_numa_node.two_on_the_machine(evidence, evidence.given).held
    silent = base.drop("devices")(evidence)
    assert one_numa_node.two_on_the_machine(silent, silent.given).held is None


def test_pods_that_do_not_tell_memory_are_not_read(evidence):
    """Older payloads tell devices and CPUs alone."""

    def older(line, said):
        return {key: value for key, value in said.items() if key != "memory"}

    assert container_locality.parts(base.words(evidence, older)) == ()
