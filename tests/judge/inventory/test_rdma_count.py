"""INV-003: RDMA devices of GPU nodes, as declared."""

import pytest

from pytest_gpucluster.judge.inventory import rdma_count
from pytest_gpucluster.requirement import Verdict
from tests import recordings
from tests.judge.inventory import cluster

HCA = "rdma/hca"
DECLARED = {"resource": HCA, "per_node": 4, "networks": []}


def node(name="a", devices="4", usable=None, **more):
    """Return a GPU node with RDMA devices; `usable` None for as many as it has."""
    made = cluster.node(name, **more)
    status = made["status"]
    for part, count in (("capacity", devices), ("allocatable", devices if usable is None else usable)):
        if count is not None:
            status[part] = {**status[part], HCA: count}
    return made


def decided(*nodes, networks=None, rdma=None, **told):
    """Return the finding on nodes, and on networks: NAMESPACE/NAME -> code and the resource that it names."""
    lines = [{"t": 0.0, "type": "ADDED", "kind": "Node", "object": one} for one in nodes]
    for name, (code, resource) in (networks or {}).items():
        meta = {
            "name": name,
            "annotations": {"k8s.v1.cni.cncf.io/resourceName": resource} if resource else {},
        }
        answer = {"object": {"metadata": meta}} if code == 200 else {"status": {"code": code}}
        case = f"read:network-definition:{name}"
        lines.append({"t": 1.0, "type": "RESPONSE", "case": case, "code": code, "request": "get", **answer})
    declared = {**DECLARED, "networks": list(networks or {})} if rdma is None else rdma
    return rdma_count.rdma_as_declared(
        recordings.evidence_of(lines, header={"given": {**cluster.TOLD, "rdma": declared, **told}})
    )


@pytest.mark.parametrize(
    ("nodes", "verdict", "told", "cause"),
    [
        ([node("a"), node("b")], Verdict.PASS, "2 GPU nodes offer 4 rdma/hca", ""),
        ([node("a"), node("b", "3")], Verdict.FAIL, "1 of 2 GPU nodes do not: b offers 3 of 4", "fewer adapters"),
        ([node("a", "63")], Verdict.FAIL, "a offers 63 of 4", "the plugin counts other things"),
        ([node("a", "4", "0")], Verdict.FAIL, "a offers 0 of 4 (capacity 4)", "the RDMA device plugin is gone"),
        ([node("a", "4", "3")], Verdict.FAIL, "a offers 3 of 4 (capacity 4)", "the RDMA device plugin is gone"),
        ([node("a", None)], Verdict.FAIL, "a offers 0 of 4", "no RDMA device plugin is registered"),
        ([node("a", None, **{"mellanox.com/cx6_rdma": "4"})], Verdict.FAIL, "but 4 mellanox.com/cx6_rdma",
         "under another resource name: mellanox.com/cx6_rdma"),
        ([node("a", "many")], Verdict.INCONCLUSIVE, "a offers 'many', which is not a number", "the writer of"),
        ([node("a", "-4")], Verdict.INCONCLUSIVE, "'-4'", "the writer of"),
        ([node("a", "NaN")], Verdict.INCONCLUSIVE, "'NaN'", "the writer of"),
        ([node("a", **{"rdma/other": "2"})], Verdict.PASS, "beside it nodes offer 2 rdma/other", ""),
        ([cluster.node("a", gpus=None)], Verdict.INCONCLUSIVE, "no GPU node was seen", ""),
        ([node("a"), cluster.node("cpu", gpus=None)], Verdict.PASS, "1 GPU node offer", ""),
        ([node("a", resource="amd.com/gpu")], Verdict.PASS, "1 GPU node", ""),
        ([node("a", "3", resource="nvidia.com/mig-1g.10gb")], Verdict.FAIL, "a offers 3 of 4", "no GPU node has"),
        ([node("a", "3"), node("b", "3")], Verdict.FAIL, "b offers 3 of 4", "no GPU node has as many as declared"),
        ([node("a", "4", "5")], Verdict.FAIL, "a offers 5 of 4", "something other than the kubelet"),
        ([node("a", None, "4")], Verdict.FAIL, "a offers 4 of 4 (capacity 0)", "something other than the kubelet"),
        ([node("a", cordoned=True)], Verdict.INCONCLUSIVE, "is cordoned", ""),
    ],
)  # fmt: skip
def test_each_gpu_node_offers_the_declared_number(nodes, verdict, told, cause):
    """Too many are as wrong as too few; what is no number, or no GPU node, is no pass."""
    found = decided(*nodes)
    assert (found.verdict, told in found.observed) == (verdict, True), found
    assert not cause or cause in found.causes[0].text


