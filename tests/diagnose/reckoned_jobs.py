"""Jobs of other kinds that wait: behind Kueue, batch Jobs, native gangs, pods without a gang."""

from typing import Any

from tests.diagnose.building import GPU, Cluster, Obj, ago
from tests.diagnose.reckoned_rooms import FINE, Row, hold, room

KUEUE = "kueue.x-k8s.io/v1beta1"
NEVER = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor f, previously considered "
    "podsets requests (0) + current podset request (12) > maximum capacity (8)"
)
LATER = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor f, 4 more "
LATER += "needed"
LACKS = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption "
LACKS += "victims found for incoming pod."


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


DENIED = 'running Bind plugin: pods "solo" is forbidden: User "system:kube-scheduler" cannot create resource '
DENIED += '"pods/binding" in API group "" in the namespace "ml"'


def _deactivated() -> Cluster:
    cluster = _held("The workload is deactivated", "64")
    cluster.of("Workload")[0]["spec"]["active"] = False
    return cluster


def _pod_group() -> Cluster:
    cluster = room()
    for number in range(3):
        cluster.pod(
            f"g-{number}", 1, scheduler="default-scheduler", message="blocked", reason="SchedulingGated",
            annotations={"kueue.x-k8s.io/pod-group-total-count": "4"},
            spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
        )  # fmt: skip
    return cluster


JOBS: dict[str, Row] = {
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
    "Kueue: deactivated": (
        _deactivated, "trouble", "quota-queue", ["is deactivated", '"active":true'], FINE,
    ),
    "Kueue: a pod group that is not whole": (
        _pod_group, "trouble", "gated-incomplete", ["all 4 pods", "3 exist"], FINE,
    ),
    "a pod whose scheduler may not bind": (
        lambda: _plain(4, DENIED, reason="SchedulerError"), "trouble", "scheduler-denied",
        ["system:kube-scheduler may not create pods/binding"], [*FINE, "volcano"],
    ),
    "a pod of which the scheduler spoke long ago": (
        lambda: _plain(4, told=480), "trouble", "fits-and-waits", ["last word about it is 480 s old"], FINE,
    ),
}  # fmt: skip
"""Situation -> how it is made, state, code of the first cause, what must be named, what must not."""
