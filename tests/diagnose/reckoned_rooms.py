"""Clusters on which a gang waits: what nodes, queues and pods show, beside what the scheduler says."""

from collections.abc import Callable
from typing import Any

from tests.diagnose.building import GPU, Cluster, ago

Row = tuple[Callable[[], Cluster], str, str, list[str], list[str]]

SHORT = "0/{0} nodes are unavailable: {0} Insufficient {1}."
GANG = "pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Unschedulable, 2 Schedulable"
UNMATCHED = "0/3 nodes are unavailable: 3 node(s) didn't match Pod's node affinity/selector."
FINE = ["nothing is broken", "as it should", ": healthy"]
"""Good news: never of a job that cannot start, nor where it is not known."""


def room(nodes: int = 3, *, queue: dict[str, Any] | None = None, **node: Any) -> Cluster:
    """Return nodes of 8 GPUs, the queue default, and a pod of the system on a node that is not shown."""
    cluster = Cluster()
    cluster.queue(**(queue or {}))
    for number in range(nodes):
        cluster.node(f"n{number}", **node)
    return cluster.everywhere()


def gang(
    cluster: Cluster, members: int, gpus: int | str, *, lacks: str = GPU, counted: int = 3, **more: Any
) -> Cluster:
    """Let a gang wait because the scheduler says that a resource is short on so many nodes."""
    more.setdefault("message", SHORT.format(counted, lacks))
    cluster.gang(members, gpus, **more)
    return cluster


def hold(cluster: Cluster, gpus: int, nodes: int = 3, **more: Any) -> Cluster:
    """Let a gang of another namespace hold GPUs of every node."""
    for number in range(nodes):
        cluster.pod(f"big-{number}", gpus, node=f"n{number}", space="other", group="big", **more)
    cluster.group("big", nodes, "Running", space="other")
    return cluster


def _ask(**requests: str) -> dict[str, Any]:
    """Return the specification of a pod that asks for so much; `_` stands for a dash, `__` for a slash."""
    named = {key.replace("__", "/").replace("_", "-"): value for key, value in requests.items()}
    return {"containers": [{"name": "m", "resources": {"requests": named, "limits": named}}]}


def _ending(cluster: Cluster) -> Cluster:
    for pod in cluster.of("Pod"):
        if pod["metadata"]["name"].startswith("big"):
            pod["metadata"] |= {"deletionTimestamp": ago(3000), "deletionGracePeriodSeconds": 30}
    return cluster


