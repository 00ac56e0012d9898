"""One pod on a node: admission, network, volumes, containers, end."""

import asyncio
import logging
import shutil
import signal
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.node import attachments, status
from pytest_gpucluster.node.admission import Grant, demands
from pytest_gpucluster.node.api import ApiError, wait_until_present
from pytest_gpucluster.node.containers import ContainerLoop, PodContext
from pytest_gpucluster.node.defects import (
    BLOCKS_PORT,
    CLAIMS_APART,
    CLAIMS_OF_PODS,
    INIT_NOT_AWAITED,
    KEEPS_KILLED,
    SLOW_START_SECONDS,
)
from pytest_gpucluster.node.devices import AdmissionError, unexpected
from pytest_gpucluster.node.dns import has_ended
from pytest_gpucluster.node.names import hostname
from pytest_gpucluster.node.network import PodNetwork
from pytest_gpucluster.node.runtime import PlayedNode, Runtime
from pytest_gpucluster.node.volumes import CLAIMS, VolumeError, Volumes, bound
from pytest_gpucluster.node.writer import StatusWriter, delete_pod
from pytest_gpucluster.plain.times import format_time, now

log = logging.getLogger(__name__)

Object = dict[str, Any]
UNAWAITED_SECONDS = 2.0
"""Head start, under `node.init-not-awaited`, of containers that ought to wait: a busy machine starts them late."""
DEADLINE_TEXT = "Pod was active on the node longer than the specified deadline"


