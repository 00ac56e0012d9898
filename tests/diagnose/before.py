"""Ways in which a job hangs before its program starts: how each is planted, its code, what must be named."""

from collections.abc import Callable
from typing import Any

from tests.diagnose.planting import GPU, Dump

Plant = Callable[[], Dump]

INSUFFICIENT = "0/3 nodes are unavailable: 3 Insufficient nvidia.com/gpu."
QUOTA = (
    'pods "torch-worker-2" is forbidden: exceeded quota: team-cap, requested: requests.nvidia.com/gpu=4, '
    "used: requests.nvidia.com/gpu=12, limited: requests.nvidia.com/gpu=14"
)
SHORT_QUEUE = "queue resource quota insufficient: insufficient nvidia.com/gpu"
OVERUSED = "resource in cluster is overused: overused nvidia.com/gpu"


def _not_installed() -> Dump:
    dump = Dump().drop("Job", "PodGroup", "Pod", "Event", "Queue", "Service", "ConfigMap", "NetworkPolicy")
    status = {"reason": "NotFound", "message": "the server could not find the requested resource"}
    dump.extra.append({"type": "RESPONSE", "case": "api:Job.batch.volcano.sh", "code": 404, "status": status})
    return dump


def _controllers_down() -> Dump:
    dump = Dump().drop("PodGroup", "Pod", "Event", "Service", "ConfigMap", "NetworkPolicy")
    dump.job["status"] = {}
    return dump


def _unknown_plugin() -> Dump:
    dump = _controllers_down()
    return dump.event(dump.job, "PluginError", "failed to get plugin nosuch", by="vc-controller-manager")


def _webhook_down() -> Dump:
    dump = _controllers_down()
    text = (
        'Internal error occurred: failed calling webhook "mutatepod.volcano.sh": failed to call webhook: Post '
        '"https://volcano-admission-service.volcano-system.svc:443/pods/mutate": no endpoints available for service'
    )
    return dump.event(dump.job, "FailedCreate", text, by="vc-controller-manager")


def _scheduler_down() -> Dump:
    dump = Dump().drop("Pod", "Event")
    dump.group["status"] = {}
    dump.job["status"] = {"state": {"phase": "Pending"}}
    return dump


def _scheduler_in_template() -> Dump:
    dump = Dump()
    dump.task(1)["schedulerName"] = "default-scheduler"
    for pod in dump.workers:
        pod["spec"]["schedulerName"] = "default-scheduler"
    return dump.unbind(*dump.workers, message=INSUFFICIENT)


def _scheduler_in_job() -> Dump:
    dump = Dump()
    dump.job["spec"]["schedulerName"] = "default-scheduler"
    for pod in dump.pods:
        pod["spec"]["schedulerName"] = "default-scheduler"
    return dump.unbind(*dump.workers[1:], message=INSUFFICIENT)


def _scheduler_nobody_runs() -> Dump:
    dump = Dump()
    dump.task(0)["schedulerName"] = dump.task(1)["schedulerName"] = "mine"
    for pod in dump.pods:
        pod["spec"]["schedulerName"] = "mine"
    return dump.unbind(*dump.pods).drop("Event")


def _queue_closed() -> Dump:
    dump = Dump().queue("Closed")
    dump.group["status"] = {"phase": "Pending"}
    dump.job["status"] = {"state": {"phase": "Pending"}}
    return dump.drop("Pod", "Event")


def _queue_absent() -> Dump:
    dump = _queue_closed()
    dump.job["spec"]["queue"] = "defualt"
    return dump


def _over_capability() -> Dump:
    return Dump().refuse(SHORT_QUEUE).queue(capability={GPU: "8"}).nodes(8, 8, 8)


def _queue_full() -> Dump:
    return Dump().refuse(SHORT_QUEUE).queue(capability={GPU: "20"}, allocated="8").nodes(8, 8, 8)


def _over_cluster() -> Dump:
    return Dump().refuse(OVERUSED).queue().nodes(8, 4)


def _not_advertised() -> Dump:
    return (
        Dump()
        .refuse("queue resource quota insufficient: insufficient nvidia.com/gpu")
        .nodes(8, 8, resource="amd.com/gpu")
    )


