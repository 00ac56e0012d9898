"""One container of a pod through its runs: start, readiness, end, back-off, start again."""

import asyncio
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_gpucluster.node import environment, faults, gateway, images, names, probes, status
from pytest_gpucluster.node.admission import Grant
from pytest_gpucluster.node.api import wait_until_present
from pytest_gpucluster.node.config import Image
from pytest_gpucluster.node.container import DEFAULT_PATH, Launch, RunningContainer, StartError
from pytest_gpucluster.node.defects import (
    HOSTNAME_LOOPBACK,
    KEEPS_EXIT_ZERO,
    KEEPS_REFERENCES,
    NEVER_RESTARTS,
    SHARED_CPUS,
)
from pytest_gpucluster.node.logs import ContainerLog
from pytest_gpucluster.node.network import PodNetwork
from pytest_gpucluster.node.rootfs import Mount, Rootfs
from pytest_gpucluster.node.runtime import Runtime, first_of
from pytest_gpucluster.node.volumes import VolumeError, Volumes
from pytest_gpucluster.plain.names import DEVICES_VARIABLE
from pytest_gpucluster.plain.times import format_time, now

Object = dict[str, Any]
# A kubelet begins with 10 s and ends with 300 s; shortened so that a test sees restarts.
BACKOFF_FIRST, BACKOFF_LIMIT = 0.2, 10.0
TERMINATION_LOG = "/dev/termination-log"
# Sizes as in Kubernetes (FallbackToLogsOnError: 2048 bytes).
TERMINATION_BYTES, FALLBACK_BYTES = 4096, 2048


@dataclass(frozen=True)
class PodContext:
    """What a container needs of its pod once the pod has its network and its volumes."""

    pod: Object
    folder: Path
    network: PodNetwork
    volumes: Volumes
    addresses: Mapping[str, str]
    fetch: environment.Fetch
    forget: Callable[[], None]


