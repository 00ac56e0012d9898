"""One agent that plays several kubelets."""

import asyncio
import logging
import os
import subprocess
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from pytest_gpucluster.node import defects, machine, power, registration
from pytest_gpucluster.node.api import Api, ApiError, Reflector
from pytest_gpucluster.node.config import AgentConfig
from pytest_gpucluster.node.defects import DNS_DOWN, DNS_SILENT, SECOND_WITHOUT_ROUTE, SLOW_START
from pytest_gpucluster.node.dns import DnsServer, Zone
from pytest_gpucluster.node.exporter import Exporter
from pytest_gpucluster.node.gateway import Gateway
from pytest_gpucluster.node.network import Addresses, Network
from pytest_gpucluster.node.pod import PodWorker
from pytest_gpucluster.node.rootfs import probe_layout
from pytest_gpucluster.node.runtime import PlayedNode, Runtime
from pytest_gpucluster.node.server import KubeletServer
from pytest_gpucluster.node.writer import EventWriter, is_going
from pytest_gpucluster.plain import names

log = logging.getLogger(__name__)

Object = dict[str, Any]
ENDING_SECONDS = 25.0
"""How long switching of defects waits for pods whose objects are gone, or being deleted: less than its caller does."""


class AgentError(Exception):
    """An agent that cannot start; the text is one clear line."""


