"""Situations of nodes from public trouble reports: what the kubelet's policy is, and a device that a pod has lost."""

import json

from tests import documents, recordings

CASES = {case["id"]: case for case in documents.read(recordings.FOLDER / "public" / "nodes.yaml")}


def findings(evidence, *rows):
    """Return row -> finding."""
    return {row: recordings.JUDGES[row](evidence, evidence.given) for row in rows}


def test_restricted_poses_as_single_numa_node():
    """The pod with whole CPUs was turned away for these; the one without ran on both: no other policy does so.

    The case calls NUMA-005 passed where the policy was recognised; the row asks for the declared one.
    """
    case = CASES["numa-restricted-poses-as-single-node"]
    told = case["given"]
    numa = {"policy": told["declared_policy"], "nodes": 2}
    given = {**told, "numa": numa, "gpus_per_node": 2 * told["gpus_per_numa"]}
    found = findings(recordings.public_evidence({**case, "given": given}), "NUMA-001", "NUMA-002", "NUMA-005")
    assert {row: str(one.verdict) for row, one in found.items()} == {
        **case["expected"]["rows"],
        "NUMA-005": "fail",
    }
    assert "gpu-05 behaves as restricted" in found["NUMA-005"].observed
    assert "probe-b" in found["NUMA-002"].observed
    assert "probe-a" not in found["NUMA-002"].observed


def test_a_pod_that_lost_its_device_after_a_reload():
    """The device file is there and no longer opens, and the driver answers with an error; the pod runs on."""
    case = CASES["hlt-pod-lost-its-device-after-a-reload"]
    base = recordings.public_evidence(case)
    (pod,) = base.of_kind("Pod")
    told = {
        "event": "access", "told": ["GPU-1"], "files": [{"path": "/dev/nvidia0", "opens": False}],
        "driver": {"library": "libcuda.so.1", "result": 999},
    }  # fmt: skip
    log = {"t": 1.0, "type": "LOG", "pod": pod.name, "uid": pod.uid, "container": "main"}
    lines = [
        {"t": line.t, "type": line.type, "kind": line.kind, "object": line.object}
        for line in base.of_kind("Pod")
    ]
    evidence = recordings.evidence_of([*lines, {**log, "line": f"GPUCONF1 {json.dumps(told)}"}])
    finding = findings(evidence, "HLT-004")["HLT-004"]
    assert str(finding.verdict) == case["expected"]["rows"]["HLT-004"]
    assert "tune-0/main was granted 1 and can reach 0" in finding.observed
    assert "/dev/nvidia0 does not open" in finding.observed
    assert "gpu-13" in finding.where[0]
