"""The nodes together with the embedded control plane, over nothing but HTTP."""

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.node.harness import FINAL, UnixConnection
from tests.node.test_network import BARRIER

NAMESPACE = "/api/v1/namespaces/default"
JSON, MERGE = "application/json", "application/merge-patch+json"


@contextmanager
def process(module: str, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run a module of the process protocol; yield its ready line."""
    child = subprocess.Popen([sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdin.write(json.dumps(config).encode() + b"\n")
        child.stdin.flush()
        ready = json.loads(child.stdout.readline())
        assert ready.get("ready"), ready
        yield ready
    finally:
        child.stdin.close()
        child.wait(10)
        child.stdout.close()


class Cluster:
    """Both processes, and the few requests that these tests make."""

    def __init__(self, socket: str) -> None:
        """Keep where the API server is."""
        self.socket = socket

    def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> tuple[int, str]:
        """Send one request; return HTTP status and body."""
        connection = UnixConnection(self.socket)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": content_type} if data else {})
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found

    def create(self, collection: str, body: Any) -> dict[str, Any]:
        """Create an object."""
        code, text = self.request("POST", f"{NAMESPACE}/{collection}", body)
        assert code == 201, text
        return dict(json.loads(text))

    def pod(self, name: str, script: str, *, meta: Any = None, container: Any = None, **spec: Any) -> None:
        """Create a pod of one container."""
        first = {"name": "c", "image": "test", "command": ["sh", "-c", script], **(container or {})}
        self.create("pods", {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(meta or {})},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [first], **spec},
        })  # fmt: skip

    def watch(
        self, name: str, until: Callable[[dict[str, Any]], bool], seconds: float = 60
    ) -> list[dict[str, Any]]:
        """Watch a pod from its beginning until an event satisfies; return the events."""
        events: list[dict[str, Any]] = []
        query = f"watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion=0"
        with self.lines(f"{NAMESPACE}/pods?{query}", seconds) as lines:
            for line in lines:
                if line.strip():
                    events.append(json.loads(line))
                    if until(events[-1]):
                        return events
        raise AssertionError(f"{name}: not within {seconds} s, last: {events[-1:]}")

    @contextmanager
    def lines(self, path: str, seconds: float) -> Iterator[Iterable[bytes]]:
        """Read an answer that goes on line by line; it ends when the time is over, however long each line takes."""
        connection = UnixConnection(self.socket)
        connection.request("GET", path)
        connection.sock.settimeout(None)
        answer = connection.getresponse()
        timer = threading.Timer(seconds, connection.sock.shutdown, [2])
        timer.start()
        try:
            yield answer
        finally:
            timer.cancel()
            answer.close()
            connection.close()

    def end(self, name: str, seconds: float = 60) -> dict[str, Any]:
        """Wait for the final phase of a pod and return its status."""
        last = self.watch(name, lambda e: e["object"].get("status", {}).get("phase") in FINAL, seconds)[-1]
        return dict(last["object"]["status"])

    def running(self, name: str) -> dict[str, Any]:
        """Wait until a pod is Running and return its status."""
        last = self.watch(name, lambda e: e["object"].get("status", {}).get("phase") == "Running")[-1]
        return dict(last["object"]["status"])

    def logs(self, name: str, query: str = "") -> tuple[int, str]:
        """Read a log through the API server."""
        return self.request("GET", f"{NAMESPACE}/pods/{name}/log{query}")

    def says(self, name: str, line: str, seconds: float = 60) -> None:
        """Follow a pod's log until it has a line: Running is said before its process has come to any command."""
        with self.lines(f"{NAMESPACE}/pods/{name}/log?follow=true", seconds) as lines:
            assert any(each.decode().strip() == line for each in lines), f"{name}: did not say {line!r}"


@pytest.fixture(scope="module")
def cluster(sandboxes: None) -> Iterator[Cluster]:
    """The control plane and three nodes."""
    if importlib.util.find_spec("pytest_gpucluster.embedded.__main__") is None:
        pytest.skip("this build has no embedded control plane")
    folder = Path(tempfile.mkdtemp(prefix="gc-", dir="/tmp"))
    with ExitStack() as stack:
        stack.enter_context(process("pytest_gpucluster.embedded", {"socket": str(folder / "api.sock")}))
        nodes = {
            "api_socket": str(folder / "api.sock"), "state_dir": str(folder),
            "nodes": [{"name": f"gpu-{i}"} for i in range(3)], "images": {"test": [sys.executable]},
        }  # fmt: skip
        stack.enter_context(process("pytest_gpucluster.node", nodes))
        yield Cluster(str(folder / "api.sock"))
    shutil.rmtree(folder)


def service(cluster: Cluster, name: str) -> None:
    """Create a headless service over the pods of a job."""
    cluster.create("services", {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"clusterIP": "None", "selector": {"job": name}, "publishNotReadyAddresses": True},
    })  # fmt: skip


def test_bare_pod_runs_and_its_log_is_read(cluster: Cluster) -> None:
    """A bare pod is scheduled, runs to Succeeded, and the API server serves its log."""
    cluster.pod("bare", "echo one; echo two")
    status = cluster.end("bare")
    assert (status["phase"], status["containerStatuses"][0]["state"]["terminated"]["exitCode"]) == (
        "Succeeded",
        0,
    )
    assert cluster.logs("bare") == (200, "one\ntwo\n")
    assert cluster.logs("bare", "?tailLines=1") == (200, "two\n")


