"""Jobs of other kinds, and states that are no good news: Kueue, native gangs, plain pods, gates, what is not known."""

from typing import Any

from tests.diagnose.building import GPU, Cluster, Obj, ago
from tests.diagnose.reckoned_rooms import FINE, Row, gang, hold, room

KUEUE = "kueue.x-k8s.io/v1beta1"
NEVER = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor f, previously considered "
    "podsets requests (0) + current podset request (12) > maximum capacity (8)"
)
LATER = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor f, 4 more "
LATER += "needed"
LACKS = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption "
LACKS += "victims found for incoming pod."


def waits_rightly() -> Cluster:
    """Return a gang whose room is taken, with all that a look can show."""
    cluster = gang(hold(room(), 8), 3, 8)
    cluster.event(
        cluster.of("PodGroup")[0], "Unschedulable", "3/3 tasks in gang unschedulable: pod group is not ready"
    )
    return cluster


# -- Kueue and batch Jobs --------------------------------------------------------------------------------------------


def _template(gpus: int) -> dict[str, Any]:
    amounts = {GPU: str(gpus)}
    return {"spec": {"containers": [{"name": "m", "resources": {"requests": amounts, "limits": amounts}}]}}


def _job(cluster: Cluster, queue: str = "lq", size: int = 3, *, suspend: bool = True) -> Obj:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return cluster.add({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "ml", "labels": labels},
        "spec": {"parallelism": size, "completions": size, "suspend": suspend, "template": _template(4)}, "status": {},
    })  # fmt: skip


def _queues(
    cluster: Cluster, nominal: str, reserved: str = "0", *, active: str = "True", cohort: str = ""
) -> None:
    resource = {"name": GPU, "nominalQuota": nominal}
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "f", "resources": [resource]}]}]
    told = {
        "type": "Active",
        "status": active,
        "reason": "Stopped",
        "message": "Can't admit new workloads: is stopped",
    }
    taken = [{"name": "f", "resources": [{"name": GPU, "total": reserved}]}]
    cluster.add({
        "apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "cq"},
        "spec": {"resourceGroups": groups, **({"cohort": cohort} if cohort else {})},
        "status": {"conditions": [told], "flavorsReservation": taken},
    })  # fmt: skip
    cluster.add({
        "apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "lq", "namespace": "ml"},
        "spec": {"clusterQueue": "cq"}, "status": {"conditions": [{"type": "Active", "status": "True"}]},
    })  # fmt: skip


def _held(
    text: str,
    nominal: str = "8",
    reserved: str = "0",
    *,
    queue: str = "lq",
    active: str = "True",
    cohort: str = "",
) -> Cluster:
    """Return a Job of 12 GPUs that Kueue does not admit."""
    cluster = room()
    _job(cluster, queue)
    _queues(cluster, nominal, reserved, active=active, cohort=cohort)
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": "job-ml-train",
        "controller": True,
    }
    told = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "Pending",
        "message": text,
        "lastTransitionTime": ago(300),
    }
    cluster.add({
        "apiVersion": KUEUE, "kind": "Workload",
        "metadata": {"name": "job-train-x", "namespace": "ml", "labels": {"kueue.x-k8s.io/job-uid": "job-ml-train"},
                     "ownerReferences": [owner]},
        "spec": {"queueName": queue, "podSets": [{"name": "main", "count": 3, "template": _template(4)}]},
        "status": {"conditions": [told]},
    })  # fmt: skip
    return cluster


def _cohort() -> Cluster:
    """Return a Job that its cohort could serve, but for what the others of it have reserved."""
    cluster = _held(LATER, "8", "0", cohort="all")
    other = {"name": GPU, "nominalQuota": "8"}
    cluster.add({
        "apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "cq2"},
        "spec": {"cohort": "all", "resourceGroups": [{"flavors": [{"name": "f", "resources": [other]}]}]},
        "status": {"flavorsReservation": [{"name": "f", "resources": [{"name": GPU, "total": "8"}]}]},
    })  # fmt: skip
    return cluster


def _by_hand() -> Cluster:
    cluster = room()
    _job(cluster, "")
    return cluster


def _single(*, taken: bool) -> Cluster:
    """Return a batch Job of one pod."""
    cluster = hold(room(), 8) if taken else room()
    _job(cluster, "", 1, suspend=False)
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": "job-ml-train",
        "controller": True,
    }
    labels = {"batch.kubernetes.io/job-name": "train"}
    cluster.pod("train-0", 4, scheduler="default-scheduler", labels=labels, owner=owner, message=LACKS)
    return cluster


# -- native gangs, pods without a gang -------------------------------------------------------------------------------


def _native(minimum: int, made: int, text: str) -> Cluster:
    cluster = room()
    cluster.add({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}}, "status": {},
    })  # fmt: skip
    for number in range(made):
        spec = {"schedulingGroup": {"podGroupName": "train"}}
        cluster.pod(f"train-{number}", 8, scheduler="default-scheduler", message=text, spec=spec)
    return cluster


