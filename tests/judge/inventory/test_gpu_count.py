"""INV-002 and INV-008: the GPUs of nodes, and nodes beside their siblings."""

import copy
import json

import pytest

from pytest_gpucluster.evidence import Span
from pytest_gpucluster.judge.inventory import gpu_count, node_pool
from tests import recordings
from tests.judge.inventory.cluster import GPU, TOLD, decide, evidence, node


def gpus(*found, **told):
    """Return the finding of INV-002."""
    return decide(
        gpu_count.gpus_as_declared,
        evidence(*found),
        gpu_count.nodes_listed,
        gpu_count.gpu_nodes_report,
        **told,
    )


LABEL = {"nvidia.com/gpu.present": "true"}
SHARING = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "10"}


@pytest.mark.parametrize(
    ("found", "verdict", "said"),
    [
        ([node("a"), node("b")], "pass", "2 GPU nodes of 2 offer 8"),
        ([node("a"), node("cpu", None)], "pass", "1 GPU node of 2"),
        ([node("a"), node("gone", 0)], "pass", "1 GPU node of 2"),
        ([node("a"), node("b", 8, 7)], "fail", "b offers 7 of 8 (capacity 8)"),
        ([node("a"), node("b", 4)], "fail", "b offers 4 of 8"),
        ([node("a"), node("b", 16)], "fail", "b offers 16 of 8"),
        ([node("a"), node("b", 0, labels=LABEL)], "fail", "although its label says nvidia.com/gpu.present=true"),
        ([node("a"), node("b", None, labels={"nvidia.com/gpu.count": "8"})], "fail", "nvidia.com/gpu.count=8"),
        ([node("a"), node("b", None, labels={"amd.com/gpu.family": "AI"})], "fail", "b offers 0 of 8"),
        ([node("a"), node("b", 80, labels=SHARING)], "fail", "b offers 80 of 8"),
        ([node("a", 8, resource="nvidia.com/gpu.shared")], "fail", "but 8 nvidia.com/gpu.shared"),
        ([node("a", 56, resource="nvidia.com/mig-1g.10gb")], "fail", "but 56 nvidia.com/mig-1g.10gb"),
        ([node("a", 8, resource="amd.com/gpu")], "fail", "but 8 amd.com/gpu"),
        ([node("a"), node("b", 7, cordoned=True)], "fail", "[cordoned]"),
        ([node("a"), node("b", ready="Unknown")], "environment", "1 node not Ready"),
        ([node("a"), node("b", ready="False", cordoned=True)], "pass", "b is NotReady, cordoned"),
        ([node("a"), node("b", 7, ready="Unknown")], "fail", "b offers 7 of 8 [NotReady]"),
        ([node("a"), {"kind": "Node", "metadata": {"name": "b"}}], "inconclusive", "never reported their devices: b"),
        ([node("a", None)], "fail", "none of 1 node offers"),
        ([], "inconclusive", ""),
    ],
)  # fmt: skip
def test_gpus_of_every_node(found, verdict, said):
    """INV-002: exactly the declared number on every GPU node; short ones are named; nothing seen is no pass."""
    finding = gpus(*found)
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed
    if verdict == "fail":
        assert finding.where
        assert finding.causes


@pytest.mark.parametrize(
    "resource", ["amd.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "habana.ai/gaudi"]
)
def test_the_declared_name_is_what_counts(resource):
    """Other vendors, shares and MIG slices are judged alike where they are what the profile declares."""
    assert gpus(node("a", 8, resource=resource), gpu_resource=resource).verdict == "pass"
    assert gpus(node("a", 7, resource=resource), gpu_resource=resource).verdict == "fail"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (node("a", 8, 7), "unhealthy"),
        (node("a", 8, 0), "the device plugin is gone"),
        (node("a", 0, labels=LABEL), "no device plugin"),
        (node("a", 4), "fewer devices"),
        (node("a", 16), "more devices"),
        (node("a", 80, labels=SHARING), "shared"),
        (node("a", 8, resource="nvidia.com/gpu.shared"), "shared"),
        (node("a", 56, resource="nvidia.com/mig-1g.10gb"), "MIG"),
        (node("a", 56, labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}), "MIG"),
        (node("a", 8, resource="amd.com/gpu"), "another resource name: amd.com/gpu"),
    ],
)  # fmt: skip
def test_the_likeliest_cause_comes_first(found, text):
    """What is wrong with the number tells why."""
    assert text in gpus(found).causes[0].text