def _misspelt() -> Dump:
    return Dump().refuse("resource in cluster is overused: overused nvidia.com/gpus").nodes(8, 8, 8)


def _blocked() -> Dump:
    dump = Dump().refuse(OVERUSED).queue().nodes(8, 8, 8)
    other: dict[str, Any] = {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "sweep-1", "namespace": "team-b", "uid": "sweep", "creationTimestamp": dump.ago(600)},
        "spec": {"minMember": 3, "queue": "default", "minResources": {GPU: "15"}}, "status": {"phase": "Inqueue"},
    }  # fmt: skip
    return dump.add(other)


def _room_taken() -> Dump:
    dump = Dump().refuse(OVERUSED).queue().nodes(8, 8)
    for number in (1, 2):
        dump.add({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"big-w-{number}", "namespace": "team-b", "uid": f"big{number}",
                         "creationTimestamp": dump.ago(900),
                         "labels": {"volcano.sh/job-name": "big", "volcano.sh/task-spec": "w"}},
            "spec": {"nodeName": f"node-{number}", "schedulerName": "volcano",
                     "containers": [{"name": "c", "resources": {"limits": {GPU: "8"}}}]},
            "status": {"phase": "Running"},
        })  # fmt: skip
    return dump


def _one_pod_too_large() -> Dump:
    dump = Dump().nodes(2, 2, 2, 2, 2, 2, 2, 2, 2).held()
    return dump.unbind(*dump.pods, message="0/9 nodes are unavailable: 9 Insufficient nvidia.com/gpu.")


def _tainted() -> Dump:
    dump = Dump().nodes(8, 8, 8, taint="team-b/reserved")
    text = "0/3 nodes are unavailable: 3 node(s) had untolerated taint {team-b/reserved: }."
    return dump.unbind(*dump.pods, message=text)


def _wrong_selector() -> Dump:
    text = "0/3 nodes are unavailable: 3 node(s) didn't match Pod's node affinity/selector."
    dump = Dump()
    return dump.unbind(*dump.pods, message=text)


def _volume_unbound() -> Dump:
    dump = Dump()
    return dump.unbind(*dump.pods, message="pod has unbound immediate PersistentVolumeClaims")


def _host_ports() -> Dump:
    dump = Dump()
    text = "0/3 nodes are unavailable: 3 node(s) didn't have free ports for the requested pod ports."
    return dump.held().unbind(*dump.pods, message=text)


def _over_quota() -> Dump:
    dump = Dump()
    dump.objects = [o for o in dump.objects if o["metadata"]["name"] != "torch-worker-2"]
    return dump.event(dump.job, "FailedCreate", f"Error creating pods: {QUOTA}", by="vc-controller-manager")


def _forbidden_by_policy() -> Dump:
    dump = Dump()
    dump.objects = [o for o in dump.objects if o["kind"] != "Pod"]
    text = 'Error creating pods: pods "torch-master-0" is forbidden: violates PodSecurity "restricted:latest"'
    return dump.event(dump.job, "FailedCreate", text, by="vc-controller-manager")


def _rejected(reason: str, message: str) -> Plant:
    def plant() -> Dump:
        dump = Dump()
        dump.workers[0]["status"] = {"phase": "Failed", "reason": reason, "message": message}
        return dump

    return plant


def _image(reason: str, message: str) -> Plant:
    def plant() -> Dump:
        dump = Dump()
        return dump.wait(dump.workers[1], reason, message, image="registry.example/team/train:v9")

    return plant


def _missing_secret() -> Dump:
    dump = Dump()
    return dump.wait(dump.master, "CreateContainerConfigError", 'secret "wandb" not found')


def _node_lost() -> Dump:
    dump = Dump().nodes(8, 8)
    dump.of("Node")[0]["status"]["conditions"] = [
        {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
        }
    ]
    return dump


def _stuck_mount() -> Dump:
    dump = Dump()
    dump.wait(dump.workers[0], "ContainerCreating")
    text = 'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32'
    return dump.event(dump.workers[0], "FailedMount", text, by="kubelet")