def _affinity(key: str, *values: str, kind: str = "matchExpressions") -> dict[str, Any]:
    term = {kind: [{"key": key, "operator": "In", "values": list(values)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def _apart() -> dict[str, Any]:
    mine = {"matchLabels": {"volcano.sh/job-name": "train"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": mine}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _labelled(cluster: Cluster, number: int, **labels: str) -> Cluster:
    cluster.of("Node")[number]["metadata"]["labels"] |= labels
    return cluster


def _closed(*, ill: str = "", cpu: int = 96, gpus: int = 8) -> Cluster:
    """Return two nodes, the second cordoned."""
    cluster = Cluster()
    cluster.queue()
    cluster.node("n0", gpus, cpu=cpu)
    told = [{"type": "Ready", "status": "True"}]
    told += (
        [{"type": ill, "status": "True", "reason": "Xid79", "message": "GPU fell off the bus"}] if ill else []
    )
    cluster.node("n1", gpus, cpu=cpu, unschedulable=True, conditions=told)
    return cluster.everywhere()


def _roles(*, closed: bool) -> Cluster:
    """Return a Job of three workers with GPUs and two servers that ask for nodes of the pool `cpu`."""
    cluster = Cluster()
    cluster.queue()
    for number in range(3):
        cluster.node(f"n{number}", labels={"pool": "gpu"})
    if closed:
        cluster.node("c0", 0, labels={"pool": "cpu"}, unschedulable=True)
    text = "pod group is not ready, 5 Pending, 5 minAvailable; Pending: 3 Schedulable, 2 Unschedulable. "
    text += "Origin reason is train-ps-0: 0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector"
    cluster.gang(3, 8, message=text)
    (job,) = cluster.of("Job")
    spec = {**_ask(cpu="8"), "schedulerName": "volcano", "nodeSelector": {"pool": "cpu"}}
    job["spec"]["tasks"].append({"name": "ps", "replicas": 2, "template": {"spec": spec}})
    job["spec"]["minAvailable"] = cluster.of("PodGroup")[0]["spec"]["minMember"] = 5
    owner = cluster.of("Pod")[0]["metadata"]["ownerReferences"][0]
    for number in range(2):
        labels = {"volcano.sh/job-name": "train", "volcano.sh/task-spec": "ps"}
        cluster.pod(
            f"train-ps-{number}", 0, labels=labels, group="train-1", owner=owner, message=text, spec=spec
        )
    return cluster.everywhere()


def _only_this_namespace(cluster: Cluster) -> Cluster:
    cluster.objects = [o for o in cluster.objects if o["metadata"].get("namespace") != "kube-system"]
    return cluster


def _stale() -> Cluster:
    cluster = gang(room(), 3, 4, message=GANG, pod={"told": 90})
    cluster.event(
        cluster.of("PodGroup")[0],
        "Unschedulable",
        "3/3 tasks in gang unschedulable",
        first=100,
        last=65,
        count=9,
    )
    return cluster


def _with_cpu_node() -> Cluster:
    cluster = room()
    cluster.node("c0", 0, labels={"pool": "cpu"})
    return cluster


def _side(name: str, gpus: int, **more: Any) -> dict[str, Any]:
    amounts = {GPU: str(gpus)}
    return {"initContainers": [{"name": name, "resources": {"requests": amounts, "limits": amounts}, **more}]}


H200 = {"nodeSelector": {"gpu": "h200"}}
ROOMS: dict[str, Row] = {
    "it fits, and the scheduler says it does not": (
        lambda: gang(room(), 3, 4), "trouble", "fits-and-waits",
        ["24 of 24 nvidia.com/gpu are free, 12 are asked for", "although the scheduler lacks nvidia.com/gpu"], FINE,
    ),
    "it fits once others have completed": (
        lambda: gang(hold(room(), 8, phase="Succeeded"), 3, 8), "trouble", "fits-and-waits", ["24 of 24"], FINE,
    ),
    "the scheduler sees one node of three": (
        lambda: gang(room(), 3, 8, counted=1), "trouble", "scheduler-sees-fewer", ["looks at 1 of 3 nodes", "24 of 24"],
        FINE,
    ),
    "the scheduler sees one node, told of the gang": (
        lambda: gang(room(), 3, 8, message=f"{GANG}. Origin reason is train-worker-1: {SHORT.format(1, GPU)}"),
        "trouble", "scheduler-sees-fewer", ["looks at 1 of 3 nodes"], FINE,
    ),
    "a node that is not Ready is not counted": (
        lambda: gang(hold(_not_ready(), 8, 2), 2, 8, counted=2), "refused", "room-taken",
        ["PodGroup/big 16"], ["looks at"],
    ),
    "the scheduler died a minute ago": (
        _stale, "trouble", "scheduler-stopped", ["has been silent for 65 s", "24 of 24"], FINE,
    ),
    "the scheduler never said a word": (
        lambda: gang(room(), 3, 4, message=None), "trouble", "fits-and-waits", ["says nothing about the pods"], FINE,
    ),
    "only this namespace is known": (
        lambda: _only_this_namespace(gang(room(), 3, 8)), "unclear", "room-unknown",
        ["pods of other namespaces hold the rest", "kubectl get pods -A"], FINE,
    ),
    "no node is known": (
        lambda: gang(room(0), 3, 8), "refused", "no-room", ["without nodes in the evidence it is not known"],
        ["nothing is broken", "more than its queue"],
    ),
    "more than the cluster": (
        lambda: gang(room(), 5, 8), "refused", "over-cluster",
        ["will never start: it asks for 40 nvidia.com/gpu", "together have 24", "will never start as it is"], FINE,
    ),
    "more than the cluster, of another vendor": (
        lambda: gang(room(resource="amd.com/gpu"), 5, 8, resource="amd.com/gpu", lacks="amd.com/gpu"),
        "refused", "over-cluster", ["it asks for 40 amd.com/gpu", "together have 24"], [*FINE, "nvidia"],
    ),
    "more cpu than the cluster, and nothing is named": (
        lambda: gang(room(cpu=40), 4, 1, pod={"cpu": 32}, message=GANG), "refused", "over-cluster",
        ["it asks for 128 cpu", "together have 120"], FINE,
    ),
    "divided so that it never fits": (
        lambda: gang(room(), 4, 5), "refused", "over-cluster", ["3 usable nodes would take 3 of its 4 members"], FINE,
    ),
    "one node each, and too few nodes": (
        lambda: gang(room(), 5, 1, spec=_apart(), message="0/3 nodes are unavailable: 3 node(s) didn't match pod "
                                                          "anti-affinity rules."),
        "refused", "over-cluster", ["3 of its 5 members", "lets a node take only one"], FINE,
    ),
    "too few nodes match the selector": (
        lambda: gang(_labelled(room(), 0, gpu="h200"), 3, 8, spec=H200), "refused", "over-cluster",
        ["the nodes that take its pods (n0; 1 of 3) together have 8"], [*FINE, "no node matches"],
    ),
    "no node matches the selector, and some GPUs are taken": (
        lambda: gang(hold(room(), 4), 3, 4, spec=H200, message=UNMATCHED), "trouble", "no-node-selector",
        ["gpu=h200", "no node has the label gpu"], [*FINE, "room is taken"],
    ),
    "no node matches the affinity": (
        lambda: gang(room(), 3, 8, spec=_affinity("zone", "a"), message=UNMATCHED), "trouble", "no-node-selector",
        ["zone In a", "no node has the label zone"], FINE,
    ),
    "the node of its name is gone": (
        lambda: gang(room(), 1, 8, spec=_affinity("metadata.name", "n9", kind="matchFields"), message=UNMATCHED),
        "trouble", "no-node-selector", ["a node that does not exist", "n9"], FINE,
    ),
    "one role finds no node": (
        lambda: _roles(closed=False), "trouble", "no-node-selector", ["pool=cpu", "pool=gpu"], FINE,
    ),
    "the node of one role is cordoned": (
        lambda: _roles(closed=True), "trouble", "node-closed", ["c0", "uncordon c0", "3 of 5 members"], FINE,
    ),
    "a cordoned node, with its condition": (
        lambda: gang(_closed(ill="GpuUnhealthy"), 2, 8, counted=1), "trouble", "node-closed",
        ["n1 with 8 free of 8 nvidia.com/gpu is cordoned", "GpuUnhealthy=True", "fell off the bus"],
        [*FINE, "room is taken"],
    ),
    "a cordoned node without GPUs": (
        lambda: gang(_closed(cpu=16, gpus=0), 2, 0, pod={"cpu": 12}, lacks="cpu", counted=1), "trouble", "node-closed",
        ["n1 with 16 free of 16 cpu is cordoned"], [*FINE, "room is taken"],
    ),
    "every node is tainted": (
        lambda: gang(room(taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}]), 3, 8,
                     message="0/3 nodes are unavailable: 3 node(s) had untolerated taint {team: b}."),
        "trouble", "no-node-taint", ["n0", "team=b:NoSchedule", "toleration"], FINE,
    ),
    "taints that only advise": (
        lambda: gang(room(taints=[{"key": "team", "effect": "PreferNoSchedule"}]), 3, 8), "trouble", "fits-and-waits",
        ["24 of 24"], [*FINE, "taint"],
    ),
    "every device is unhealthy": (
        lambda: gang(room(healthy=0), 2, 8), "trouble", "device-ill", ["n0 offers 0 of 8"],
        [*FINE, "no node advertises", "more than its queue"],
    ),
    "one device a node is unhealthy": (
        lambda: gang(room(healthy=7), 3, 8), "trouble", "device-ill", ["n2 offers 7 of 8"], [*FINE, "will never start"],
    ),
    "no node has the MIG profile": (
        lambda: gang(room(), 3, 1, resource="nvidia.com/mig-1g.10gb", lacks="nvidia.com/mig-1g.10gb"),
        "trouble", "resource-nowhere", ["no node advertises nvidia.com/mig-1g.10gb", "nvidia.com/mig.config"],
        [*FINE, "did you mean", "GPU Operator"],
    ),
    "no node has the MIG profile, and nobody says so": (
        lambda: gang(room(), 3, 1, resource="nvidia.com/mig-3g.40gb", message=None), "trouble", "resource-nowhere",
        ["no node advertises nvidia.com/mig-3g.40gb"], FINE,
    ),
    "no node has the network device": (
        lambda: gang(room(), 2, 1, spec=_ask(nvidia_com__gpu="1", rdma__hca="1"), lacks="rdma/hca"),
        "trouble", "resource-nowhere", ["no node advertises rdma/hca", "rdma/*"], [*FINE, "GPU Operator"],
    ),
    "huge pages that no node has": (
        lambda: gang(room(), 2, 1, spec=_ask(cpu="1", hugepages_1Gi="4Gi"), lacks="hugepages-1Gi"),
        "refused", "over-cluster", ["8Gi hugepages-1Gi"], [*FINE, "8589934592"],
    ),
    "one pod with more cpu than a node": (
        lambda: gang(room(cpu=8), 1, 1, pod={"cpu": 32}, message=GANG), "refused", "member-too-large",
        ["one pod asks for 32 cpu", "more than 8"], FINE,
    ),
    "an init container with more than a node": (
        lambda: gang(room(), 1, 4, spec=_side("warm", 16)), "refused", "member-too-large",
        ["asks for 16 nvidia.com/gpu", "more than 8"], FINE,
    ),
    "a sidecar that makes it one too many": (
        lambda: gang(room(), 3, 8, spec=_side("agent", 1, restartPolicy="Always")), "refused", "member-too-large",
        ["asks for 9 nvidia.com/gpu", "more than 8"], FINE,
    ),
    "room taken": (
        lambda: gang(hold(room(), 8), 3, 8), "refused", "room-taken", ["PodGroup/big 24"],
        ["healthy", "nothing is broken"],
    ),
    "room taken by sidecars": (
        lambda: gang(hold(room(), 7, spec=_side("agent", 1, restartPolicy="Always")), 1, 1), "refused", "room-taken",
        ["PodGroup/big 24"], ["would fit"],
    ),
    "room held by pods that should have ended": (
        lambda: _ending(gang(hold(room(), 8), 3, 8)), "trouble", "room-held-by-ending",
        ["Pod/big-0 on n0", "should have ended", "finalizers"], FINE,
    ),
    "cpu taken": (
        lambda: gang(hold(room(), 0, cpu=80), 3, 8, pod={"cpu": 64}, lacks="cpu"), "refused", "room-taken",
        ["192 cpu", "PodGroup/big 240"], ["nothing is broken"],
    ),
    "a node that runs as many pods as it may": (
        lambda: gang(hold(room(1, pods=1), 0, 1), 1, 1, message="0/1 nodes are unavailable: 1 Too many pods."),
        "trouble", "no-node-pods", ["as many pods as they may"], [*FINE, "more than its queue"],
    ),
    "claims of devices": (
        lambda: gang(room(), 2, 0, message="0/3 nodes are unavailable: 3 cannot allocate all claims."), "trouble",
        "no-node-claim", ["resourceClaims", "resourceslices"], [*FINE, "nvidia", "device plugin"],
    ),
    "a volume claim that is not bound": (
        lambda: gang(room(), 3, 4, message="0/3 nodes are unavailable: 3 pod has unbound immediate "
                                           "PersistentVolumeClaims."),
        "trouble", "no-node-volume", ["kubectl get pvc"], FINE,
    ),
    "a volume of another zone": (
        lambda: gang(room(), 3, 4, message="0/3 nodes are unavailable: 3 node(s) had volume node affinity conflict."),
        "trouble", "no-node-volume", ["bound elsewhere"], [*FINE, "nodeSelector"],
    ),
    "spread constraints": (
        lambda: gang(room(), 3, 1, message="0/3 nodes are unavailable: 3 node(s) didn't match pod topology spread "
                                           "constraints."),
        "trouble", "no-node-apart", ["spread constraints"], FINE,
    ),
    "nominated, and waits for those that were preempted": (
        lambda: gang(hold(room(), 8), 1, 8, pod={"status": {"nominatedNodeName": "n0"}}), "refused", "room-taken",
        ["train-worker-0 on n0", "preempted pods"], ["nothing is broken"],
    ),
    "the selector matches nodes without GPUs": (
        lambda: gang(_with_cpu_node(), 3, 4, spec={"nodeSelector": {"pool": "cpu"}}), "trouble", "no-node-selector",
        ["(c0) have no nvidia.com/gpu"], FINE,
    ),
    "more memory than a node has left for pods": (
        lambda: gang(room(memory="527433728Ki"), 2, 1, spec=_ask(cpu="1", memory="512Gi"), lacks="memory"), "refused",
        "member-too-large", ["512Gi memory", "more than 503Gi"], FINE,
    ),
}  # fmt: skip
"""Situation -> how it is made, state, code of the first cause, what must be named, what must not."""


def _not_ready() -> Cluster:
    """Return two nodes with GPUs that are Ready, and one without GPUs that is not."""
    cluster = room(2)
    cluster.node("login", 0, conditions=[{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}])
    return cluster