def _plain(
    gpus: int, text: str | None = LACKS, *, scheduler: str = "default-scheduler", **more: Any
) -> Cluster:
    cluster = more.pop("cluster", None) or room()
    cluster.pod("solo", gpus, scheduler=scheduler, message=text, **more)
    return cluster


def _daemon() -> Cluster:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    owner = {"kind": "DaemonSet", "name": "ds", "uid": "ds", "controller": True}
    text = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
    return _plain(0, text, owner=owner, spec={"affinity": {"nodeAffinity": required}})


# -- what is no good news --------------------------------------------------------------------------------------------


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

STATES: dict[str, Row] = {
    "Kueue: more than the quota": (
        lambda: _held(NEVER), "refused", "quota-refused",
        ["will never be admitted", "asks for 12 nvidia.com/gpu", "may have 8", "will never start as it is"],
        ["nothing is broken", "wait for"],
    ),
    "Kueue: the quota is in use": (
        lambda: _held(LATER, "16", "8"), "refused", "quota-refused", ["4 more needed", "wait for the holders"],
        ["never"],
    ),
    "Kueue: the quota is free, and it is refused": (
        lambda: _held(LATER, "16", "0"), "trouble", "quota-contradicts",
        ["0 of 16 nvidia.com/gpu are reserved", "12 are"], FINE,
    ),
    "Kueue: refused for ever before the quota grew": (
        lambda: _held(NEVER, "64"), "trouble", "quota-contradicts", ["0 of 64", "may be old"], FINE,
    ),
    "Kueue: the cohort's other queue has it": (
        _cohort, "refused", "quota-refused", ["4 more needed"], ["has it", "never"],
    ),
    "Kueue: the ClusterQueue is stopped": (
        lambda: _held("ClusterQueue cq is inactive", "16", active="False"), "trouble", "quota-queue",
        ["ClusterQueue cq", "is stopped"], FINE,
    ),
    "Kueue: the LocalQueue does not exist": (
        lambda: _held("LocalQueue lp doesn't exist", queue="lp"), "trouble", "quota-queue",
        ["LocalQueue lp", "did you mean 'lq'"], FINE,
    ),
    "Kueue: words that are not known": (
        lambda: _held("waiting for the moon to rise", "64", "60"), "trouble", "quota-refused", ["moon"], FINE,
    ),
    "a Job suspended by hand": (
        _by_hand, "refused", "suspended-by-hand", ["spec.suspend is true", "kubectl patch jobs.batch"],
        ["nothing is broken", "healthy"],
    ),
    "a Job of one pod, room taken": (
        lambda: _single(taken=True), "refused", "room-taken", ["PodGroup/big 24"],
        ["minAvailable", "nothing is broken"],
    ),
    "a Job of one pod that would fit": (
        lambda: _single(taken=False), "trouble", "fits-and-waits", ["24 of 24", "kube-scheduler"], [*FINE, "volcano"],
    ),
    "native gang: more than the cluster": (
        lambda: _native(5, 5, "pod group is unschedulable, minCount (5) cannot be satisfied: 3 scheduled, 0 remaining"),
        "refused", "over-cluster", ["will never start", "together have 24"], [*FINE, "minAvailable", "volcano"],
    ),
    "native gang: a member never made": (
        lambda: _native(3, 2, "waiting for minCount (3) pods from a gang to appear in scheduling queue"), "trouble",
        "members-never-made", ["minCount 3", "2 pods exist"], FINE,
    ),
    "native gang: it fits": (
        lambda: _native(3, 3, "pod group is unschedulable, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"),
        "trouble", "fits-and-waits", ["24 of 24"], [*FINE, "volcano"],
    ),
    "a pod larger than any node": (
        lambda: _plain(16), "refused", "member-too-large", ["the pod solo asks for 16", "more than 8"],
        [*FINE, "the gang"],
    ),
    "a pod whose room is taken": (
        lambda: _plain(8, cluster=hold(room(), 8)), "refused", "room-taken", ["the pod solo asks for 8"],
        ["nothing is broken", "the gang"],
    ),
    "a pod that would fit": (
        lambda: _plain(4), "trouble", "fits-and-waits", ["the pod solo would fit"], [*FINE, "the gang"],
    ),
    "a pod that nobody speaks about": (
        lambda: _plain(4, None), "trouble", "scheduler-unknown", ["default-scheduler", "component=kube-scheduler"],
        [*FINE, "volcano"],
    ),
    "a pod of another scheduler, in its words": (
        lambda: _plain(4, "no fit in any node pool: 3 rejected", scheduler="kai-scheduler"), "trouble", "no-reason",
        ["no fit in any node pool"], [*FINE, "volcano"],
    ),
    "a pod of a DaemonSet whose node is gone": (
        _daemon, "trouble", "no-node-selector", ["n9", "DaemonSet"], [*FINE, "has the label metadata.name"],
    ),
    "a pod with a scheduling gate": (
        lambda: _plain(1, "blocked", reason="SchedulingGated", spec={"schedulingGates": [{"name": "acme.io/wait"}]}),
        "trouble", "gated", ["acme.io/wait"], FINE,
    ),
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
