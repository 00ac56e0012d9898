"""More of each kind of trouble: how it is planted, state and code of the first cause, what is named and what is not."""

from collections.abc import Callable
from typing import Any

from tests.diagnose.planting import GPU, Dump

Plant = Callable[[], Dump]
Obj = dict[str, Any]


def _waiting(*gpus: int, text: str = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.") -> Dump:
    """Return a gang of four pods of 4 GPUs that waits, on nodes of so many."""
    dump = Dump().nodes(*gpus).queue().held()
    return dump.unbind(*dump.pods, message=text).drop("Event").later()


def _node(dump: Dump, number: int) -> Obj:
    return dump.of("Node")[number - 1]


# -- members that nobody makes ---------------------------------------------------------------------------------------


def _controller_makes_none() -> Dump:
    dump = Dump().queue().nodes(8, 8).held()
    return dump.drop("Pod", "Event").later()


def _controller_makes_some() -> Dump:
    dump = _waiting(8, 8)
    dump.objects = [o for o in dump.objects if o["metadata"]["name"] != "torch-worker-2"]
    return dump.drop("Event")


def _operator_makes_some() -> Dump:
    dump = _controller_makes_some()
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "name": "torch",
        "uid": "ptj",
        "controller": True,
    }
    for obj in (*dump.pods, dump.group):
        obj["metadata"]["ownerReferences"] = [owner]
        obj["metadata"]["labels"] = {}
    return dump.drop("Job")


def _still_being_made() -> Dump:
    dump = _controller_makes_some()
    for obj in (*dump.pods, dump.group, dump.job):
        obj["metadata"]["creationTimestamp"] = dump.ago(3)
    return dump.unbind(*dump.pods)


# -- nodes -----------------------------------------------------------------------------------------------------------


def _not_ready() -> Dump:
    dump = _waiting(8, 8)
    told = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting",
    }
    _node(dump, 2)["status"]["conditions"] = [told]
    return dump


def _reserved() -> Dump:
    dump = _waiting(8, 8)
    _node(dump, 1)["spec"]["taints"] = [{"key": "team", "value": "vision", "effect": "NoSchedule"}]
    return dump


def _cordoned_amd() -> Dump:
    dump = Dump().nodes(8, 8, resource="amd.com/gpu").queue().held()
    for spec in (dump.task(0), dump.task(1), *(p["spec"] for p in dump.pods)):
        spec["containers"][0]["resources"] = {"limits": {"amd.com/gpu": "4"}}
    _node(dump, 2)["spec"]["unschedulable"] = True
    told = {
        "type": "GpuHealth",
        "status": "False",
        "reason": "RasErrors",
        "message": "uncorrectable errors on GPU 3",
    }
    _node(dump, 2)["status"]["conditions"].append(told)
    return (
        dump.unbind(*dump.pods, message="0/2 nodes are available: 1 Insufficient amd.com/gpu.")
        .drop("Event")
        .later()
    )


def _cordoned_without_gpus() -> Dump:
    dump = _room_taken()
    dump.add({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "login", "uid": "login"},
        "spec": {"unschedulable": True}, "status": {"allocatable": {"cpu": "8"}},
    })  # fmt: skip
    return dump


def _room_taken() -> Dump:
    dump = _waiting(8, 8)
    for number in (1, 2):
        dump.add({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"big-{number}", "namespace": "b", "uid": f"big{number}"},
            "spec": {"nodeName": f"node-{number}", "containers": [{"name": "c", "resources": {"limits": {GPU: "8"}}}]},
            "status": {"phase": "Running"},
        })  # fmt: skip
    return dump


