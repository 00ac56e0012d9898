"""HLT-005: nodes that are kept back for their health."""

import json

import pytest

from pytest_gpucluster.evidence.objects import quarantines
from pytest_gpucluster.judge.health import quarantine
from pytest_gpucluster.requirement import Verdict
from tests import recordings
from tests.judge.inventory import cluster

SINCE = "2026-11-03T08:00:00Z"


def node(name="n1", *, labels=None, annotations=None, taints=(), conditions=(), cordoned=False):
    """Return a node with marks on it; a condition is (type, status)."""
    made = cluster.node(name, labels=labels, cordoned=cordoned)
    made["metadata"]["annotations"] = annotations or {}
    made["spec"]["taints"] = [dict(zip(("key", "value", "effect"), taint, strict=False)) for taint in taints]
    made["status"]["conditions"] += [
        {"type": kind, "status": status, "lastTransitionTime": SINCE} for kind, status in conditions
    ]
    return made


def decided(*nodes):
    """Return the finding on nodes as they are."""
    return quarantine.named_and_ending(cluster.evidence(*nodes))


NVSENTINEL = {
    "k8saas.nvidia.com/cordon-by": "NVSentinel",
    "k8saas.nvidia.com/cordon-timestamp": "2026-11-03T08-00-00Z",
}
EVENT = json.dumps([{"agent": "gpu-health-monitor", "checkName": "GpuInforomWatch", "isFatal": True}])
HYPERPOD = {"sagemaker.amazonaws.com/node-health-status": "UnschedulablePendingReplacement"}
FAULT = {"sagemaker.amazonaws.com/fault-types": "NvidiaErrorDoubleBit"}
CHECK = {"sagemaker.amazonaws.com/deep-health-check-status": "InProgress"}
OKE = [("oci.oraclecloud.com/node-auto-repair-scheduled", "true", "NoSchedule")]
GKE = {"cloud.google.com/fault-behavior": "PERFORMANCE"}
EVENTS = "quarantineHealthEvent"
TAINTS = "nfd.node.kubernetes.io/taints"
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
MAINTAINED = "cloud.google.com/active-node-maintenance"
STATE = "dgxc.nvidia.com/nvsentinel-state"
NFD = "feature.node.kubernetes.io/gpu-unhealthy"


@pytest.mark.parametrize(
    ("made", "system", "fault"),
    [
        (node(labels=NVSENTINEL, annotations={EVENTS: EVENT}, cordoned=True), "NVSentinel", "GpuInforom"),
        (node(labels={**HYPERPOD, **FAULT}), "SageMaker HyperPod", "NvidiaErrorDoubleBit"),
        (node(labels=HYPERPOD, conditions=[("AcceleratedHardwareReady", "False")]), "HyperPod", "AcceleratedHardware"),
        (node(labels={**HYPERPOD, **CHECK}), "SageMaker HyperPod", "check under way"),
        (node(taints=OKE, conditions=[("GPURowRemap", "True")]), "OKE node repair", "GPURowRemap"),
        (node(labels=GKE), "GKE faulty host report", "PERFORMANCE"),
        (node(cordoned=True, conditions=[("XIDErrors", "True")]), "AKS", "XIDErrors"),
        (node(taints=[(NFD, "true", "NoSchedule")], annotations={TAINTS: f"{NFD}=true:NoSchedule"}),
         "node feature discovery", "gpu-unhealthy"),
        (node(cordoned=True, labels={UPGRADE: "drain-required"}), "planned work", "uncordons"),
        (node(cordoned=True, labels={MAINTAINED: "ONGOING"}), "planned work", "GKE host"),
    ],
)  # fmt: skip
def test_a_quarantine_with_an_open_fault_is_named(made, system, fault):
    """By whom and for what stands in the finding; nothing is wrong with it."""
    found = decided(made, cluster.node("n2"))
    assert (found.verdict, system in found.observed, fault in found.observed) == (Verdict.PASS, True, True)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (node(cordoned=True), "nobody who says so"),
        (node(cordoned=True, conditions=[("XIDErrors", "False"), ("GPUMissing", "Unknown")]), "no fault is open"),
        (node(labels=NVSENTINEL, cordoned=True), "since 2026-11-03T08-00-00Z, and no fault is open"),
        (node(labels=HYPERPOD), "SageMaker HyperPod"),
        (node(labels={**HYPERPOD, "sagemaker.amazonaws.com/deep-health-check-status": "Passed"}), "no fault is open"),
        (node(taints=OKE, conditions=[("GPURowRemap", "False")]), "OKE node repair"),
        (node(taints=[(NFD, "true", "NoSchedule")], annotations={TAINTS: ""}), "node feature"),
        (node(labels={**GKE, "cloud.google.com/report-and-replace-status": "Error"}), "its repair failed"),
        (
            node(labels={**NVSENTINEL, STATE: "remediation-failed"}, conditions=[("GpuMemWatch", "True")]),
            "its repair failed",
        ),
    ],
)  # fmt: skip
def test_one_without_an_open_fault_or_without_an_end_is_reported(made, told):
    """Forgotten ones, and ones whose repair has failed; the node and the way out are named."""
    found = decided(made, cluster.node("n2"))
    assert (found.verdict, found.violation) == (Verdict.FAIL, True)
    assert told in found.observed
    assert found.causes[0].fix
    assert "n1" in found.where[0]


