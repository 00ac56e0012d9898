"""States that are no good news: gates, quotas of the namespace, members taken away, phases that are not known."""

from typing import Any

from tests.diagnose.building import Cluster, ago
from tests.diagnose.reckoned_rooms import FINE, Row, gang, hold, room


def waits_rightly() -> Cluster:
    """Return a gang whose room is taken, with all that a look can show."""
    cluster = gang(hold(room(), 8), 3, 8)
    cluster.event(
        cluster.of("PodGroup")[-1], "Unschedulable", "3/3 tasks in gang unschedulable: pod group is not ready"
    )
    return cluster


def _runs(**more: Any) -> Cluster:
    cluster = room()
    cluster.gang(3, 8, at=("n0", "n1", "n2"), **more)
    cluster.event(cluster.of("Pod")[1], "Scheduled", "Successfully assigned", kind="Normal")
    return cluster


def _told(kind: str, status: str, reason: str = "", message: str = "") -> Cluster:
    """Return a gang that runs, with a condition of one of its pods."""
    cluster = _runs()
    told = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(50),
    }
    cluster.of("Pod")[2]["status"]["conditions"].append(told)
    return cluster


def _gated(name: str) -> Cluster:
    text = "Scheduling is blocked due to non-empty scheduling gates"
    return gang(
        room(),
        3,
        4,
        message=text,
        spec={"schedulingGates": [{"name": name}]},
        pod={"reason": "SchedulingGated"},
    )


def _odd_phase() -> Cluster:
    cluster = _runs()
    cluster.of("Pod")[2]["status"]["phase"] = "Unknown"
    return cluster


def _ill_node() -> Cluster:
    cluster = _runs()
    told = {"type": "GPUXidError", "status": "True", "reason": "Xid48", "message": "double bit ECC error"}
    cluster.of("Node")[0]["status"]["conditions"].append(told)
    return cluster


def _well_node() -> Cluster:
    cluster = _runs()
    well = [("KernelDeadlock", "False"), ("ContainerRuntimeUnhealthy", "False"), ("GpuHealthy", "True")]
    told = [{"type": kind, "status": status, "reason": "x", "message": "no problem"} for kind, status in well]
    cluster.of("Node")[0]["status"]["conditions"] += told
    return cluster


def _unmade(text: str) -> Cluster:
    cluster = room()
    cluster.gang(3, 4, made=2)
    return _failed(cluster, text)


def _failed(cluster: Cluster, text: str) -> Cluster:
    cluster.event(cluster.of("Job")[0], "FailedCreate", text, by="vc-controller-manager")
    return cluster


QUOTA = (
    'pods "train-worker-2" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=4, used: '
)
QUOTA += "requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8"


def _quota_without_event() -> Cluster:
    cluster = room()
    cluster.gang(3, 4, made=2)
    amounts = {"requests.nvidia.com/gpu": "8"}
    cluster.add({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "ml"},
        "spec": {"hard": amounts}, "status": {"hard": amounts, "used": amounts},
    })  # fmt: skip
    return cluster


def _claims() -> Cluster:
    named = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "lost")]
    text = "0/3 nodes are unavailable: 3 pod has unbound immediate PersistentVolumeClaims."
    cluster = gang(room(), 3, 4, spec={"volumes": named}, message=text)
    claim = cluster.add({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "ml"},
        "spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"},
    })  # fmt: skip
    cluster.event(
        claim, "ProvisioningFailed", 'storageclass "fast" not found', by="persistentvolume-controller"
    )
    return cluster


STATES: dict[str, Row] = {
    "a gang with scheduling gates": (
        lambda: _gated("acme.io/wait"), "trouble", "gated", ["acme.io/wait", "3 of 3 pods"], [*FINE, "would fit"],
    ),
    "a gang that Kueue gates": (
        lambda: _gated("kueue.x-k8s.io/admission"), "trouble", "gated", ["wait for Kueue", "Workload"], FINE,
    ),
    "a quota of the namespace": (
        lambda: _unmade(QUOTA), "trouble", "quota", ["ResourceQuota team", "requests.nvidia.com/gpu=8"],
        [*FINE, "would fit"],
    ),
    "a quota of the namespace, of which no event is left": (
        _quota_without_event, "trouble", "quota", ["ResourceQuota team", "8 of 8 requests.nvidia.com/gpu"], FINE,
    ),
    "a volume claim, with what is known of it": (
        _claims, "trouble", "no-node-volume",
        ["data is Pending (storage class fast)", "not found", "lost does not exist"], FINE,
    ),
    "a limit range of the namespace": (
        lambda: _unmade('pods "x" is forbidden: maximum nvidia.com/gpu usage per Pod is 2, but limit is 4'),
        "trouble", "pods-refused", ["maximum nvidia.com/gpu usage per Pod is 2"], FINE,
    ),
    "it runs": (_runs, "healthy", "", ["healthy, as far as can be seen", "no logs"], ["cause"]),
    "it runs on nodes that report nothing ill": (_well_node, "healthy", "", [], ["Unhealthy", "cause"]),
    "it runs, and a member is preempted": (
        lambda: _told("DisruptionTarget", "True", "PreemptionByScheduler", "a pod of higher priority"), "trouble",
        "disrupted", ["train-worker-1 is being taken away", "PreemptionByScheduler", "priorityClassName"], FINE,
    ),
    "it runs, and a member's node is drained": (
        lambda: _told("DisruptionTarget", "True", "EvictionByEvictionAPI"), "trouble", "disrupted",
        ["EvictionByEvictionAPI", "drains"], FINE,
    ),
    "it runs, and was to be disrupted once": (
        lambda: _told("DisruptionTarget", "False", "x"), "healthy", "", [], ["taken away"],
    ),
    "it runs, and a member is not Ready": (
        lambda: _told("Ready", "False", "ContainersNotReady"), "unclear", "not-understood", ["not Ready"], FINE[:2],
    ),
    "it runs, with a condition that is not known": (
        lambda: _told("acme.io/Fenced", "True", "Ops", "fenced"), "unclear", "not-understood", ["acme.io/Fenced=True"],
        FINE[:2],
    ),
    "it runs, and a pod's phase is not known": (
        _odd_phase, "unclear", "not-understood", ["phase 'Unknown' of train-worker-1"], FINE[:2],
    ),
    "it runs, and the Job's phase is not known": (
        lambda: _runs(phase="Quarantined"), "unclear", "not-understood", ["Quarantined"], FINE[:2],
    ),
    "it runs, and the PodGroup's phase is not known": (
        lambda: _runs(group="Frozen"), "unclear", "not-understood", ["Frozen"], FINE[:2],
    ),
    "it runs on a node that reports an error": (
        _ill_node, "unclear", "node-complains", ["n0", "double bit ECC"], FINE[:2],
    ),
}  # fmt: skip
"""Situation -> how it is made, state, code of the first cause, what must be named, what must not."""
