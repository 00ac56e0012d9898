"""An embedded control plane with pretended nodes: enough of a kubelet for the scenario layer's own tests."""

import contextlib
import json
import pathlib
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

from pytest_gpucluster.kube import connection, errors, objects, watch
from pytest_gpucluster.plain import names

RESOURCES = {"cpu": "96", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}


class Kubelet:
    """Runs each bound pod at once, ends each deleted one at once, copies slot capacity to allocatable."""

    def __init__(self, url: str, nodes: int) -> None:
        """Register the nodes and follow pods and nodes."""
        self.connection = connection.Connection.at(url)
        self.api = objects.Objects(self.connection)
        self.names = [f"gpu-{i}" for i in range(nodes)]
        for name in self.names:
            self.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
            ready = {"type": "Ready", "status": "True"}
            status = {"capacity": RESOURCES, "allocatable": RESOURCES, "conditions": [ready]}
            self.api.patch(objects.NODE, name, {"status": status}, subresource="status")
        self.stubborn: set[str] = set()
        self.watches = [
            watch.KindWatch(self.api, watch.Target(info), self) for info in (objects.POD, objects.NODE)
        ]
        for one in self.watches:
            one.start()

    def close(self) -> None:
        """Stop."""
        for one in self.watches:
            one.stop()
        for one in self.watches:
            one.join()
        self.connection.close()

    def line(self, change: str, kind: str, obj: dict[str, Any], t: float) -> None:
        """React to a change of a pod or a node."""
        if change == "DELETED":
            return
        with contextlib.suppress(errors.ApiError):  # gone in the meantime
            self._pod(obj) if kind == "Pod" else self._node(obj)

    def _pod(self, pod: dict[str, Any]) -> None:
        meta, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
        if meta.get("deletionTimestamp"):
            if meta["name"] not in self.stubborn:
                self.api.delete(objects.POD, meta["name"], meta["namespace"], grace=0)
        elif pod["spec"].get("nodeName") and phase == "Pending":
            running = [
                {
                    "name": c["name"],
                    "state": {"running": {"startedAt": "2026-11-28T00:00:00Z"}},
                    "ready": True,
                }
                for c in pod["spec"]["containers"]
            ]
            status = {"phase": "Running", "containerStatuses": running}
            self.api.patch(
                objects.POD, meta["name"], {"status": status}, meta["namespace"], subresource="status"
            )

    def _node(self, node: dict[str, Any]) -> None:
        capacity, had = node["status"]["capacity"], node["status"]["allocatable"]
        slots = {r: v for r, v in capacity.items() if r.startswith(names.SLOT_PREFIX)}
        if any(had.get(r) != v for r, v in slots.items()):
            name = node["metadata"]["name"]
            self.api.patch(objects.NODE, name, {"status": {"allocatable": slots}}, subresource="status")

    def in_sync(self, *_: object) -> None:
        """Nothing to do."""

    out_of_sync = ended = in_sync


@contextlib.contextmanager
def cluster(folder: pathlib.Path, nodes: int = 3) -> Iterator[types.SimpleNamespace]:
    """Run a control plane with pretended nodes; yields what a provider would, and the kubelet."""
    command = [sys.executable, "-m", "pytest_gpucluster.embedded"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"port": 0, "scheduler_period": 0.05}) + "\n")
        process.stdin.flush()
        ready = json.loads(process.stdout.readline())
        kubelet = Kubelet(ready["url"], nodes)
        try:
            yield types.SimpleNamespace(
                name="embedded",
                kubeconfig=kubeconfig(folder / "kubeconfig", ready["url"]),
                context="e",
                features=frozenset({"pods-run"}),
                images={"python": "python"},
                url=ready["url"],
                kubelet=kubelet,
            )
        finally:
            kubelet.close()
            process.stdin.close()
            process.wait(10)


def kubeconfig(path: pathlib.Path, url: str) -> pathlib.Path:
    """Write a kubeconfig for a server that asks for no credentials."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e",
        "contexts": [{"name": "e", "context": {"cluster": "e", "user": "e"}}],
        "clusters": [{"name": "e", "cluster": {"server": url}}],
        "users": [{"name": "e", "user": {}}],
    }
    path.write_text(json.dumps(config))
    return path