def _tolerated() -> Dump:
    dump = _room_taken()
    _node(dump, 1)["spec"]["taints"] = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    for pod in dump.pods:
        pod["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]
    return dump


def _ill_without_holder() -> Dump:
    dump = _waiting(8, 8)
    _node(dump, 2)["status"]["allocatable"][GPU] = "7"
    return dump


def _member_holds_ill(health: str) -> Plant:
    def plant() -> Dump:
        dump = Dump()
        held = [{"name": GPU, "resources": [{"resourceID": "GPU-9a", "health": health}]}]
        dump.workers[1]["status"]["containerStatuses"][0]["allocatedResourcesStatus"] = held
        return dump

    return plant


# -- queues ----------------------------------------------------------------------------------------------------------


def _queue_promised(named: str, key: str) -> Plant:
    def plant() -> Dump:
        text = f"queue resource quota insufficient{named}"
        dump = Dump().refuse(text).queue(capability={"cpu": "1000", key: "4"}).nodes(8, 8, 8, 8)
        dump.of("Queue")[0]["status"]["allocated"] = {key: "2"}
        return dump.add({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {"name": "hog", "namespace": "b", "uid": "hog", "creationTimestamp": dump.ago(600)},
            "spec": {"minMember": 3, "queue": "default", "minResources": {key: "3"}}, "status": {"phase": "Inqueue"},
        })  # fmt: skip

    return plant


# -- the scheduler ---------------------------------------------------------------------------------------------------


def _spoke(dump: Dump, count: int, first: float, last: float, by: str = "volcano") -> Dump:
    dump.drop("Event")
    dump.event(dump.group, "Unschedulable", "3/4 tasks in gang unschedulable: pod group is not ready", by=by)
    told = dump.objects[-1]
    told |= {"count": count, "firstTimestamp": dump.ago(first), "lastTimestamp": dump.ago(last)}
    return dump


SCHEDULABLE = "pod group is not ready, 4 Pending, 4 minAvailable; Pending: 1 Unschedulable, 3 Schedulable"


def _stopped(count: int, last: float) -> Plant:
    return lambda: _spoke(_waiting(8, 8, text=SCHEDULABLE).later(last), count, last + count - 1, last)


def _other_name(mine: str, theirs: str) -> Plant:
    def plant() -> Dump:
        dump = Dump().queue().nodes(8, 8).held()
        for spec in (dump.task(0), dump.task(1)):
            spec["schedulerName"] = mine
        dump.job["spec"]["schedulerName"] = mine
        for pod in dump.pods:
            pod["spec"]["schedulerName"] = mine
        return _spoke(dump.unbind(*dump.pods).later(), 25, 100, 70, by=theirs)

    return plant


def _denied(text: str) -> Plant:
    def plant() -> Dump:
        dump = Dump().queue().nodes(8, 8).held()
        return dump.unbind(*dump.pods, message=text, reason="SchedulerError").drop("Event").later()

    return plant


def _controller_denied() -> Dump:
    dump = Dump().queue().held().drop("Pod", "Event")
    text = (
        "Error creating pods: pods is forbidden: User "
        '"system:serviceaccount:volcano-system:volcano-controllers" cannot '
        'create resource "pods" in API group "" in the namespace "ml"'
    )
    return dump.event(dump.job, "FailedCreate", text, by="vc-controller-manager")


# -- rendezvous ------------------------------------------------------------------------------------------------------


def _closed(*lines: str) -> Plant:
    def plant() -> Dump:
        dump = Dump()
        return dump.say(dump.workers[0], *lines).restart(dump.workers[0], 4, 1)

    return plant


# -- kubelets --------------------------------------------------------------------------------------------------------


def _rejected(reason: str, message: str, change: Callable[[Dump, Obj], None] | None = None) -> Plant:
    def plant() -> Dump:
        dump = Dump().nodes(8, 8)
        pod = dump.workers[0]
        pod["spec"]["nodeName"] = "node-2"
        pod["status"] = {"phase": "Failed", "reason": reason, "message": message, "startTime": dump.ago(500)}
        if change is not None:
            change(dump, pod)
        return dump

    return plant


AFFINITY = (
    "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
)


def _made_again(dump: Dump, pod: Obj) -> None:
    _node(dump, 2)["metadata"]["creationTimestamp"] = dump.ago(100)
    pod["spec"]["nodeSelector"] = {"pool": "a"}
    _node(dump, 2)["metadata"]["labels"] = {"pool": "a", "karpenter.sh/capacity-type": "spot"}


def _relabelled(dump: Dump, pod: Obj) -> None:
    _node(dump, 2)["metadata"] |= {"creationTimestamp": dump.ago(90000), "labels": {"pool": "b"}}
    pod["spec"]["nodeSelector"] = {"pool": "a"}


def _matches_now(dump: Dump, pod: Obj) -> None:
    _node(dump, 2)["metadata"] |= {"creationTimestamp": dump.ago(90000), "labels": {"pool": "a"}}
    pod["spec"]["nodeSelector"] = {"pool": "a"}


def _node_gone(dump: Dump, _pod: Obj) -> None:
    dump.objects.remove(_node(dump, 2))


LONG = "Allocate failed due to " + "rpc error: code = Unknown desc = wrapped: " * 12


# -- containers that never start -------------------------------------------------------------------------------------


def _start(message: str, reason: str = "StartError") -> Plant:
    def plant() -> Dump:
        dump = Dump().nodes(8, 8)
        pod = dump.workers[0]
        dump.end(pod, 128, reason=reason)
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = message
        return dump

    return plant


RUNC = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "


# -- GPUs ------------------------------------------------------------------------------------------------------------

WATCHDOG = (
    "[rank0]:[E1005 09:33:21.103 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600010 milliseconds"
)


def _gpu(*lines: str) -> Plant:
    def plant() -> Dump:
        dump = Dump()
        return dump.say(dump.master, "step 1", WATCHDOG).say(dump.workers[2], *lines).end(dump.workers[2], 1)

    return plant


def _watchdog_alone() -> Dump:
    dump = Dump()
    return dump.say(dump.master, "step 1", WATCHDOG)


def _warned(*lines: str) -> Plant:
    def plant() -> Dump:
        dump = Dump()
        return dump.say(dump.workers[0], *lines)

    return plant


# -- names -----------------------------------------------------------------------------------------------------------


def _secret(name: str) -> Plant:
    def plant() -> Dump:
        dump = Dump()
        dump.wait(dump.workers[0], "ContainerCreating")
        text = f'MountVolume.SetUp failed for volume "s" : {name} not found'
        return dump.event(dump.workers[0], "FailedMount", text, by="kubelet")

    return plant


Row = tuple[Plant, str, str, list[str], list[str]]

KINDS: dict[str, Row] = {
    "no member made": (
        _controller_makes_none, "trouble", "members-never-made",
        ["no pod was made", "vcjob/torch"], ["nothing is broken"],
    ),
    "one member not made": (
        _controller_makes_some, "trouble", "members-never-made",
        ["1 member was never made", "3 pods", "16 of 16"], ["nothing is broken"],
    ),
    "operator makes too few": (
        _operator_makes_some, "trouble", "members-never-made",
        ["minMember 4", "PyTorchJob/torch"], ["nothing is broken"],
    ),
    "members on their way": (_still_being_made, "starting", "", [], ["never made"]),
    "not Ready": (
        _not_ready, "trouble", "node-closed",
        ["node-2", "8 nvidia.com/gpu", "NodeStatusUnknown", "kubelet"], ["uncordon"],
    ),
    "reserved": (
        _reserved, "trouble", "no-node-taint",
        ["node-1", "team=vision:NoSchedule", "toleration"], ["node-2"],
    ),
    "cordoned AMD": (
        _cordoned_amd, "trouble", "node-closed",
        ["node-2", "RasErrors", "uncorrectable errors on GPU 3", "rocm-smi"], ["nvidia"],
    ),
    "cordoned login node": (_cordoned_without_gpus, "refused", "room-taken", ["big-1"], ["login"]),
    "tolerated taint": (_tolerated, "refused", "room-taken", ["big-1"], ["toleration"]),
    "device lost": (
        _ill_without_holder, "trouble", "device-ill",
        ["node-2 offers 7 of 8", "nvidia-smi"], ["nothing is broken"],
    ),
    "member on an ill device": (
        _member_holds_ill("Unhealthy"), "trouble", "device-ill",
        ["torch-worker-1", "GPU-9a", "Unhealthy"], [": healthy"],
    ),
    "member on an unknown device": (
        _member_holds_ill("Unknown"), "trouble", "device-ill",
        ["GPU-9a", "Unknown", "likely"], [": healthy"],
    ),
    "queue promised, unnamed": (
        _queue_promised("", "acme.io/tpu"), "trouble", "blocked-by-enqueued",
        ["5 of 4", "acme.io/tpu", "hog"], ["1000"],
    ),
    "queue promised, named": (
        _queue_promised(": insufficient hugepages-2Mi", "hugepages-2Mi"), "trouble", "blocked-by-enqueued",
        ["hugepages-2Mi", "hog"], [],
    ),
    "scheduler stopped": (
        _stopped(9, 70), "trouble", "scheduler-stopped",
        ["volcano has stopped", "every 1 s", "16 of 16"], ["nothing is broken"],
    ),
    "scheduler stopped long ago": (
        _stopped(20, 3000), "trouble", "scheduler-stopped",
        ["3000 s"], ["nothing is broken"],
    ),
    "scheduler muted by its events": (
        _stopped(25, 70), "trouble", "fits-and-waits",
        ["16 of 16"], ["has stopped", "nothing is broken"],
    ),
    "scheduler spoke just now": (
        _stopped(9, 5), "trouble", "fits-and-waits",
        ["would fit"], ["has stopped", "nothing is broken"],
    ),
    "another name": (
        _other_name("volcano", "volcano-gpu"), "trouble", "scheduler-unknown",
        ["no scheduler called volcano answers", "volcano-gpu"], [],
    ),
    "another name of ours": (
        _other_name("batch", "volcano"), "trouble", "scheduler-name",
        ["batch", "volcano"], [],
    ),
    "may not patch pods": (
        _denied('User "system:serviceaccount:kube-system:vc" cannot patch resource "pods/status" in API group '
                '"" at the cluster scope; failed to bind'),
        "trouble", "scheduler-denied",
        ["may not patch pods/status in the cluster", "--subresource=status"], ["nothing is broken"],
    ),
    "may not bind claims": (
        _denied('failed to bind: resourceclaims.resource.k8s.io "c" is forbidden: User "vc" cannot update '
                'resource "resourceclaims/status" in API group "resource.k8s.io" in the namespace "ml"'),
        "trouble", "scheduler-denied", ["resourceclaims.resource.k8s.io", ("--subresource=status -n ml "
                                                                          "--as=vc")], ["nothing is broken"],
    ),
    "bind fails": (
        _denied("failed to bind to node node-1: Operation cannot be fulfilled on pods/binding: pod is being deleted"),
        "trouble", "scheduler-denied", ["chose a node and could not bind it", "pod is being deleted"], ["RBAC", "nothing is broken"],
    ),
    "controller may not create pods": (
        _controller_denied, "trouble", "pods-refused",
        ["volcano-controllers may not create pods", "can-i create pods"], [],
    ),
    "closed, no id": (
        _closed("raise RendezvousClosedError()"), "trouble", "rendezvous-closed",
        ["fresh id"], ["time-out"],
    ),
    "closed, with id": (
        _closed("Rendezvous for run_id=none is closed"), "trouble", "rendezvous-closed",
        ["run id none"], ["time-out"],
    ),
    "timed out, not closed": (
        _closed("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"), "trouble", "rendezvous-timeout",
        ["time-out"], ["fresh id"],
    ),
    "node made again": (
        _rejected("NodeAffinity", AFFINITY, _made_again), "trouble", "kubelet-rejects",
        ["made again", "capacity-type", "delete the pod"], ["NUMA"],
    ),
    "node relabelled": (
        _rejected("NodeAffinity", AFFINITY, _relabelled), "trouble", "kubelet-rejects",
        ["pool=a"], ["made again", "NUMA"],
    ),
    "labels match": (
        _rejected("NodeAffinity", AFFINITY, _matches_now), "trouble", "kubelet-rejects",
        ["match now"], ["made again", "does not have it"],
    ),
    "node gone": (
        _rejected("NodeAffinity", AFFINITY, _node_gone), "trouble", "kubelet-rejects",
        ["not there any more"], ["made again"],
    ),
    "plugin does not answer": (
        _rejected("UnexpectedAdmissionError", LONG + "dial unix /var/lib/kubelet/device-plugins/gpu.sock: "
                                                     "connect: connection refused"),
        "trouble", "kubelet-rejects", ["does not answer its kubelet", "connection refused"], ["NUMA", "GPU is lost"],
    ),
    "fewer than counted": (
        _rejected("UnexpectedAdmissionError", "Allocate failed due to requested number of devices unavailable "
                                              "for nvidia.com/gpu. Requested: 4, Available: 3, which is unexpected"),
        "trouble", "kubelet-rejects", ["fewer free devices", "Requested: 4, Available: 3"], ["NUMA"],
    ),
    "unknown, at the end": (
        _rejected("UnexpectedAdmissionError", LONG + "the flux capacitor is discharged"), "trouble",
        "kubelet-rejects", ["flux capacitor is discharged"], ["NUMA"],
    ),
    "exec format": (
        _start(RUNC + "exec /usr/bin/python3: exec format error: unknown"), "trouble", "start-error",
        ["another processor", "exec format error"], ["read its log"],
    ),
    "CDI": (
        _start(RUNC + "unresolvable CDI devices nvidia.com/gpu=GPU-7"), "trouble", "start-error",
        ["CDI", "node"], ["read its log"],
    ),
    "no such command": (
        _start(RUNC + 'exec: "trian": executable file not found in $PATH'), "trouble", "start-error",
        ["trian", "not in the image"], ["read its log"],
    ),
    "runtime in other words": (
        _start("sandbox widget exploded: code 7", "ContainerCannotRun"), "trouble", "start-error",
        ["sandbox widget exploded"], ["read its log"],
    ),
    "Xid before a watchdog": (
        _gpu("[E1005 09:20:21.1 x.cpp:1] setting up", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."),
        "trouble", "gpu-error", ["torch-worker-2", "fallen off the bus", "13 minutes"], ["validate the fabric"],
    ),
    "HIP before a watchdog": (
        _gpu("[rank3]: RuntimeError: HIP error: unspecified launch failure"), "trouble", "gpu-error",
        ["rank 3", "HIP error"], ["validate the fabric"],
    ),
    "a program's own error": (
        _gpu("ValueError: shapes do not match"), "trouble", "nccl-stall",
        ["Watchdog"], ["a GPU"],
    ),
    "a watchdog alone": (_watchdog_alone, "trouble", "nccl-stall", ["Watchdog"], ["a GPU"]),
    "NCCL port down": (
        _warned("w:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error"), "trouble", "nccl-fatal",
        ["port error", "cable"], [": healthy"],
    ),
    "NCCL duplicate": (
        _warned("w:1:2 [0] init.cc:9 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device "
                "3b000"), "trouble", "nccl-fatal",
        ["same GPU"], [": healthy"],
    ),
    "NCCL of unknown meaning": (
        _warned("w:1:2 [0] foo.cc:9 NCCL WARN the widget is upside down"), "unclear", "nccl-warning",
        ["widget is upside down", "possible"], [": healthy"],
    ),
    "NCCL warned and went on": (
        _warned("w:1:2 [0] foo.cc:9 NCCL WARN the widget is upside down", "step 10 loss 2.1"), "healthy", "",
        ["widget"], [],
    ),
    "Secret absent": (
        _secret('secret "wandb-key"'), "trouble", "slow-start",
        ["Secret 'wandb-key'", "does not exist"], [],
    ),
    "ConfigMap absent": (
        _secret('configmap "conf"'), "trouble", "slow-start",
        ["ConfigMap 'conf'", "does not exist"], [],
    ),
    "claim absent": (
        _secret('persistentvolumeclaim "data"'), "trouble", "slow-start",
        ["PersistentVolumeClaim 'data'"], [],
    ),
}  # fmt: skip
"""Kind -> how it is planted, state, code of the first cause, what must be named, what must not."""
