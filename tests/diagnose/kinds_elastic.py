"""Kinds of trouble of elastic jobs, in the words of torchrun, whatever program it runs."""

from collections.abc import Mapping

from tests.diagnose.kinds_started import Plant, Row
from tests.diagnose.planting import GPU, Dump, Obj

NODES = "--nnodes=3:4"
AGAIN = "[default] Worker group FAILED. {0}/5 attempts left; will restart worker group"
JOINED = "[default] Detected 1 new nodes from group_rank=0; will restart worker group"
PEER = "RuntimeError: [pair.cc:545] Read error [10.0.0.7]:31933: Connection reset by peer"
ROOT = "failed (exitcode: 17) local_rank: 2 (pid: 411) of binary: /usr/bin/python3"
KILLED = "Unable to shutdown process 88 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL"


def _elastic(dump: Dump, nodes: str = NODES, endpoint: str = "store-a:29400") -> Dump:
    """Let every pod run torchrun with a range of workers."""
    for pod in dump.pods:
        box = pod["spec"]["containers"][0]
        box["command"], box["args"] = ["torchrun"], [nodes, f"--rdzv-endpoint={endpoint}", "train.py"]
    return dump


def _below(running: int, nodes: str = NODES) -> Plant:
    """Let only so many of four workers run; the others wait for a place."""

    def plant() -> Dump:
        dump = _elastic(Dump(), nodes)
        for pod in dump.pods[running:]:
            pod["spec"].pop("nodeName", None)
            pod["status"] = {"phase": "Pending", "conditions": []}
        return dump

    return plant


def _says(lines: Mapping[int, tuple[str, ...]]) -> Plant:
    """Let pods, by their number, have written lines."""

    def plant() -> Dump:
        dump = _elastic(Dump())
        for number, said in lines.items():
            dump.say(dump.pods[number], *said)
        return dump

    return plant


def _store(gpus: int, asks: bool = False) -> Plant:
    """Let the store be a pod of its own on a node with so many GPUs."""

    def plant() -> Dump:
        dump = _elastic(Dump()).nodes(8, gpus)
        box: Obj = {"name": "main", "image": "reg.example/store:1", "resources": {}}
        if asks:
            box["resources"] = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
        spec = {"nodeName": "node-2", "containers": [box], "restartPolicy": "Always"}
        metadata = {
            "name": "store-a", "namespace": dump.namespace, "uid": "store-a", "creationTimestamp": dump.ago(900),
        }  # fmt: skip
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return dump.add(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
        )

    return plant


def storm(left: int, *more: str) -> tuple[str, ...]:
    """Return what an agent prints that starts its ranks again, down to some restarts that are left."""
    return tuple(line for n in range(4, left - 1, -1) for line in (*more, AGAIN.format(n)))


CLOSES = "W1130 api.py:908 Sending process 411 closing signal SIGTERM"
LATE = "RuntimeError: [unbound_buffer.cc:81] Timed out waiting 60000ms for recv operation to complete"


def _some_done(running: int) -> Plant:
    """Let only so many of four workers still run, the others having done their work."""

    def plant() -> Dump:
        dump = _elastic(Dump())
        for pod in dump.pods[running:]:
            ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
            pod["status"] = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": ended}]}
        return dump

    return plant


KINDS: dict[str, Row] = {
    "storm-one-member": (
        _says({1: storm(1, ROOT), 2: storm(1, PEER), 3: storm(2, PEER)}), "trouble", "restart-storm",
        ["worker-0 fails each time", "exit code 17", "1 of 5 restarts"], ["not told apart"],
    ),
    "storm-who-is-not-told": (
        _says({1: storm(1), 2: storm(1)}), "trouble", "restart-storm", ["not told apart"], ["exit code"],
    ),
    "storm-of-a-member-that-ends-its-other-ranks": (
        _says({1: storm(1, CLOSES, ROOT), 2: storm(1, PEER)}), "trouble", "restart-storm",
        ["worker-0 fails each time", "exit code 17"], ["not told apart", "worker-1 fails each time"],
    ),
    "storm-of-members-that-wait-in-vain": (
        _says({1: storm(1, PEER), 2: storm(1, LATE)}), "trouble", "restart-storm",
        ["not told apart"], ["worker-1 fails each time"],
    ),
    "storm-without-a-word-of-its-own": (
        _says({1: storm(1), 2: storm(1, PEER)}), "trouble", "restart-storm",
        ["not told apart"], ["worker-0 fails each time"],
    ),
    "flapping": (
        _says({0: (JOINED,) * 4}), "trouble", "rendezvous-flapping", ["joined 4 times"], ["restart storm"],
    ),
    "below-minimum": (
        _below(2), "trouble", "below-minimum", ["2 of at least 3", "--nnodes=2:4"], ["restart storm"],
    ),
}  # fmt: skip

SPARED: dict[str, tuple[Plant, tuple[str, ...]]] = {
    "one-restart": (_says({1: storm(4, ROOT)}), ("restart-storm", "rendezvous-flapping")),
    "one-newcomer": (_says({0: (JOINED,)}), ("rendezvous-flapping", "restart-storm")),
    "enough-workers": (_below(3), ("below-minimum",)),
    "others-are-done": (_some_done(1), ("below-minimum",)),
    "fixed-size": (_below(2, "--nnodes=4"), ("below-minimum",)),
    "store-off-gpu-nodes": (_store(0), ("store-on-gpu-node",)),
}
"""Name -> (how it is planted, codes that must not be told)."""

NOTED: dict[str, tuple[Plant, str, str]] = {
    "store-on-gpu-node": (
        _store(8),
        "store-on-gpu-node",
        "store-a runs on node-2, which offers 8 nvidia.com/gpu",
    ),
    "store-asks-for-gpu": (_store(0, asks=True), "store-on-gpu-node", "store-a asks for 1 nvidia.com/gpu"),
    "killed-after-grace": (_says({1: (KILLED,)}), "killed-after-grace", "--shutdown-timeout"),
}
"""Name -> (how it is planted, code of the note, a part of its text)."""
