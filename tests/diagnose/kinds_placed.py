"""More of each kind of trouble before a gang has its places: how it is planted, what is named and what is not."""

from collections.abc import Callable

from tests.diagnose.planting import GPU, Dump, Obj

Plant = Callable[[], Dump]


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


Row = tuple[Plant, str, str, list[str], list[str]]

KINDS: dict[str, Row] = {
    "no member made": (
        _controller_makes_none,
        "trouble",
        "members-never-made",
        ["no pod was created", "vcjob/torch"],
        ["nothing is broken"],
    ),
    "one member not made": (
        _controller_makes_some,
        "trouble",
        "members-never-made",
        ["1 member was never created", "3 pods", "16 of 16"],
        ["nothing is broken"],
    ),
    "operator makes too few": (
        _operator_makes_some,
        "trouble",
        "members-never-made",
        ["minMember 4", "PyTorchJob/torch"],
        ["nothing is broken"],
    ),
    "members on their way": (_still_being_made, "starting", "", [], ["never created"]),
    "not Ready": (
        _not_ready,
        "trouble",
        "node-closed",
        ["node-2", "8 nvidia.com/gpu", "NodeStatusUnknown", "kubelet"],
        ["uncordon"],
    ),
    "reserved": (
        _reserved,
        "trouble",
        "no-node-taint",
        ["node-1", "team=vision:NoSchedule", "toleration"],
        ["node-2"],
    ),
    "cordoned AMD": (
        _cordoned_amd,
        "trouble",
        "node-closed",
        ["node-2", "RasErrors", "uncorrectable errors on GPU 3", "rocm-smi"],
        ["nvidia"],
    ),
    "cordoned login node": (_cordoned_without_gpus, "refused", "room-taken", ["big-1"], ["login"]),
    "tolerated taint": (_tolerated, "refused", "room-taken", ["big-1"], ["toleration"]),
    "device lost": (
        _ill_without_holder,
        "trouble",
        "device-ill",
        ["node-2 offers 7 of 8", "nvidia-smi"],
        ["nothing is broken"],
    ),
    "member on an ill device": (
        _member_holds_ill("Unhealthy"),
        "trouble",
        "device-ill",
        ["torch-worker-1", "GPU-9a", "Unhealthy"],
        [": healthy"],
    ),
    "member on an unknown device": (
        _member_holds_ill("Unknown"),
        "trouble",
        "device-ill",
        ["GPU-9a", "Unknown", "likely"],
        [": healthy"],
    ),
    "queue promised, unnamed": (
        _queue_promised("", "acme.io/tpu"),
        "trouble",
        "blocked-by-enqueued",
        ["5 of 4", "acme.io/tpu", "hog"],
        ["1000"],
    ),
    "queue promised, named": (
        _queue_promised(": insufficient hugepages-2Mi", "hugepages-2Mi"),
        "trouble",
        "blocked-by-enqueued",
        ["hugepages-2Mi", "hog"],
        [],
    ),
    "scheduler stopped": (
        _stopped(9, 70),
        "trouble",
        "scheduler-stopped",
        ["volcano has stopped", "every 1 s", "16 of 16"],
        ["nothing is broken"],
    ),
    "scheduler stopped long ago": (
        _stopped(20, 3000),
        "trouble",
        "scheduler-stopped",
        ["3000 s"],
        ["nothing is broken"],
    ),
    "scheduler muted by its events": (
        _stopped(25, 70),
        "trouble",
        "fits-and-waits",
        ["16 of 16"],
        ["has stopped", "nothing is broken"],
    ),
    "scheduler spoke just now": (
        _stopped(9, 5),
        "trouble",
        "fits-and-waits",
        ["would fit"],
        ["has stopped", "nothing is broken"],
    ),
    "another name": (
        _other_name("volcano", "volcano-gpu"),
        "trouble",
        "scheduler-unknown",
        ["no scheduler called volcano answers", "volcano-gpu"],
        [],
    ),
    "another name of ours": (
        _other_name("batch", "volcano"),
        "trouble",
        "scheduler-name",
        ["batch", "volcano"],
        [],
    ),
    "may not patch pods": (
        _denied(
            'User "system:serviceaccount:kube-system:vc" cannot patch resource "pods/status" in API group '
            '"" at the cluster scope; failed to bind'
        ),
        "trouble",
        "scheduler-denied",
        ["may not patch pods/status in the cluster", "--subresource=status"],
        ["nothing is broken"],
    ),
    "may not bind claims": (
        _denied(
            'failed to bind: resourceclaims.resource.k8s.io "c" is forbidden: User "vc" cannot update '
            'resource "resourceclaims/status" in API group "resource.k8s.io" in the namespace "ml"'
        ),
        "trouble",
        "scheduler-denied",
        ["resourceclaims.resource.k8s.io", ("--subresource=status -n ml --as=vc")],
        ["nothing is broken"],
    ),
    "bind fails": (
        _denied(
            "failed to bind to node node-1: Operation cannot be fulfilled on pods/binding: pod is being deleted"
        ),
        "trouble",
        "scheduler-denied",
        ["chose a node but could not bind the pod", "pod is being deleted"],
        ["RBAC", "nothing is broken"],
    ),
    "controller may not create pods": (
        _controller_denied,
        "trouble",
        "pods-refused",
        ["volcano-controllers may not create pods", "can-i create pods"],
        [],
    ),
}
"""Kind -> how it is planted, state, code of the first cause, what must be named, what must not."""