class ContainerLoop:
    """One container, started as often as its restart policy says.

    Attributes:
        spec: Its spec.
        state: What its status shows.
        running: The present run, None while none was asked to start.
        ending: Set when it must not be started again and waits must end.
        began: Set when a run has started for the first time.
    """

    def __init__(
        self,
        runtime: Runtime,
        pod: Object,
        spec: Object,
        *,
        init: bool,
        granted: Grant,
        changed: Callable[[], None],
    ) -> None:
        """Describe the container; `live` runs it.

        Args:
            runtime: What pods share.
            pod: The pod.
            spec: Spec of the container.
            init: Whether it is an init container.
            granted: GPUs and whole CPUs that it was given.
            changed: Called whenever `state` changed.
        """
        self.spec = spec
        self.init = init
        self.state = status.ContainerState(
            spec["name"], spec.get("image", ""), status.waiting("ContainerCreating")
        )
        self.running: RunningContainer | None = None
        self.ending = asyncio.Event()
        self.began = asyncio.Event()
        self._runtime = runtime
        self._pod = pod
        self._granted = granted
        self._changed = changed
        self._logs: list[ContainerLog] = []
        self._told: set[str] = set()

    @property
    def sidecar(self) -> bool:
        """Report whether this is an init container that goes on beside the others."""
        return self.init and self.spec.get("restartPolicy") == "Always"

    def log(self, *, previous: bool) -> ContainerLog | None:
        """Return the log of the present or the previous run, None where there is none."""
        index = -2 if previous else -1
        return self._logs[index] if len(self._logs) >= -index else None

    async def live(self, context: PodContext) -> None:
        """Run until the container has ended for good; its state tells how."""
        delay = BACKOFF_FIRST
        while not self.ending.is_set():
            await self._once(context)
            code = self.state.exit_code
            if code is None or self.ending.is_set() or not self._again(code):
                return
            ended = self.state.state
            why = f"back-off {delay:g}s restarting failed container={self.spec['name']}"
            self._show(status.waiting("CrashLoopBackOff", why), last=ended)
            self._warn("BackOff", f"Back-off restarting failed container {self.spec['name']}")
            if await first_of(self.ending, asyncio.sleep(delay)):
                delay = min(delay * 2, BACKOFF_LIMIT)
                self.state.restarts += 1
                context.forget()
            else:
                self._show(ended)

    def _again(self, code: int) -> bool:
        policy = self._pod["spec"].get("restartPolicy") or "Always"
        if self.sidecar:
            return True
        if NEVER_RESTARTS in self._runtime.config.defects:
            return False
        if self.init:
            return code != 0 and policy != "Never"
        return policy == "Always" or (policy == "OnFailure" and code != 0)

    async def _once(self, context: PodContext) -> None:
        image = images.resolve(self._runtime.config.images, self.spec.get("image", ""))
        if image is None:
            self._no_image()
            await self.ending.wait()
            return
        self.state.container_id = f"process://{secrets.token_hex(32)}"
        began = format_time(now())
        try:
            variables = await self._variables(context, image)
            if variables is None:
                return
            async with self._runtime.gate:
                if self.ending.is_set():
                    return
                rootfs, running = await self._start(context, image, variables)
        except (StartError, VolumeError, OSError) as error:
            code = error.exit_code if isinstance(error, StartError) else 128
            # A run that never started is dated to the beginning of time by a kubelet.
            self._ended(code, "1970-01-01T00:00:00Z", reason="StartError", message=str(error))
            self._warn("Failed", f"Error: {error}", every=True)
            return
        began = format_time(now())
        ready = "readinessProbe" not in self.spec
        self._show({"running": {"startedAt": began}}, ready=ready)
        self.began.set()
        code = await self._until_end(running, context.network.ip)
        message = self._termination_message(rootfs, code)
        self.running = None
        self._ended(code, began, message=message)
        await asyncio.to_thread(shutil.rmtree, rootfs.base, ignore_errors=True)

    async def _until_end(self, running: RunningContainer, ip: str) -> int:
        probing = None
        if "readinessProbe" in self.spec:
            probing = asyncio.create_task(probes.watch(self.spec, ip, running, self._probed))
        try:
            return await running.wait()
        finally:
            if probing is not None:
                probing.cancel()
                await asyncio.gather(probing, return_exceptions=True)

    def _probed(self, ready: bool, seen: str) -> None:
        if self.state.running and ready != self.state.ready:
            self._show(self.state.state, ready=ready)
        if not ready:
            self._warn("Unhealthy", f"Readiness probe failed: {seen}")

    async def _variables(self, context: PodContext, image: Image) -> dict[str, str] | None:
        base = {
            "PATH": ":".join([*image.path, DEFAULT_PATH]),
            "HOSTNAME": names.hostname(self._pod),
            "HOME": "/root",
            **image.env,
        }
        if self._runtime.config.pod_socket is not None:
            base |= gateway.variables(self._runtime.addresses.bridge)
        config, node = self._runtime.config, str(self._pod["spec"].get("nodeName"))
        played = any(spec.name == node and spec.hardware is None for spec in config.nodes)
        base |= faults.variables(
            config.defects,
            image.env.get("PYTHONPATH", ""),
            gpus=played and DEVICES_VARIABLE in self._granted.variables,
            last=config.is_last(node),
        )
        base |= self._granted.variables
        namespace = self._pod["metadata"]["namespace"]
        while not self.ending.is_set():
            try:
                return await environment.build(self.spec, context.pod, context.addresses, context.fetch, base)
            except environment.MissingObjectError as error:
                self._config_error(str(error))
                collection = f"/api/v1/namespaces/{namespace}/{error.resource}"
                await first_of(self.ending, wait_until_present(self._runtime.api, collection, error.name))
                context.forget()
            except environment.MissingKeyError as error:
                self._config_error(str(error))
                await self.ending.wait()
        return None

    async def _start(
        self, context: PodContext, image: Image, variables: Mapping[str, str]
    ) -> tuple[Rootfs, RunningContainer]:
        name = self.spec["name"]
        base = context.folder / "containers" / f"{name}-{self.state.restarts}"
        rootfs = Rootfs(base, self._runtime.layout)
        await asyncio.to_thread(self._build, rootfs, context, image, variables)
        log = ContainerLog(
            self._runtime.logs / _log_folder(self._pod) / name / f"{self.state.restarts}.log",
        )
        self._logs = [*self._logs[-1:], log]
        launch = Launch(
            command=self._command(image, variables),
            env=variables,
            workdir=self.spec.get("workingDir") or "/",
            rootfs=rootfs,
            network=context.network,
            log=log,
            cpus=self._own_cpus(),
            memory=tuple(self._granted.memory),
        )
        self.running = RunningContainer(launch)
        try:
            await self.running.started()
        except BaseException:
            self.running.kill()
            self.running = None
            log.close()
            raise
        return rootfs, self.running

    def _own_cpus(self) -> tuple[int, ...]:
        """Return the host's CPUs on which this container runs, none for any."""
        return () if SHARED_CPUS in self._runtime.config.defects else self._granted.pinned

    def _command(self, image: Image, variables: Mapping[str, str]) -> list[str]:
        own = self.spec.get("command") or list(image.entrypoint)
        command = [*own, *(self.spec.get("args") or [])]
        if KEEPS_REFERENCES not in self._runtime.config.defects:
            command = environment.expand_all(command, variables)
        if not command:
            raise StartError(128, "no command specified")
        return command

    def _build(self, rootfs: Rootfs, context: PodContext, image: Image, variables: Mapping[str, str]) -> None:
        config = self._runtime.config
        loopback = HOSTNAME_LOOPBACK in config.defects
        etc = {
            "hosts": names.hosts_file(self._pod, context.network.ip, config.dns_domain, loopback=loopback),
            "hostname": names.hostname(self._pod) + "\n",
            "resolv.conf": names.resolv_conf(self._pod, self._runtime.addresses.bridge, config.dns_domain),
        }
        rootfs.base.mkdir(parents=True)
        mounts = [*images.mounts(image, rootfs.base), *context.volumes.mounts(self.spec, variables)]
        path = self.spec.get("terminationMessagePath") or TERMINATION_LOG
        message = rootfs.base / "termination-log"
        message.touch()
        mounts.append(Mount(path, message))
        rootfs.build(etc_files=etc, shm=context.folder / "shm", mounts=mounts, devices=self._granted.files)

    def _termination_message(self, rootfs: Rootfs, code: int) -> str:
        text = (rootfs.base / "termination-log").read_bytes()[:TERMINATION_BYTES].decode(errors="replace")
        if text or code == 0 or self.spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return text
        log = self.log(previous=False)
        return log.tail(FALLBACK_BYTES) if log is not None else ""

    def _ended(self, code: int, began: str, *, reason: str = "", message: str = "") -> None:
        if KEEPS_EXIT_ZERO in self._runtime.config.defects:
            code, reason = 0, ""
        ended = status.terminated(
            code, container_id=self.state.container_id, started=began, finished=format_time(now()),
            reason=reason, message=message,
        )  # fmt: skip
        self._show(ended)

    def _show(self, state: Object, *, ready: bool = False, last: Object | None = None) -> None:
        self.state.state = state
        self.state.ready = ready
        if last is not None:
            self.state.last = last
        self._changed()

    def _no_image(self) -> None:
        name = self.spec.get("image", "")
        if self.spec.get("imagePullPolicy") == "Never":
            reason = "ErrImageNeverPull"
            text = f'Container image "{name}" is not present with pull policy of Never'
        else:
            reason = "ErrImagePull"
            text = f'Failed to pull image "{name}": the image table of this node does not have it'
        self._show(status.waiting(reason, text))
        self._warn("ErrImageNeverPull" if reason == "ErrImageNeverPull" else "Failed", text)
        self._warn("Failed", f"Error: {reason}")

    def _config_error(self, text: str) -> None:
        self._show(status.waiting("CreateContainerConfigError", text))
        self._warn("Failed", f"Error: {text}")

    def _warn(self, reason: str, message: str, *, every: bool = False) -> None:
        """Post a Warning; the same one only once, since each costs a request."""
        if every or message not in self._told:
            self._told.add(message)
            kind = "initContainers" if self.init else "containers"
            field = f"spec.{kind}{{{self.spec['name']}}}"
            self._runtime.events.post(self._pod, "Warning", reason, message, field)


def _log_folder(pod: Object) -> str:
    meta = pod["metadata"]
    return f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
