"""Kinds of which only the message tells, not the reason's code: evictions, ends of containers, what a runtime says."""

from typing import Any

from tests.diagnose.kinds_started import Plant, Row, _rejected, _start
from tests.diagnose.planting import GPU, Dump, Obj

CTRD = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "


def _ended(
    code: int, reason: str = "Error", message: str = "", *, limits: bool = True, says: tuple[str, ...] = (),
    event: tuple[str, str] = ("", ""), disrupted: str = "",
) -> Plant:  # fmt: skip
    """Let a worker's container have ended, with what its status, its log, an event and a condition say of it."""

    def plant() -> Dump:
        dump = Dump()
        pod = dump.workers[0]
        dump.end(pod, code, reason=reason)
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = message
        box = pod["spec"]["containers"][0]
        box["resources"] = {"limits": {GPU: "1"} | ({"memory": "8Gi"} if limits else {})}
        if says:
            dump.say(pod, *says)
        if event[0]:
            dump.event(pod, *event, by="kubelet")
        if disrupted:
            reason_, _, text = disrupted.partition(": ")
            told = {"type": "DisruptionTarget", "status": "True", "reason": reason_, "message": text}
            pod["status"].setdefault("conditions", []).append(told)
        return dump

    return plant


def _two_ended(first: tuple[str, int], second: tuple[str, int], said: dict[str, str]) -> Plant:
    """Let two containers of a worker have ended: the first named is listed first and ended last."""

    def plant() -> Dump:
        dump = Dump()
        pod = dump.workers[0]
        dump.end(pod, 1)
        (kept,) = pod["status"]["containerStatuses"]
        pod["status"]["containerStatuses"] = [
            {
                **kept, "name": name,
                "state": {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": dump.ago(ago)}},
            }
            for (name, code), ago in ((first, 5.0), (second, 40.0))
        ]  # fmt: skip
        for name, text in said.items():
            pod["spec"]["containers"][0]["name"] = name
            dump.say(pod, text)
        return dump

    return plant


def _waits(reason: str, message: str, *events: tuple[str, str], image: str = "reg.example/t:1") -> Plant:
    """Let the container of a bound worker wait, with warnings about the pod."""

    def plant() -> Dump:
        dump = Dump().drop("Event").nodes(8, 8)
        pod = dump.workers[0]
        pod["spec"]["nodeName"] = "node-2"
        dump.wait(pod, reason, message, image=image)
        for why, text in events:
            dump.event(pod, why, text, by="default-scheduler" if why == "FailedScheduling" else "kubelet")
        return dump

    return plant


def _sidecar_runs() -> Dump:
    """A native sidecar goes on beside a container that is not made yet: it is no init container that hangs."""
    dump = Dump()
    pod = dump.workers[0]
    dump.wait(pod, "PodInitializing")
    pod["spec"]["initContainers"] = [{"name": "agent", "image": "a", "restartPolicy": "Always"}]
    running: dict[str, Any] = {"running": {"startedAt": dump.ago(90)}}
    pod["status"]["initContainerStatuses"] = [{"name": "agent", "state": running, "restartCount": 0}]
    return dump.event(
        pod, "FailedMount", 'MountVolume.SetUp failed for volume "d" : mount failed', by="kubelet"
    )


def _born_later(dump: Dump, pod: Obj) -> None:
    """The node is younger than the pod's bind and lacks what the pod asks for."""
    node = dump.of("Node")[1]
    node["metadata"] |= {"creationTimestamp": dump.ago(100), "labels": {"pool": "b"}}
    pod["spec"]["nodeSelector"] = {"pool": "a"}


LOW = "The node was low on resource: {0}. Threshold quantity: 100Mi, available: 40Mi. Container worker was using {1}. "
FREE = "free devices"

KINDS: dict[str, Row] = {
    "evicted: the node's disk": (
        _rejected("Evicted", LOW.format("ephemeral-storage", "45Gi, request is 0, has larger consumption of it")),
        "trouble", "kubelet-rejects", ["ephemeral-storage", "node-2", "worker", "45Gi"], ["memory"],
    ),
    "evicted: inodes": (
        _rejected("Evicted", "The node was low on resource: inodes. "),
        "trouble", "kubelet-rejects", ["inodes", "node-2"], ["memory"],
    ),
    "evicted: the node's memory": (
        _rejected("Evicted", LOW.format("memory", "61Gi, request is 8Gi")),
        "trouble", "kubelet-rejects", ["memory", "61Gi", "request"], ["disk", "ephemeral"],
    ),
    "evicted: process ids": (
        _rejected("Evicted", "The node was low on resource: pids. Threshold quantity: 1000, available: 12."),
        "trouble", "kubelet-rejects", ["process ids", "node-2"], ["memory", "disk"],
    ),
    "evicted: own limit of the container": (
        _rejected("Evicted", 'Container worker exceeded its local ephemeral storage limit "10Gi". '),
        "trouble", "kubelet-rejects", ["its own limit", "10Gi", "ephemeral-storage"], ["the node ran short"],
    ),
    "evicted: own limit of the pod": (
        _rejected("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 20Gi. "),
        "trouble", "kubelet-rejects", ["its own limit", "20Gi"], ["the node ran short"],
    ),
    "evicted: an emptyDir": (
        _rejected("Evicted", 'Usage of EmptyDir volume "cache" exceeds the limit "5Gi". '),
        "trouble", "kubelet-rejects", ["emptyDir cache", "sizeLimit", "5Gi"], ["the node ran short"],
    ),
    "evicted: a condition of the node": (
        _rejected("Evicted", "The node had condition: [DiskPressure]. "),
        "trouble", "kubelet-rejects", ["DiskPressure", "node-2"], ["raise its limit", "memory"],
    ),
    "evicted: a shutdown": (
        _rejected("Evicted", "Pod was evicted because the node is shutting down."),
        "trouble", "kubelet-rejects", ["shut down"], ["ran short", "requests"],
    ),
    "evicted: in words nobody knows": (
        _rejected("Evicted", "the flux budget of the rack was spent"),
        "trouble", "kubelet-rejects", ["flux budget"], ["ran short"],
    ),
    "terminated: not every end of that reason is a shutdown": (
        _rejected("Terminated", "Pod was terminated by the site's reaper"),
        "trouble", "kubelet-rejects", ["reaper"], ["the node was shut down"],
    ),
    "terminated: a shutdown": (
        _rejected("Terminated", "Pod was terminated in response to imminent node shutdown."),
        "trouble", "kubelet-rejects", ["shut down"], [],
    ),
    "out of cpu": (
        _rejected("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 8000, used: 95000, "
                  "capacity: 96000"),
        "trouble", "kubelet-rejects", ["8000", "95000", "96000", "cpu"], ["devices were lost", "nvidia"],
    ),
    "out of GPUs": (
        _rejected(f"OutOf{GPU}", f"Pod was rejected: Node didn't have enough resource: {GPU}, requested: 8, used: 4, "
                  "capacity: 8"),
        "trouble", "kubelet-rejects", ["requested: 8", "used: 4"], [],
    ),
    "ports of the node": (
        _rejected("NodePorts", "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports"),
        "trouble", "kubelet-rejects", ["hostPort", "node-2"], [],
    ),
    "too many pods": (
        _rejected("OutOfpods", "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 110, "
                  "capacity: 110"),
        "trouble", "kubelet-rejects", ["110", "maxPods"], ["devices were lost"],
    ),
    "NUMA, with its neighbour": (
        _rejected("TopologyAffinityError", "Pod was rejected: Resources cannot be allocated with Topology locality"),
        "trouble", "kubelet-rejects", ["one NUMA node", FREE], [],
    ),
    "unregistered device": (
        _rejected("UnexpectedAdmissionError", f"Allocate failed due to can't allocate unregistered device {GPU}, which "
                  "is unexpected"),
        "trouble", "kubelet-rejects", ["not registered", "device plugin", "node-2"], ["two schedulers"],
    ),
    "a request for shares": (
        _rejected("UnexpectedAdmissionError", "Allocate failed due to rpc error: code = Unknown desc = request for "
                  f"'{GPU}: 2' too large: maximum request size for shared resources is 1, which is unexpected"),
        "trouble", "kubelet-rejects", ["shared", "maximum request size"], ["two schedulers", "lost"],
    ),
    "a new node that lacks the label": (
        _rejected("NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed", _born_later),
        "trouble", "kubelet-rejects", ["pool=a", "node-2", "created again"], ["did not have the labels yet"],
    ),
    "killed: nothing says by whom": (
        _ended(137), "trouble", "member-failed",
        ["SIGKILL", "one of", "liveness", "grace period", "kubectl describe"], ["OOMKilled)"],
    ),
    "killed: a probe": (
        _ended(137, event=("Killing", "Container worker failed liveness probe, will be restarted")),
        "trouble", "member-failed", ["liveness probe"], ["memory"],
    ),
    "killed: preempted": (
        _ended(137, disrupted="PreemptionByScheduler: volcano: preempting to accommodate a higher priority pod"),
        "trouble", "member-failed", ["preempted", "higher priority"], ["memory"],
    ),
    "ended: by a drain": (
        _ended(143, disrupted="EvictionByEvictionAPI: Eviction API: evicting"),
        "trouble", "member-failed", ["drain"], ["read its log"],
    ),
    "ended: by a taint": (
        _ended(143, disrupted="DeletionByTaintManager: Taint manager: deleting due to NoExecute taint"),
        "trouble", "member-failed", ["NoExecute"], ["read its log"],
    ),
    "ended: nothing says by whom": (
        _ended(143), "trouble", "member-failed", ["SIGTERM", "one of"], [],
    ),
    "out of memory by its limit": (
        _ended(137, "OOMKilled"), "trouble", "member-failed", ["8Gi", "limit"], ["the node ran"],
    ),
    "out of memory without a limit": (
        _ended(137, "OOMKilled", limits=False), "trouble", "member-failed",
        ["OOMKilled", "no memory limit", "node"], ["than its limit"],
    ),
    "a kubelet that lost the container": (
        _ended(137, "ContainerStatusUnknown", "The container could not be located when the pod was terminated"),
        "trouble", "member-failed", ["could not be located"], ["SIGKILL", "memory"],
    ),
    "a bus error": (
        _ended(135), "trouble", "member-failed", ["SIGBUS", "/dev/shm", "one of"], [],
    ),
    "an illegal instruction": (
        _ended(132), "trouble", "member-failed", ["SIGILL", "processor"], [],
    ),
    "no permission, of which thing": (
        _ended(1, says=("PermissionError: [Errno 13] Permission denied: '/data/ckpt'",)),
        "trouble", "member-failed", ["/data/ckpt", "fsGroup"], [],
    ),
    "a path under /dev/shm is not too little of it": (
        _ended(1, says=("FileNotFoundError: [Errno 2] No such file or directory: '/dev/shm/idx.bin'",)),
        "trouble", "member-failed", ["/dev/shm/idx.bin", "missing"], ["too small"],
    ),
    "a disk that is full, by name": (
        _ended(1, says=("OSError: [Errno 28] No space left on device: '/scratch/x'",)),
        "trouble", "member-failed", ["/scratch/x", "full"], [],
    ),
    "shared memory that is full": (
        _ended(1, says=("OSError: [Errno 28] No space left on device: '/dev/shm/torch_1'",)),
        "trouble", "member-failed", ["/dev/shm", "medium Memory"], ["a disk is full"],
    ),
    "a program that says Connection refused is no image fault": (
        _ended(127), "trouble", "member-failed", ["127", "command was not found", "or"], [],
    ),
    "the first end counts, not the first in the list": (
        _two_ended(("proxy", 137), ("worker", 1), {"worker": "ValueError: bad shape", "proxy": "bye"}),
        "trouble", "member-failed", ["exit code 1", "bad shape"], ["SIGKILL"],
    ),
    "its own log counts, not its neighbour's": (
        _two_ended(("worker", 0), ("proxy", 3), {"worker": "CUDA out of memory", "proxy": "lost the relay"}),
        "trouble", "member-failed", ["exit code 3"], ["GPU's memory"],
    ),
    "a new CUDA under an old driver": (
        _start(CTRD + "error running prestart hook #0: exit status 1, stderr: nvidia-container-cli: requirement error: "
               "unsatisfied condition: cuda>=12.8, please update your driver to a newer version, or use an earlier "
               "cuda container: unknown"),
        "trouble", "start-error", ["driver", "too old for the image", "cuda>=12.8"], ["toolkit"],
    ),
    "a GPU that is not there": (
        _start(CTRD + "nvidia-container-cli: device error: GPU-11: unknown device: unknown"),
        "trouble", "start-error", ["unknown device", "node"], ["read its log"],
    ),
    "a path with rocm in it": (
        _start(CTRD + 'exec: "/opt/rocm/bin/trian": stat /opt/rocm/bin/trian: no such file or directory: unknown'),
        "trouble", "start-error", ["not in the image"], ["its GPU"],
    ),
    "an init process killed for memory": (
        _start(CTRD + "container init was OOM-killed (memory limit too low?): unknown"),
        "trouble", "start-error", ["too small", "memory"], [],
    ),
    "a cgroup that cannot be made": (
        _start(CTRD + "unable to apply cgroup configuration: mkdir /sys/fs/cgroup/kubepods/x: no space left on device"),
        "trouble", "start-error", ["cgroup"], ["limits are too small"],
    ),
    "the runtime's disk is full": (
        _start("failed to create containerd task: failed to start shim: write /run/containerd/x: no space left on "
               "device: unknown"),
        "trouble", "start-error", ["full", "node"], ["mount of the container"],
    ),
    "an image whose name has room in it": (
        _start("bathroom model server: unknown failure 7"),
        "trouble", "start-error", ["unknown failure 7"], ["limits are too small"],
    ),
    "a taken container name": (
        _waits("CreateContainerError", 'failed to reserve container name "worker_1": name "worker_1" is reserved for '
               '"ab12"'),
        "trouble", "start", ["still", "reserved for", "containerd"], ["mount"],
    ),
    "a key that a ConfigMap lacks": (
        _waits("CreateContainerConfigError", "couldn't find key lr in ConfigMap ml/conf"),
        "trouble", "start", ["key 'lr'", "ConfigMap"], ["command that the image lacks"],
    ),
    "root where root is forbidden": (
        _waits("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
        "trouble", "start", ["runAsUser", "root"], ["ConfigMap or Secret that does not exist"],
    ),
    "a user without a number": (
        _waits("CreateContainerConfigError", "container has runAsNonRoot and image has non-numeric user (app), cannot "
               "verify user is non-root"),
        "trouble", "start", ["runAsUser", "app"], [],
    ),
    "a start that nobody knows": (
        _waits("CreateContainerError", "the flux capacitor is discharged"),
        "trouble", "start", ["flux capacitor"], ["mount of", "is not in the image"],
    ),
    "an image that may not exist": (
        _waits("ImagePullBackOff", "pull access denied, repository does not exist or may require authorization: "
               "server message: insufficient_scope: authorization failed"),
        "trouble", "image", ["does not exist", "pull secret", "or"], [],
    ),
    "an image without this architecture": (
        _waits("ErrImagePull", "no match for platform in manifest: not found"),
        "trouble", "image", ["architecture"], ["correct the image's name"],
    ),
    "a registry that limits pulls": (
        _waits("ErrImagePull", "429 Too Many Requests - Server message: toomanyrequests: You have reached your pull "
               "rate limit"),
        "trouble", "image", ["rate"], ["correct the image's name"],
    ),
    "a node whose disk is full": (
        _waits("ErrImagePull", "failed to extract layer sha256:aa: write /usr/lib/libx.so: no space left on device"),
        "trouble", "image", ["disk", "node-2"], ["registry does not have"],
    ),
    "an image whose digest has 404 in it": (
        _waits("ErrImagePull", "failed to copy: httpReadSeeker: dial tcp 10.0.0.9:443: i/o timeout",
               image="reg.example/t@sha256:a404f1401"),
        "trouble", "image", ["reach the registry"], ["does not have it"],
    ),
    "a back-off whose event says why": (
        _waits("ImagePullBackOff", 'Back-off pulling image "reg.example/t:1"',
               ("Failed", 'Failed to pull image "reg.example/t:1": x509: certificate signed by unknown authority')),
        "trouble", "image", ["certificate", "x509"], ["pull secrets"],
    ),
    "a back-off of which nothing says why": (
        _waits("ImagePullBackOff", 'Back-off pulling image "reg.example/t:1"'),
        "trouble", "image", ["one of", "kubectl describe pod"], [],
    ),
    "an old word of the scheduler is no word of the kubelet": (
        _waits("ContainerCreating", "", ("FailedScheduling", f"0/2 nodes are available: 2 Insufficient {GPU}.")),
        "trouble", "slow-start", ["no event gives a reason"], ["Insufficient"],
    ),
    "a volume on another node": (
        _waits("ContainerCreating", "", ("FailedAttachVolume", ('Multi-Attach error for volume "pvc-1" Volume '
                                                                'is already '
                                         "used by pod(s) old-0"))),
        "trouble", "slow-start", ["old-0", "ReadWriteOnce"], [],
    ),
    "a runtime class that the node lacks": (
        _waits("ContainerCreating", "", ("FailedCreatePodSandBox", ("Failed to create pod sandbox: rpc error: code = "
                                         'Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is '
                                         "configured"))),
        "trouble", "slow-start", ["runtime", "nvidia", "node-2"], [],
    ),
    "a network that has no address left": (
        _waits("ContainerCreating", "", ("FailedCreatePodSandBox", ("Failed to create pod sandbox: plugin type="
                                         '"host-local" failed (add): failed to allocate for range 0: no IP addresses '
                                         "available in range set: 10.1.0.1-10.1.0.254"))),
        "trouble", "slow-start", ["no address", "10.1.0.1-10.1.0.254"], [],
    ),
    "a network that is not there": (
        _waits("ContainerCreating", "", ("FailedCreatePodSandBox", ("Failed to create pod sandbox: plugin type="
                                         '"multus" name="multus-cni-network" failed (add): cannot find a '
                                         "network-attachment-definition (rdma-a) in namespace (ml)"))),
        "trouble", "slow-start", ["rdma-a", "NetworkAttachmentDefinition"], [],
    ),
    "a claim whose driver does not answer": (
        _waits("ContainerCreating", "", ("FailedPrepareDynamicResources", ("Failed to prepare dynamic "
                                                                           "resources: prepare "
                                         "dynamic resources: DRA driver gpu.nvidia.com is not registered"))),
        "trouble", "slow-start", ["gpu.nvidia.com", "DRA driver", "node-2"], ["device plugin"],
    ),
    "a sidecar that runs is no init container that hangs": (
        _sidecar_runs, "trouble", "slow-start", ["mount failed"], ["init container agent"],
    ),
}  # fmt: skip
"""Kind -> how it is planted, state, code of the first cause, what must be named, what must not."""