@pytest.mark.parametrize(
    ("networks", "verdict", "told"),
    [
        ({"default/roce": (200, HCA)}, Verdict.PASS, "default/roce name it"),
        ({"default/roce": (200, "")}, Verdict.PASS, "pods must ask for it themselves"),
        ({"default/roce": (200, "mellanox.com/cx6_rdma")}, Verdict.FAIL, "names mellanox.com/cx6_rdma"),
        ({"default/roce": (404, "")}, Verdict.FAIL, "there is no NetworkAttachmentDefinition default/roce"),
        ({"default/roce": (403, "")}, Verdict.INCONCLUSIVE, "default/roce was not read"),
        ({"a/x": (200, HCA), "a/y": (500, "")}, Verdict.INCONCLUSIVE, "a/y was not read"),
    ],
)
def test_a_network_names_the_resource_that_pods_ask_for(networks, verdict, told):
    """One that names another resource, or is not there, is wrong; one that was not read is unknown."""
    found = decided(node(), networks=networks)
    assert (found.verdict, told in found.observed) == (verdict, True), found


@pytest.mark.parametrize(
    ("code", "causes"),
    [(403, (rdma_count.FORBIDDEN,)), (401, (rdma_count.FORBIDDEN,)), (500, (rdma_count.UNANSWERED,)),
     (504, (rdma_count.UNANSWERED,))],
)  # fmt: skip
def test_only_a_refusal_is_a_lack_of_rights(code, causes):
    """A server that fails says nothing of what the user may."""
    assert decided(node(), networks={"a/x": (code, "")}).causes == causes


def test_a_network_that_nobody_read_is_no_pass():
    """The answer is not in the evidence at all."""
    found = decided(node(), rdma={**DECLARED, "networks": ["default/roce"]})
    assert found.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("rdma", [{"resource": HCA}, {"per_node": 4}, {"resource": HCA, "per_node": -1}])
def test_half_a_declaration_is_no_ground(rdma):
    """Neither name nor number are guessed."""
    assert decided(node(), rdma=rdma).verdict is Verdict.INCONCLUSIVE


def test_what_is_not_declared_does_not_apply():
    """A profile without the section has no number to compare with."""
    assert decided(node(), rdma={}).verdict is Verdict.NOT_APPLICABLE


def changing(*states, label="true"):
    """Return the finding on a node that was seen in these states: time, devices, whether it is Ready."""
    lines = []
    for number, (t, devices, ready) in enumerate(states):
        made = node("a", devices, ready=ready, labels={"nvidia.com/gpu.present": label})
        kind = "MODIFIED" if number else "ADDED"
        lines.append({"t": t, "type": kind, "kind": "Node", "object": made})
    lines.append({"t": 60.0, "type": "NOTE", "note": "end"})
    header = {"given": {**cluster.TOLD, "rdma": DECLARED}}
    return rdma_count.rdma_as_declared(recordings.evidence_of(lines, header=header))


def test_a_number_that_was_wrong_for_a_time_is_wrong():
    """A device that comes and goes is named with its time; a node that restarts is not blamed."""
    dip = changing((0.0, "4", "True"), (5.0, "3", "True"), (9.0, "4", "True"))
    assert dip.verdict is Verdict.FAIL
    assert "a offers 3 of 4 for a time (at t=5 s)" in dip.observed
    away = changing((0.0, "4", "True"), (5.0, "4", "False"), (6.0, "0", "True"), (9.0, "4", "True"))
    assert away.verdict is Verdict.PASS
    still = changing((0.0, "4", "True"), (5.0, "4", "False"), (6.0, "0", "True"))
    assert still.verdict is Verdict.INCONCLUSIVE
