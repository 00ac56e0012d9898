"""More of each kind of trouble once pods have a node: how it is planted, what is named and what is not."""

from collections.abc import Callable

from tests.diagnose.planting import Dump, Obj

Plant = Callable[[], Dump]


def _node(dump: Dump, number: int) -> Obj:
    return dump.of("Node")[number - 1]


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
    "closed, no id": (
        _closed("raise RendezvousClosedError()"),
        "trouble",
        "rendezvous-closed",
        ["fresh id"],
        ["timed out"],
    ),
    "closed, with id": (
        _closed("Rendezvous for run_id=none is closed"),
        "trouble",
        "rendezvous-closed",
        ["run id none"],
        ["timed out"],
    ),
    "timed out, not closed": (
        _closed("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"),
        "trouble",
        "rendezvous-timeout",
        ["timed out"],
        ["fresh id"],
    ),
    "node made again": (
        _rejected("NodeAffinity", AFFINITY, _made_again),
        "trouble",
        "kubelet-rejects",
        ["created again", "capacity-type", "delete the pod"],
        ["NUMA"],
    ),
    "node relabelled": (
        _rejected("NodeAffinity", AFFINITY, _relabelled),
        "trouble",
        "kubelet-rejects",
        ["pool=a"],
        ["created again", "NUMA"],
    ),
    "labels match": (
        _rejected("NodeAffinity", AFFINITY, _matches_now),
        "trouble",
        "kubelet-rejects",
        ["match now"],
        ["created again", "does not have it"],
    ),
    "node gone": (
        _rejected("NodeAffinity", AFFINITY, _node_gone),
        "trouble",
        "kubelet-rejects",
        ["no longer exists"],
        ["created again"],
    ),
    "plugin does not answer": (
        _rejected(
            "UnexpectedAdmissionError",
            LONG + "dial unix /var/lib/kubelet/device-plugins/gpu.sock: connect: connection refused",
        ),
        "trouble",
        "kubelet-rejects",
        ["does not answer its kubelet", "connection refused"],
        ["NUMA", "GPU is lost"],
    ),
    "fewer than counted": (
        _rejected(
            "UnexpectedAdmissionError",
            "Allocate failed due to requested number of devices unavailable "
            "for nvidia.com/gpu. Requested: 4, Available: 3, which is unexpected",
        ),
        "trouble",
        "kubelet-rejects",
        ["fewer free devices", "Requested: 4, Available: 3"],
        ["NUMA"],
    ),
    "unknown, at the end": (
        _rejected("UnexpectedAdmissionError", LONG + "the flux capacitor is discharged"),
        "trouble",
        "kubelet-rejects",
        ["flux capacitor is discharged"],
        ["NUMA"],
    ),
    "exec format": (
        _start(RUNC + "exec /usr/bin/python3: exec format error: unknown"),
        "trouble",
        "start-error",
        ["another processor", "exec format error"],
        ["read its log"],
    ),
    "CDI": (
        _start(RUNC + "unresolvable CDI devices nvidia.com/gpu=GPU-7"),
        "trouble",
        "start-error",
        ["CDI", "node"],
        ["read its log"],
    ),
    "no such command": (
        _start(RUNC + 'exec: "trian": executable file not found in $PATH'),
        "trouble",
        "start-error",
        ["trian", "not in the image"],
        ["read its log"],
    ),
    "runtime in other words": (
        _start("sandbox widget exploded: code 7", "ContainerCannotRun"),
        "trouble",
        "start-error",
        ["sandbox widget exploded"],
        ["read its log"],
    ),
    "Xid before a watchdog": (
        _gpu(
            "[E1005 09:20:21.1 x.cpp:1] setting up",
            "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        ),
        "trouble",
        "gpu-error",
        ["torch-worker-2", "fallen off the bus", "13 minutes"],
        ["test the fabric"],
    ),
    "HIP before a watchdog": (
        _gpu("[rank3]: RuntimeError: HIP error: unspecified launch failure"),
        "trouble",
        "gpu-error",
        ["rank 3", "HIP error"],
        ["test the fabric"],
    ),
    "a program's own error": (
        _gpu("ValueError: shapes do not match"),
        "trouble",
        "nccl-stall",
        ["Watchdog"],
        ["a GPU"],
    ),
    "a watchdog alone": (_watchdog_alone, "trouble", "nccl-stall", ["Watchdog"], ["a GPU"]),
    "NCCL port down": (
        _warned("w:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error"),
        "trouble",
        "nccl-fatal",
        ["port error", "cable"],
        [": healthy"],
    ),
    "NCCL duplicate": (
        _warned(
            "w:1:2 [0] init.cc:9 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device "
            "3b000"
        ),
        "trouble",
        "nccl-fatal",
        ["same GPU"],
        [": healthy"],
    ),
    "NCCL of unknown meaning": (
        _warned("w:1:2 [0] foo.cc:9 NCCL WARN the widget is upside down"),
        "unclear",
        "nccl-warning",
        ["widget is upside down", "possible"],
        [": healthy"],
    ),
    "NCCL warned and went on": (
        _warned("w:1:2 [0] foo.cc:9 NCCL WARN the widget is upside down", "step 10 loss 2.1"),
        "healthy",
        "",
        ["widget"],
        [],
    ),
    "Secret absent": (
        _secret('secret "wandb-key"'),
        "trouble",
        "slow-start",
        ["Secret 'wandb-key'", "does not exist"],
        [],
    ),
    "ConfigMap absent": (
        _secret('configmap "conf"'),
        "trouble",
        "slow-start",
        ["ConfigMap 'conf'", "does not exist"],
        [],
    ),
    "claim absent": (
        _secret('persistentvolumeclaim "data"'),
        "trouble",
        "slow-start",
        ["PersistentVolumeClaim 'data'"],
        [],
    ),
}
"""Kind -> how it is planted, state, code of the first cause, what must be named, what must not."""