def test_log_can_be_followed(cluster: Cluster) -> None:
    """Following a log ends with the container."""
    cluster.pod("follow", "for i in 1 2 3; do echo $i; sleep 0.1; done")
    cluster.running("follow")
    assert cluster.logs("follow", "?follow=true") == (200, "1\n2\n3\n")


def test_log_of_a_pod_that_waits_is_refused(cluster: Cluster) -> None:
    """The log of a container that cannot start yet is a 400 in a kubelet's words."""
    cluster.pod("no-image", "true", container={"image": "absent"})
    cluster.watch("no-image", lambda e: "ErrImagePull" in json.dumps(e))
    code, text = cluster.logs("no-image")
    assert (code, "waiting to start: ErrImagePull" in text) == (400, True)


def test_deletion_with_grace(cluster: Cluster) -> None:
    """A deleted pod shows its final phase beside the deletionTimestamp, then is gone."""
    cluster.pod("leave", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
    cluster.running("leave")
    cluster.says("leave", "up")
    assert cluster.request("DELETE", f"{NAMESPACE}/pods/leave")[0] == 200
    events = cluster.watch("leave", lambda e: e["type"] == "DELETED")
    pods = [(e["type"], e["object"]) for e in events]
    shown = [(kind, pod["status"]["phase"], "deletionTimestamp" in pod["metadata"]) for kind, pod in pods]
    assert ("MODIFIED", "Succeeded", True) in shown
    assert cluster.request("GET", f"{NAMESPACE}/pods/leave")[0] == 404


def test_init_containers(cluster: Cluster) -> None:
    """Init containers run before the container."""
    mount = [{"name": "v", "mountPath": "/v"}]
    init = [
        {"name": "i", "image": "test", "command": ["sh", "-c", "echo made > /v/f"], "volumeMounts": mount}
    ]
    volumes = [{"name": "v", "emptyDir": {}}]
    cluster.pod("init", "cat /v/f", container={"volumeMounts": mount}, initContainers=init, volumes=volumes)
    assert cluster.end("init")["phase"] == "Succeeded"
    assert cluster.logs("init") == (200, "made\n")


def test_eight_pods_meet_by_name(cluster: Cluster) -> None:
    """Eight pods meet over TCP by the name of the first, which a headless service gives it."""
    service(cluster, "meet")
    for rank in range(8):
        env = [
            {"name": k, "value": v}
            for k, v in (("RANK", str(rank)), ("WORLD", "8"), ("MASTER", "meet-0.meet"))
        ]
        cluster.pod(
            f"meet-{rank}", f"exec python3 -c '{BARRIER}'", meta={"labels": {"job": "meet"}},
            container={"env": env}, hostname=f"meet-{rank}", subdomain="meet",
        )  # fmt: skip
    for rank in range(8):
        status = cluster.end(f"meet-{rank}")
        assert (status["phase"], cluster.logs(f"meet-{rank}")) == (
            "Succeeded",
            (200, f"rank {rank} passed\n"),
        )


def test_slots(cluster: Cluster) -> None:
    """A slot resource patched into a node's capacity becomes allocatable."""
    change = {"status": {"capacity": {"slots.gpucluster.dev/t": "2"}}}
    assert cluster.request("PATCH", "/api/v1/nodes/gpu-2/status", change, MERGE)[0] == 200
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        node = json.loads(cluster.request("GET", "/api/v1/nodes/gpu-2")[1])
        if node["status"]["allocatable"].get("slots.gpucluster.dev/t") == "2":
            return
        time.sleep(0.05)
    raise AssertionError("the slot did not become allocatable")


@pytest.mark.slow
def test_torchrun_over_two_pods(cluster: Cluster) -> None:
    """Over gloo, torchrun forms a world of two over two pods and sums across it."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    service(cluster, "run")
    code = textwrap.dedent("""
        import os, sys, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        value = torch.ones(1) * (dist.get_rank() + 1)
        dist.all_reduce(value)
        sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()} sum {value.item():g}\\n")
        dist.destroy_process_group()
    """)
    cluster.create("configmaps", {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"train.py": code},
    })  # fmt: skip
    for index in range(2):
        command = (
            "exec python -m torch.distributed.run --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-id=t "
            "--rdzv-endpoint=run-0.run.default.svc.cluster.local:29400 "
            f"--rdzv-conf=is_host={1 - index} /code/train.py"
        )
        cluster.pod(
            f"run-{index}", command, meta={"labels": {"job": "run"}}, hostname=f"run-{index}", subdomain="run",
            nodeName=f"gpu-{index}", volumes=[{"name": "code", "configMap": {"name": "code"}}],
            container={
                "volumeMounts": [{"name": "code", "mountPath": "/code"}],
                "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
            },
        )  # fmt: skip
    said = []
    for index in range(2):
        status = cluster.end(f"run-{index}", 180)
        text = cluster.logs(f"run-{index}")[1]
        assert status["phase"] == "Succeeded", text
        said += [line for line in text.splitlines() if line.startswith("rank")]
    assert sorted(said) == ["rank 0 of 2 sum 3", "rank 1 of 2 sum 3"]