def test_nobody_is_kept_back():
    """Labels of healthy systems, of devices and of pools are no quarantine; nor is the taint of a dedicated node."""
    healthy = {"sagemaker.amazonaws.com/node-health-status": "Schedulable", "nvidia.com/gpu.present": "true",
               UPGRADE: "upgrade-done", "k8saas.nvidia.com/uncordon-by": "NVSentinel"}  # fmt: skip
    taints = [
        ("nvidia.com/gpu", "present", "NoSchedule"),
        ("node-role.kubernetes.io/control-plane", "", "NoSchedule"),
    ]
    found = decided(
        node(labels=healthy, taints=taints, conditions=[("XIDErrors", "False")]), cluster.node("n2")
    )
    assert (found.verdict, found.observed[:13]) == (Verdict.PASS, "none of 2 nodes"[:13])


def test_a_taint_of_an_unknown_system_leaves_it_undecided():
    """It speaks of a fault; where that is open nobody here knows."""
    found = decided(node(taints=[("example.org/gpu-broken", "yes", "NoSchedule")]))
    assert (found.verdict, found.causes) == (Verdict.INCONCLUSIVE, (quarantine.UNKNOWN,))


def test_a_fault_that_ended_while_it_was_watched_leaves_it_undecided():
    """The quarantine may be lifted in the next moment."""
    ill, well = (node(cordoned=True, conditions=[("XIDErrors", status)]) for status in ("True", "False"))
    lines = [{"t": t, "type": kind, "kind": "Node", "object": made} for t, kind, made in
             ((0.0, "ADDED", ill), (1.0, "MODIFIED", well))]  # fmt: skip
    found = quarantine.named_and_ending(recordings.evidence_of(lines, header={"given": cluster.TOLD}))
    assert (found.verdict, found.causes) == (Verdict.INCONCLUSIVE, (quarantine.LIFTING,))


@pytest.mark.parametrize("text", ["{", "[1, {}]", '{"checkName": null}', "<12 characters, 00ff00ff>"])
def test_an_annotation_that_cannot_be_read_is_an_open_fault_all_the_same(text):
    """Its system keeps it while the fault is open; its name is what stands there."""
    found = decided(node(labels=NVSENTINEL, annotations={EVENTS: text}, cordoned=True))
    assert found.verdict is Verdict.PASS
    assert EVENTS in found.observed


@pytest.mark.parametrize("text", ["", "[]", "null"])
def test_an_annotation_without_an_event_is_no_open_fault(text):
    """Its system has forgotten the fault and not the quarantine."""
    assert decided(node(labels=NVSENTINEL, annotations={EVENTS: text}, cordoned=True)).verdict is Verdict.FAIL


def test_the_shipped_table_is_whole():
    """Each entry says how it ends and where that is written; patterns compile, and kinds are known."""
    for entry in quarantines.table():
        assert entry["kind"] in ("health", "work")
        assert entry["ends"]
        assert entry["source"]
        for part in ("marks", "faults", "checks", "stuck"):
            for one in entry.get(part) or ():
                assert one["at"] in ("label", "taint", "annotation", "condition")
                assert quarantines._pattern(one["key"])