class PodWorker:
    """Runs one pod from the moment it is bound until it is gone from the API server.

    Attributes:
        pod: The pod as last seen.
        loops: Its containers, init containers first.
    """

    def __init__(self, runtime: Runtime, node: PlayedNode, pod: Object, *, slow: bool = False) -> None:
        """Describe; `run` does the work.

        Args:
            runtime: What pods share.
            node: The node it is bound to.
            pod: The pod.
            slow: Plant `node.slow-start` on this pod.
        """
        self.pod = pod
        self.loops: list[ContainerLoop] = []
        self._runtime = runtime
        self._node = node
        self._slow = slow
        self._writer = StatusWriter(runtime.api, pod)
        self._stop = asyncio.Event()
        self._at_once = asyncio.Event()
        self._deleted = asyncio.Event()
        self._grace = 30.0
        self._network: asyncio.Task[PodNetwork] | None = None
        self._folder = runtime.work / "pods" / pod["metadata"]["uid"]
        self._found: dict[tuple[str, str], Object] = {}
        self._conditions: dict[str, Object] = {}
        self._start_time = format_time(now())
        self._ip = ""
        self._initialized = False
        self._devices = False
        self._over = False
        self._end_reason = ("", "")

    @property
    def uid(self) -> str:
        """Return the uid of the pod."""
        return str(self.pod["metadata"]["uid"])

    @property
    def title(self) -> str:
        """Return namespace and name of the pod."""
        meta = self.pod["metadata"]
        return f"{meta['namespace']}/{meta['name']}"

    def update(self, pod: Object) -> None:
        """Take note of a newer version of the pod."""
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp") and not self._deleted.is_set():
            self._deleted.set()
            self._end(float(pod["metadata"].get("deletionGracePeriodSeconds") or 0))

    def vanished(self) -> None:
        """Take note that the pod is gone from the API server: end at once."""
        self._writer.gone = True
        self._deleted.set()
        self._at_once.set()
        self._end(0)

    @property
    def node(self) -> str:
        """Return the name of the node that it is bound to."""
        return self._node.spec.name

    def kill(self) -> None:
        """End all processes at once, also those that a planted defect keeps; the pod ends with them."""
        for loop in self.loops:
            loop.ending.set()
            if loop.running is not None:
                loop.running.kill()

    def power_off(self) -> None:
        """End all processes at once, as the node's machine does when it restarts.

        A pod that holds devices is refused by the kubelet that comes back before their plugin does; another one goes
        on as its restart policy says.
        """
        for loop in self.loops:
            if self._devices:
                loop.ending.set()
            if loop.running is not None:
                loop.running.kill()
        if self._devices and not self._over:
            resource = self._runtime.config.gpu_resource
            error = unexpected(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
            self._end_reason = (error.reason, f"Pod was rejected: {error.message}")
            self._runtime.events.post(self.pod, "Warning", error.reason, error.message)
            self._at_once.set()
            self._end(0)

    async def run(self) -> None:
        """Run the pod to its end, then remove it from the API server when it is to be deleted."""
        writing = asyncio.create_task(self._writer.run())
        try:
            if not has_ended(self.pod):
                await self._live_and_end()
            await self._deleted.wait()
            if not self._writer.gone:
                await delete_pod(self._runtime.api, self.pod)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    def _end(self, grace: float) -> None:
        self._grace = grace
        self._stop.set()

    async def _live_and_end(self) -> None:
        try:
            wanted = demands(self.pod, self._runtime.config.gpu_resource)
            granted = self._node.admission.admit(self.uid, wanted)
        except AdmissionError as error:
            await self._reject(error)
            return
        self._devices = any(grant.devices for grant in granted.values())
        self._make_loops(granted)
        live = asyncio.create_task(self._live())
        stop = asyncio.create_task(self._stop.wait())
        timer = self._start_deadline()
        try:
            await asyncio.wait({live, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not live.done():
                await self._terminate(live)
        finally:
            stop.cancel()
            if timer is not None:
                timer.cancel()
            await asyncio.gather(live, stop, return_exceptions=True)
            await self._release()
        failure = None if live.cancelled() else live.exception()
        if failure is not None:
            log.error("pod %s", self.pod["metadata"]["name"], exc_info=failure)
            self._end_reason = ("NodeError", f"the node could not run the pod: {failure}")
        self._over = True
        self.refresh()
        if not self._writer.gone:
            await self._writer.flush()

    def _make_loops(self, granted: Mapping[str, Grant]) -> None:
        spec = self.pod["spec"]
        for init, containers in ((True, spec.get("initContainers") or []), (False, spec["containers"])):
            for container in containers:
                loop = ContainerLoop(
                    self._runtime,
                    self.pod,
                    container,
                    init=init,
                    granted=granted[container["name"]],
                    changed=self.refresh,
                )
                if spec.get("initContainers"):
                    loop.state.state = status.waiting("PodInitializing")
                self.loops.append(loop)

    def _start_deadline(self) -> asyncio.TimerHandle | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return None
        return asyncio.get_running_loop().call_later(float(seconds), self._deadline)

    def _deadline(self) -> None:
        if not self._stop.is_set():
            self._end_reason = ("DeadlineExceeded", DEADLINE_TEXT)
            self._runtime.events.post(self.pod, "Normal", "DeadlineExceeded", DEADLINE_TEXT)
            self._end(float(self.pod["spec"].get("terminationGracePeriodSeconds", 30)))

    async def _live(self) -> None:
        if self._slow:
            await asyncio.sleep(SLOW_START_SECONDS)
        self.refresh()
        async with self._runtime.gate:
            wanted = attachments.wanted(self.pod, self._runtime.config.networks)
            made = self._runtime.network.add(hostname(self.pod), self._closed_ports(), wanted)
            self._network = asyncio.create_task(made)
            network = await asyncio.shield(self._network)
        self._ip = network.ip
        if network.further:
            self.pod = await attachments.publish(self._runtime.api, self.pod, network.ip, network.further)
        context = await self._context(network)
        await self._make_volumes(context.volumes)
        init = [loop for loop in self.loops if loop.init]
        main = [loop for loop in self.loops if not loop.init]
        unawaited = INIT_NOT_AWAITED in self._runtime.config.defects
        sidecars: list[asyncio.Task[None]] = []
        try:
            # First of all, or a quick init container would be done before what did not wait for it.
            self._initialized = unawaited
            running = [await _begun(loop, context) for loop in main] if unawaited else []
            if running:
                await asyncio.wait(running, timeout=UNAWAITED_SECONDS)
            for loop in init:
                if loop.sidecar or unawaited:
                    sidecars.append(await _begun(loop, context))
                    continue
                await loop.live(context)
                if loop.state.exit_code != 0:
                    return
            self._initialized = True
            await asyncio.gather(*(running or [asyncio.create_task(loop.live(context)) for loop in main]))
        finally:
            for loop in init:
                loop.ending.set()
                if loop.running is not None:
                    loop.running.signal(signal.SIGTERM)
            if sidecars:
                await asyncio.wait(
                    sidecars, timeout=float(self.pod["spec"].get("terminationGracePeriodSeconds", 30))
                )
                for loop in init:
                    if loop.running is not None:
                        loop.running.kill()
                await asyncio.gather(*sidecars, return_exceptions=True)

    def _closed_ports(self) -> list[int]:
        """Return the declared TCP ports where `network.blocks-rendezvous-port` is planted."""
        if BLOCKS_PORT not in self._runtime.config.defects:
            return []
        declared = [
            port for container in self.pod["spec"]["containers"] for port in container.get("ports") or []
        ]
        tcp = (port for port in declared if (port.get("protocol") or "TCP") == "TCP")
        return sorted({int(port["containerPort"]) for port in tcp})

    async def _context(self, network: PodNetwork) -> PodContext:
        addresses = {
            "status.podIP": network.ip, "status.podIPs": network.ip,
            "status.hostIP": self._node.ip, "status.hostIPs": self._node.ip,
        }  # fmt: skip
        shm = self._folder / "shm"
        shm.mkdir(parents=True)
        shm.chmod(0o1777)
        volumes = Volumes(
            self.pod, self._folder / "volumes", addresses=addresses, fetch=self._fetch, token=self._token,
            claims_of=self._claims_of(),
        )  # fmt: skip
        return PodContext(self.pod, self._folder, network, volumes, addresses, self._fetch, self._found.clear)

    def _claims_of(self) -> str:
        """Return the name of the folder that stands for a claim's volume, "" for the volume itself."""
        if CLAIMS_OF_PODS in self._runtime.config.defects:
            return str(self.pod["metadata"]["uid"])
        return self._node.spec.name if CLAIMS_APART in self._runtime.config.defects else ""

    async def _make_volumes(self, volumes: Volumes) -> None:
        told: set[str] = set()
        while True:
            try:
                await volumes.make()
            except VolumeError as error:
                if str(error) not in told:
                    told.add(str(error))
                    self._runtime.events.post(self.pod, "Warning", "FailedMount", str(error))
                if error.missing is None:
                    await self._stop.wait()
                    raise
                namespace = self.pod["metadata"]["namespace"]
                collection = f"/api/v1/namespaces/{namespace}/{error.missing.resource}"
                await wait_until_present(
                    self._runtime.api, collection, error.missing.name,
                    bound if error.missing.resource == CLAIMS else bool,
                )  # fmt: skip
                self._found.clear()
            else:
                return

    async def _fetch(self, resource: str, name: str) -> Object | None:
        known = self._found.get((resource, name))
        if known is not None:
            return known
        space = "" if resource == "persistentvolumes" else f"namespaces/{self.pod['metadata']['namespace']}/"
        path = f"/api/v1/{space}{resource}/{name}"
        try:
            self._found[resource, name] = await self._runtime.api.get(path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return self._found[resource, name]

    async def _token(self, source: Object) -> str:
        account = self.pod["spec"].get("serviceAccountName") or "default"
        path = f"/api/v1/namespaces/{self.pod['metadata']['namespace']}/serviceaccounts/{account}/token"
        spec = {"expirationSeconds": source.get("expirationSeconds") or 3600}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            answer = await self._runtime.api.create(path, body)
        except ApiError as error:
            log.info("no token for service account %s: %s", account, error)
            return ""
        return str((answer.get("status") or {}).get("token", ""))

    async def _terminate(self, live: "asyncio.Task[None]") -> None:
        for loop in self.loops:
            loop.ending.set()
        running = [loop for loop in self.loops if loop.running is not None]
        if not running:
            live.cancel()
            return
        if KEEPS_KILLED in self._runtime.config.defects and not self._grace:
            await live
            return
        for loop in running:
            if loop.running is not None:
                loop.running.signal(signal.SIGTERM)
            if not self._writer.gone and not self._at_once.is_set():
                text = f"Stopping container {loop.spec['name']}"
                self._runtime.events.post(self.pod, "Normal", "Killing", text)
        at_once = asyncio.create_task(self._at_once.wait())
        await asyncio.wait({live, at_once}, timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()
        for loop in self.loops:
            if loop.running is not None:
                loop.running.kill()

    async def _release(self) -> None:
        """Give back devices and network before the end is told, so that a successor finds them free."""
        self._node.admission.release(self.uid)
        if self._network is not None:
            try:
                network = await self._network
            except Exception as error:  # noqa: BLE001 - told as the pod's failure already
                log.info("network of %s: %s", self.pod["metadata"]["name"], error)
            else:
                await self._runtime.network.remove(network)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _reject(self, error: AdmissionError) -> None:
        self._runtime.events.post(self.pod, "Warning", error.reason, error.message)
        generation = self.pod["metadata"].get("generation")
        # As recorded with kubelet v1.34.3: no conditions, not even PodScheduled, and no container statuses.
        self._writer.want(
            {
                "phase": "Failed",
                "reason": error.reason,
                "message": f"Pod was rejected: {error.message}",
                "startTime": self._start_time,
                "conditions": None,
                **({"observedGeneration": generation} if generation is not None else {}),
            }
        )
        await self._writer.flush()

    def refresh(self) -> None:
        """Compute the status and have it written."""
        restart = self.pod["spec"].get("restartPolicy") or "Always"
        reason, message = self._end_reason
        view = status.PodView(
            init=[loop.state for loop in self.loops if loop.init],
            main=[loop.state for loop in self.loops if not loop.init],
            restart_policy=restart,
            networked=bool(self._ip),
            initialized=self._initialized or not any(loop.init for loop in self.loops),
            over=self._over,
            reason=reason,
            message=message,
        )
        generation = self.pod["metadata"].get("generation")
        on_server = self.pod.get("status", {}).get("conditions") or []
        conditions = status.merge_conditions(
            status.conditions(view), self._conditions, on_server, format_time(now()), generation
        )
        self._conditions = {c["type"]: c for c in conditions if c["type"] in status.KUBELET_CONDITIONS}
        wanted: Object = {
            "phase": status.phase(view),
            "conditions": conditions,
            "startTime": self._start_time,
            "hostIP": self._node.ip,
            "hostIPs": [{"ip": self._node.ip}],
            **status.containers(view),
        }
        if self._ip:
            wanted |= {"podIP": self._ip, "podIPs": [{"ip": self._ip}]}
        if reason and self._over:
            wanted |= {"reason": reason, "message": message}
        if generation is not None:
            wanted["observedGeneration"] = generation
        self._writer.want(wanted)


async def _begun(loop: ContainerLoop, context: PodContext) -> asyncio.Task[None]:
    """Let a container live beside the others; return once it has begun, or has ended without."""
    living = asyncio.create_task(loop.live(context))
    await asyncio.wait({living, asyncio.create_task(loop.began.wait())}, return_when=asyncio.FIRST_COMPLETED)
    return living