def test_a_device_that_was_unhealthy_for_a_time():
    """Enough at the end does not undo what was seen before; a node that says nothing yet is no such case."""
    now, before = node("a"), node("a", 8, 7)
    lines = [
        {"t": t, "type": "MODIFIED" if t else "ADDED", "kind": "Node", "object": obj}
        for t, obj in enumerate((now, before, now))
    ]
    seen = recordings.evidence_of([*lines, {"t": 3.0, "type": "NOTE", "note": "end"}], header={"given": TOLD})
    finding = decide(gpu_count.gpus_as_declared, seen, gpu_count.nodes_listed)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "for a time 1 GPU node did not: a offers 7 of 8" in finding.observed
    lines[1]["object"] = {**now, "status": {}}
    seen = recordings.evidence_of([*lines, {"t": 3.0, "type": "NOTE", "note": "end"}], header={"given": TOLD})
    assert decide(gpu_count.gpus_as_declared, seen, gpu_count.nodes_listed).verdict == "pass"


def test_zero_that_stayed_behind_is_none():
    """A key with 0 is left by a plugin that is gone for good: the node counts as one without GPUs, and is named."""
    finding = gpus(node("a"), node("b", 0))
    assert finding.verdict == "pass"
    assert "b once had a device plugin and offers 0" in finding.observed


def test_a_declared_zero_is_not_applicable_and_an_unwatched_list_decides_nothing():
    """No GPUs declared: nothing to judge. A watch that was never in sync: what was seen may not be all."""
    assert gpus(node("a", None), gpus_per_node=0).verdict == "not_applicable"
    blind = evidence(node("a"), spans=(Span("Queue", 0.0, 2.0),))
    assert decide(gpu_count.gpus_as_declared, blind, gpu_count.nodes_listed).verdict == "inconclusive"
    ended = evidence(node("a"), spans=(Span("Node", 0.0, 1.0),))
    assert decide(gpu_count.gpus_as_declared, ended, gpu_count.nodes_listed).verdict == "inconclusive"


def test_what_kubectl_printed_is_judged(tmp_path):
    """`kubectl get nodes -o json` is a whole list of one moment, though nobody watched."""
    from pytest_gpucluster.evidence import read

    items = [{**found, "apiVersion": "v1"} for found in (node("a"), node("b"), node("c", 8, 7))]
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))
    seen = read(path)
    assert decide(gpu_count.gpus_as_declared, seen, gpu_count.nodes_listed).verdict == "fail"
    assert decide(node_pool.nodes_alike, seen, gpu_count.nodes_listed, node_pool.siblings).verdict == "fail"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items[:2]}, indent=1))
    assert decide(gpu_count.gpus_as_declared, read(path), gpu_count.nodes_listed).verdict == "pass"


def test_five_thousand_nodes_name_the_short_ones():
    """A few among thousands are named, the many are counted."""
    many = [node(f"n{n:04d}", labels={"cloud.google.com/gke-nodepool": f"p{n % 7}"}) for n in range(5000)]
    for n in (17, 4242):
        many[n] = node(f"n{n:04d}", 8, 6, labels=many[n]["metadata"]["labels"])
    seen = evidence(*many)
    finding = decide(gpu_count.gpus_as_declared, seen, gpu_count.nodes_listed, gpu_count.gpu_nodes_report)
    assert (
        finding.observed
        == "2 of 5000 GPU nodes do not: n0017 offers 6 of 8 (capacity 8), n4242 offers 6 of 8 (capacity 8)"
    )
    odd = decide(node_pool.nodes_alike, seen, node_pool.siblings)
    assert odd.verdict == "fail"
    assert {where.partition(":")[0] for where in odd.where} == {"Node/n0017", "Node/n4242"}


# -- INV-008 ---------------------------------------------------------------------------------------------------------


