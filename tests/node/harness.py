"""Starts the nodes as their users do: as a process, with one line of configuration."""

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.node.fake_api import FakeApi

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
SERVICES = "/api/v1/namespaces/default/services"
FINAL = ("Succeeded", "Failed")


class Nodes:
    """Running nodes, the API server that they talk to, and shorthands for what tests do with both."""

    def __init__(
        self, api: FakeApi, state_dir: Path, process: "subprocess.Popen[bytes]", ready: dict[str, Any]
    ) -> None:
        """Keep what was started."""
        self.api = api
        self.state_dir = state_dir
        self.process = process
        self.ready = ready

    def run(self, name: str, script: str | None = None, **spec: Any) -> dict[str, Any]:
        """Create a pod of one container that runs a shell script; `container` changes the container."""
        container = {"name": "c", "image": "test", **spec.pop("container", {})}
        if script is not None:
            container["command"] = ["sh", "-c", script]
        meta = spec.pop("metadata", {})
        body = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {}, **meta},
            "spec": {
                "nodeName": "gpu-0", "restartPolicy": "Never", "terminationGracePeriodSeconds": 2,
                "containers": [container], **spec,
            },
        }  # fmt: skip
        return self.api.create(PODS, body)

    def pod(self, name: str) -> dict[str, Any]:
        """Return a pod as it is now, empty where it is gone."""
        return self.api.get(f"{PODS}/{name}") or {}

    def phase(self, name: str) -> str:
        """Return the phase of a pod."""
        return str(self.pod(name).get("status", {}).get("phase", "gone"))

    def wait_phase(self, name: str, *phases: str, seconds: float = 20) -> dict[str, Any]:
        """Wait for one of the phases and return the pod's status."""
        self.api.wait(lambda: self.phase(name) in phases, seconds, f"{name} {phases}")
        return dict(self.pod(name)["status"])

    def wait_end(self, name: str, seconds: float = 20) -> dict[str, Any]:
        """Wait for a final phase and return the pod's status."""
        return self.wait_phase(name, *FINAL, seconds=seconds)

    def output(self, name: str, script: str | None = None, **spec: Any) -> str:
        """Run a pod to its end and return what it said; it must succeed."""
        self.run(name, script, **spec)
        status = self.wait_end(name)
        said = self.logs(name)[1]
        assert status["phase"] == "Succeeded", (status, said)
        return said

    def logs(self, name: str, container: str = "c", query: str = "") -> tuple[int, str]:
        """Ask the kubelet for a log: HTTP status and body."""
        connection = UnixConnection(self.ready["kubelet_socket"])
        connection.request("GET", f"/containerLogs/default/{name}/{container}{query}")
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    def ask(self, node: str, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """Ask a node at the socket of all kubelets: HTTP status and body."""
        connection = UnixConnection(self.ready["kubelet_socket"])
        data = None if body is None else json.dumps(body)
        connection.request(method, path, body=data, headers={"Host": node})
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
        return answer.status, said

    def history(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """Return (event type, object) of all that happened to a pod."""
        return [(k, o) for k, c, o in self.api.history if c == PODS and o["metadata"]["name"] == name]

    def running_processes(self) -> list[int]:
        """Return the ids of all processes of the sandbox, as the host sees them."""
        return sandbox_processes(self.state_dir)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        """Keep the path of the socket."""
        super().__init__("kubelet", timeout=20)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self._path)


def sandbox_processes(state_dir: Path) -> list[int]:
    """Return the processes that see the work folder of a sandbox among their mounts."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                mounts = (entry / "mountinfo").read_text()
            except OSError:
                continue
            if str(state_dir) in mounts:
                found.append(int(entry.name))
    return found


@contextmanager
def started(
    folder: Path, python: tuple[str, ...] = (sys.executable,), *, open_socket: bool = False, **config: Any
) -> Iterator[Nodes]:
    """Start a fake API server and nodes on it; end both.

    Args:
        folder: State folder, made where absent.
        python: Command that runs Python.
        open_socket: Whether other users may use the API server.
        config: Changes to the configuration line.
    """
    folder.mkdir(exist_ok=True)
    with FakeApi(folder / "api.sock") as api:
        if open_socket:
            Path(api.socket).chmod(0o777)
        line = {
            "api_socket": api.socket, "state_dir": str(folder), "images": {"test": []},
            "nodes": [{"name": "gpu-0"}, {"name": "gpu-1"}], **config,
        }  # fmt: skip
        process = subprocess.Popen(
            [*python, "-m", "pytest_gpucluster.node"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ, SECRET_OF_THE_AGENT="leaked"),
        )  # fmt: skip
        try:
            process.stdin.write(json.dumps(line).encode() + b"\n")
            process.stdin.flush()
            ready = json.loads(process.stdout.readline())
            assert ready.get("ready"), ready
            yield Nodes(api, folder, process, ready)
        finally:
            process.stdin.close()
            process.wait(10)
            process.stdout.close()