MODES: dict[str, tuple[Plant, str, list[str]]] = {
    "CRDs absent": (_not_installed, "api-absent", ["Job.batch.volcano.sh", "install Volcano"]),
    "controllers down": (_controllers_down, "controllers-silent", ["vc-controller-manager"]),
    "unknown plugin": (_unknown_plugin, "controller-error", ["PluginError", "nosuch"]),
    "webhook down": (_webhook_down, "webhook-silent", ["mutatepod.volcano.sh", "does not answer"]),
    "scheduler down": (_scheduler_down, "scheduler-silent", ["no phase", "volcano-system"]),
    "schedulerName in one template": (
        _scheduler_in_template, "scheduler-name", ["spec.tasks[1].template.spec.schedulerName", "worker", "1 of 4"],
    ),
    "schedulerName on the Job": (
        _scheduler_in_job, "scheduler-name", ["spec.schedulerName of Job torch is default-scheduler", "2 of 4"],
    ),
    "a scheduler that nobody runs": (_scheduler_nobody_runs, "scheduler-name", ["names mine", "task worker"]),
    "queue closed": (_queue_closed, "queue-closed", ["Closed", "open it"]),
    "queue absent": (_queue_absent, "queue-absent", ["'defualt'", "did you mean 'default'"]),
    "over the queue's capability": (_over_capability, "over-capability", ["16 nvidia.com/gpu", "may have 8"]),
    "queue full": (_queue_full, "queue-full", ["may have 20", "8 are in use", "16"]),
    "larger than the cluster": (_over_cluster, "over-cluster", ["16 nvidia.com/gpu", "have 12"]),
    "resource not advertised": (_not_advertised, "resource-nowhere", [GPU, "GPU Operator", "amd.com/gpu"]),
    "resource misspelt": (_misspelt, "resource-nowhere", ["did you mean 'nvidia.com/gpu'"]),
    "blocked by an enqueued gang": (_blocked, "blocked-by-enqueued", ["sweep-1", "team-b", "15 nvidia.com/gpu", "24"]),
    "room taken": (_room_taken, "room-taken", ["big", "16"]),
    "one pod larger than a node": (_one_pod_too_large, "member-too-large", ["4 nvidia.com/gpu", "more than 2"]),
    "taint": (_tainted, "no-node-taint", ["team-b/reserved", "toleration"]),
    "selector": (_wrong_selector, "no-node-selector", ["nodeSelector"]),
    "volume": (_volume_unbound, "no-node-volume", ["pvc"]),
    "host ports": (_host_ports, "no-node-ports", ["hostNetwork"]),
    "ResourceQuota": (_over_quota, "quota", ["team-cap", "3 of 4 pods", "12"]),
    "pod security": (_forbidden_by_policy, "pods-refused", ["PodSecurity"]),
    "topology": (
        _rejected("TopologyAffinityError", "Pod was rejected: Resources cannot be allocated with Topology locality"),
        "kubelet-rejects", ["TopologyAffinityError", "torch-worker-0", "NUMA node"],
    ),
    "device plugin": (
        _rejected("UnexpectedAdmissionError", "Allocate failed due to no healthy devices present; cannot allocate"),
        "kubelet-rejects", ["UnexpectedAdmissionError", "device plugin"],
    ),
    "two schedulers": (
        _rejected("OutOfnvidia.com/gpu", "Node didn't have enough resource"), "kubelet-rejects",
        ["two schedulers"],
    ),
    "image without rights": (
        _image("ImagePullBackOff", "pull access denied, 401 Unauthorized"), "image",
        ["registry.example/team/train:v9", "imagePullSecrets"],
    ),
    "image unknown": (
        _image("ErrImagePull", "manifest unknown: not found"), "image", ["tag or digest", "torch-worker-1"],
    ),
    "Secret absent": (_missing_secret, "start", ["CreateContainerConfigError", "wandb"]),
    "node lost": (_node_lost, "node-not-ready", ["node-1", "NodeStatusUnknown"]),
    "volume does not mount": (_stuck_mount, "slow-start", ["FailedMount", "exit status 32", "torch-worker-0"]),
}  # fmt: skip
"""Mode -> how it is planted, the code of the likeliest cause, what its text names."""