def alike(*found, **told):
    """Return the finding of INV-008."""
    return decide(node_pool.nodes_alike, evidence(*found), gpu_count.nodes_listed, node_pool.siblings, **told)


def changed(base, path, value):
    """Return a copy of a node with one value changed."""
    made = copy.deepcopy(base)
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return made


POOL = {"cloud.google.com/gke-nodepool": "a100"}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("status", "nodeInfo", "kernelVersion"), "5.15", "kernel: c has 5.15, the others 6.8.0"),
        (("status", "nodeInfo", "kubeletVersion"), "v1.33.0", "kubelet: c has v1.33.0"),
        (("status", "capacity", "cpu"), "64", "CPUs: c has 64, the others 96"),
        (("status", "allocatable", GPU), "7", f"number of {GPU}: c has 7 of 8, the others 8"),
        (("metadata", "labels", "nvidia.com/gpu.product"), "A100", "label nvidia.com/gpu.product: c has A100"),
        (("metadata", "labels", "nvidia.com/cuda.driver-version.full"), "550.1", "the others nothing"),
    ],
)  # fmt: skip
def test_the_odd_one_is_named(path, value, said):
    """INV-008: whatever it differs in."""
    base = [node(name, labels=dict(POOL)) for name in "abcd"]
    assert alike(*base).verdict == "pass"
    base[2] = changed(base[2], path, value)
    finding = alike(*base)
    assert finding.verdict == "fail", finding.observed
    assert said in finding.observed
    assert finding.where == ("Node/c: differs in 1",)


@pytest.mark.parametrize(
    "label",
    ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "nvidia.com/gfd.timestamp", "nvidia.com/gpu.clique",
     "team", "nvidia.com/gpu.deploy.driver", "nvidia.com/gpu-driver-upgrade-state"],
)  # fmt: skip
def test_what_healthy_siblings_differ_in_is_left_alone(label):
    """Names, places, times and states of operators are no difference of machines."""
    assert alike(*(node(name, labels={**POOL, label: name}) for name in "abc")).verdict == "pass"


def test_two_against_two_accuses_nobody():
    """An even split names both sides: in one labelled pool a violation, else perhaps two pools."""
    halves = [node("a"), node("b"), node("c", rdma="1"), node("d", rdma="1")]
    for one in halves[2:]:
        one["status"]["nodeInfo"]["kernelVersion"] = "5.15"
    finding = alike(*halves)
    assert finding.verdict == "inconclusive"
    assert "a, b have 6.8.0; c, d have 5.15" in finding.observed
    assert "pool_label" in finding.causes[0].fix
    for one in halves:
        one["metadata"]["labels"] = dict(POOL)
    finding = alike(*halves)
    assert finding.verdict == "fail"
    assert {where.removeprefix("Node/") for where in finding.where} == set("abcd")


def test_pools_are_compared_within_themselves():
    """Two kinds of machines are alike by the cloud's label, and by a declared one."""
    kinds = [
        node(f"{pool}{n}", gpus, labels={"example.com/pool": pool})
        for pool, gpus in (("x", 8), ("y", 4))
        for n in (1, 2)
    ]
    assert alike(*kinds).verdict == "inconclusive"
    assert alike(*kinds, pool_label="example.com/pool").verdict == "pass"
    alone = [*kinds, node("z1", 2, labels={"example.com/pool": "z"})]
    finding = alike(*alone, pool_label="example.com/pool")
    assert finding.verdict == "pass"
    assert "z1 alone in a pool" in finding.observed


@pytest.mark.parametrize("found", [[node("a")], [node("a"), node("cpu", None)], [node("cpu", None)]])
def test_one_node_has_no_siblings(found):
    """There is nothing to compare: what the row presupposes is not so."""
    assert alike(*found).verdict == "environment"


def test_a_node_that_never_reported_is_not_taken_for_alike():
    """Labels say that it has GPUs, its kubelet said nothing yet."""
    silent = {"kind": "Node", "metadata": {"name": "c", "labels": LABEL}}
    assert alike(node("a"), node("b"), silent).verdict == "inconclusive"