class Agent:
    """Registers nodes, runs their pods, serves their logs and answers their names.

    An asynchronous context manager: entered, all nodes are Ready and pods are being run.

    Attributes:
        broken: Set when a part that everything depends on has failed; the agent must end then.
    """

    def __init__(self, config: AgentConfig) -> None:
        """Describe; nothing runs yet."""
        self._config = config
        self._stack = AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._workers: dict[str, PodWorker] = {}
        self._by_name: dict[tuple[str, str], PodWorker] = {}
        self._gangs: set[str] = set()
        self._nodes: dict[str, PlayedNode] = {}
        self._up: dict[str, asyncio.Event] = {}
        self._runtime: Runtime | None = None
        self._zone: Zone | None = None
        self.broken = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Start everything.

        Raises:
            AgentError: when the API server refuses or cannot be reached.
            NetworkError: when the machine refuses the pods' network.
        """
        config = self._config
        work = config.state_dir / "run"
        await asyncio.to_thread(_mount_work, work)
        addresses = Addresses(config.subnet, len(config.nodes))
        self._nodes = {
            spec.name: PlayedNode(spec, addresses.node(i), machine.admission(spec, config))
            for i, spec in enumerate(config.nodes)
        }
        for name in self._nodes:
            self._up[name] = asyncio.Event()
            self._up[name].set()
        api = await self._stack.enter_async_context(
            Api(socket=config.api_socket, url=config.api_url, token=config.api_token)
        )
        await self._stack.enter_async_context(
            KubeletServer(
                config.kubelet_socket,
                self._find,
                self._configz,
                self._reboot,
                self._sicken,
                switch=self._switch if config.switchable else None,
            )
        )
        network = Network(
            work / "namespaces", addresses, config.subnet.prefixlen, len(config.nodes),
            further=config.networks, routed=SECOND_WITHOUT_ROUTE not in config.defects,
        )  # fmt: skip
        layout, _ = await asyncio.gather(
            asyncio.to_thread(probe_layout, work / "image"), self._stack.enter_async_context(network)
        )
        self._runtime = Runtime(
            config, api, EventWriter(api), network, addresses, layout, work,
            asyncio.Semaphore(max(2, min(8, 2 * (os.cpu_count() or 1)))),
        )  # fmt: skip
        services = Reflector(api, "/api/v1/services", self._on_service)
        pods = Reflector(api, "/api/v1/pods", self._on_pod)
        own = {} if config.pod_socket is None else {"kubernetes.default": addresses.bridge}
        self._zone = Zone(config.dns_domain, services.objects, pods.objects, own)
        if DNS_DOWN not in config.defects:
            server = DnsServer(self._zone, addresses.bridge, silent=lambda: DNS_SILENT in config.defects)
            await self._stack.enter_async_context(server)
        if config.pod_socket is not None:
            await self._stack.enter_async_context(Gateway(addresses.bridge, config.pod_socket))
        if config.metrics_port is not None:
            for node in self._nodes.values():
                if node.spec.gpus:
                    await self._stack.enter_async_context(Exporter(node.spec, config, node.ip))
        await self._register(api)
        nodes = Reflector(api, "/api/v1/nodes", self._on_node)
        for reflector in (services, pods, nodes):
            self._spawn(reflector.run()).add_done_callback(lambda _task: self.broken.set())
        await asyncio.gather(services.synced.wait(), pods.synced.wait(), nodes.synced.wait())
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop what talks to the outside; pods end with the sandbox."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def _register(self, api: Api) -> None:
        try:
            await asyncio.gather(
                *(
                    registration.register(api, registration.node_object(node.spec, self._config, node.ip))
                    for node in self._nodes.values()
                )
            )
        except (ApiError, OSError) as error:
            raise AgentError(f"the API server does not take the nodes: {error}") from error
        for name in self._nodes:
            self._spawn(registration.keep_lease(api, name, self._config.lease_seconds))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task of the agent failed", exc_info=task.exception())

    def _find(self, namespace: str, name: str) -> PodWorker | None:
        return self._by_name.get((namespace, name))

    def _configz(self, node: str) -> Object | None:
        played = self._nodes.get(node)
        return None if played is None else machine.configz(played.spec, self._config)

    def _reboot(self, node: str) -> bool:
        played = self._nodes.get(node)
        if played is None or self._runtime is None:
            return False
        if self._up[node].is_set():
            self._spawn(power.restart(self._runtime, played, lambda: self._on(node), self._up[node]))
        return True

    def _sicken(self, node: str, devices: list[str]) -> bool:
        played = self._nodes.get(node)
        if played is None or self._runtime is None:
            return False
        played.admission.devices.unhealthy = frozenset(devices)
        self._spawn(power.offer(self._runtime, played))
        return True

    async def _switch(self, names: list[str]) -> list[str]:
        """Put exactly these defects in force: machines without pods begin anew, and offer what they then have.

        Raises:
            ValueError: an unknown defect, one that only a new start can plant, or pods are still there; one line.
        """
        planted, wanted = self._config.defects, defects.check(names)
        planted.check(wanted)
        if self._runtime is None:
            raise ValueError("defects are switched on nodes that run, these do not")
        await self._emptied(self._runtime.api)
        planted.switch(wanted)
        for node in self._nodes.values():
            node.admission = machine.admission(node.spec, self._config)
            await registration.report(self._runtime.api, node.spec, self._config)
        return list(planted)

    async def _emptied(self, api: Api) -> None:
        """End the processes of pods that go, and wait until none is left.

        Whether a pod stays is asked of the API server: on a busy machine the watch tells of its end seconds later.

        Raises:
            ValueError: a pod stays, or one that goes has not ended in time; one line.
        """
        workers = list(self._workers.values())
        going = await asyncio.gather(*(is_going(api, worker.pod) for worker in workers))
        staying = [worker.title for worker, goes in zip(workers, going, strict=True) if not goes]
        if not staying and self._running:
            # A defect that is in force may keep them beyond their pods' end.
            for worker in workers:
                worker.kill()
            await asyncio.wait(self._running, timeout=ENDING_SECONDS)
        left = staying or [f"{worker.title} (ending)" for worker in self._workers.values()]
        if left:
            raise ValueError(
                f"defects are switched on nodes without pods, these have {', '.join(sorted(left))}"
            )

    def _on(self, node: str) -> list[PodWorker]:
        return [worker for worker in self._workers.values() if worker.node == node]

    def _on_service(self, _kind: str, _service: Object) -> None:
        if self._zone is not None:
            self._zone.changed()

    def _on_node(self, kind: str, node: Object) -> None:
        played = self._nodes.get(node["metadata"]["name"])
        if played is None or kind == "DELETED" or self._runtime is None:
            return
        managed = registration.managed_resources(played.spec, self._config)
        change = registration.unmanaged_difference(node, managed)
        if change:
            self._spawn(self._copy_capacity(self._runtime.api, played.spec.name, change))

    async def _copy_capacity(self, api: Api, name: str, change: dict[str, str | None]) -> None:
        try:
            await api.patch(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": change}})
        except ApiError as error:
            log.warning("allocatable of %s: %s", name, error)

    def _on_pod(self, kind: str, pod: Object) -> None:
        if self._zone is not None:
            self._zone.changed()
        meta = pod["metadata"]
        worker = self._workers.get(meta["uid"])
        if kind == "DELETED":
            if worker is not None:
                worker.vanished()
            return
        if worker is not None:
            worker.update(pod)
            return
        node = self._nodes.get(pod["spec"].get("nodeName") or "")
        if node is None or self._runtime is None:
            return
        worker = PodWorker(self._runtime, node, pod, slow=self._is_slow(pod))
        worker.update(pod)
        self._workers[meta["uid"]] = worker
        self._by_name[meta["namespace"], meta["name"]] = worker
        running = self._spawn(self._run(worker))
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def _run(self, worker: PodWorker) -> None:
        meta = worker.pod["metadata"]
        try:
            await self._up[worker.node].wait()
            await worker.run()
        finally:
            self._workers.pop(meta["uid"], None)
            if self._by_name.get((meta["namespace"], meta["name"])) is worker:
                del self._by_name[meta["namespace"], meta["name"]]

    def _is_slow(self, pod: Object) -> bool:
        """Choose the pods for `node.slow-start`: the first one seen of each gang."""
        if SLOW_START not in self._config.defects:
            return False
        meta = pod["metadata"]
        owners = meta.get("ownerReferences") or []
        group = (meta.get("annotations") or {}).get(names.ANNOTATION_GROUP) or (
            owners[0]["uid"] if owners else None
        )
        if group is None or group in self._gangs:
            return False
        self._gangs.add(group)
        return True


def _mount_work(work: Path) -> None:
    """Make a folder in memory, private to this mount namespace, which is gone with it."""
    work.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "gpucluster", str(work)], check=True)
    subprocess.run(["mount", "--make-private", str(work)], check=True)
    for name in ("image", "namespaces", "pods"):
        (work / name).mkdir()
