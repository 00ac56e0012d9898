"""What the tests of the control plane share: a cluster in the test's own loop, objects, and an HTTP client."""

import asyncio
import http.client
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

from pytest_gpucluster.embedded.cluster import build
from pytest_gpucluster.embedded.resources import build_table
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store

GPU = "nvidia.com/gpu"
PATIENCE = 20.0
"""Seconds after which a test that waits for something gives up; never part of what is asserted."""


def empty_store(*, volcano: bool = True, history: int = 1000) -> Store:
    """Return a store with the namespace `default`."""
    store = Store(build_table(volcano=volcano), history=history)
    store.create("Namespace", {"metadata": {"name": "default"}})
    return store


def run(coro: Coroutine[Any, Any, None]) -> None:
    """Run an asynchronous test."""

    async def limited() -> None:
        await asyncio.wait_for(coro, PATIENCE * 2)

    asyncio.run(limited())


@asynccontextmanager
async def cluster(**config: Any) -> AsyncIterator[Runtime]:
    """Run a control plane without Volcano in this loop; it must not have crashed at the end."""
    runtime = build({"volcano": False, "job_backoff_seconds": 0.01, **config})
    try:
        yield runtime
        assert not runtime.crashed.is_set()
    finally:
        runtime.store.close()
        await runtime.stop()


async def until(runtime: Runtime, predicate: Callable[[], object]) -> None:
    """Wait for a predicate over the store, looking again at each change."""
    keys = [row.key for row in runtime.store.table]

    async def wait() -> None:
        with runtime.store.subscribe(keys) as changes:
            while not predicate():
                assert not runtime.crashed.is_set()
                await changes.batch()

    await asyncio.wait_for(wait(), PATIENCE)


async def settle() -> None:
    """Let every controller do what it has to do now."""
    for _ in range(300):
        await asyncio.sleep(0)


def node(name: str, gpus: int = 8, **spec: Any) -> dict[str, Any]:
    """Return a node."""
    capacity = {"cpu": "96", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    return {
        "metadata": {"name": name, "labels": spec.pop("labels", {})},
        "spec": spec,
        "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, gpus: int = 0, **spec: Any) -> dict[str, Any]:
    """Return a pod of one container."""
    container: dict[str, Any] = {"name": "c", "image": "registry.example/train:1"}
    if gpus:
        container["resources"] = {"limits": {GPU: str(gpus)}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def job(name: str, count: int, gpus: int = 0, **spec: Any) -> dict[str, Any]:
    """Return an Indexed Job whose pods are all to run at once."""
    template = pod("x", gpus, restartPolicy=spec.pop("restart", "Never"))["spec"]
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "completions": count,
            "parallelism": count,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": template},
            **spec,
        },
    }


def end_pod(store: Store, name: str, phase: str, namespace: str = "default") -> None:
    """Let a pod end, as its kubelet would write it."""

    def change(obj: dict[str, Any]) -> None:
        obj["status"]["phase"] = phase

    store.mutate("Pod", namespace, name, change, subresource="status")


def bound(store: Store) -> dict[str, str]:
    """Return the node of each bound pod."""
    pods = store.list("Pod")
    return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if p["spec"].get("nodeName")}


@contextmanager
def control_plane(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run a control plane in a process of its own and yield its ready line."""
    command = [sys.executable, "-m", "pytest_gpucluster.embedded"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(config) + "\n")
        process.stdin.flush()
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(PATIENCE)


class Api:
    """A plain HTTP client of a control plane."""

    def __init__(self, url: str, token: str = "") -> None:
        """Talk to a URL, as the user of a token."""
        self.url = url
        self._who = {"Authorization": f"Bearer {token}"} if token else {}
        self._host = urlsplit(url).netloc

    def raw(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers of a request."""
        connection = http.client.HTTPConnection(self._host, timeout=PATIENCE)
        try:
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(
                method, path, data, {"Content-Type": "application/json", **self._who, **(headers or {})}
            )
            response = connection.getresponse()
            return response.status, response.read(), dict(response.getheaders())
        finally:
            connection.close()

    def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Return status and parsed body of a request."""
        status, raw, _ = self.raw(method, path, body, {"Content-Type": content_type})
        return status, json.loads(raw)

    def ok(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Return the parsed body of a request that must succeed."""
        status, answer = self.call(method, path, body, content_type)
        assert status < 300, answer
        return answer

    def watch(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the events of a watch until the server ends it."""
        connection = http.client.HTTPConnection(self._host, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers=self._who)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            while line := response.readline():
                yield json.loads(line)
        finally:
            connection.close()
