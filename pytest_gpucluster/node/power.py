"""Restart of a node's machine: everything on it ends, and comes back in its own time."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from pytest_gpucluster.node import defects
from pytest_gpucluster.node.api import ApiError
from pytest_gpucluster.node.pod import PodWorker
from pytest_gpucluster.node.runtime import PlayedNode, Runtime
from pytest_gpucluster.plain.times import format_time, now

log = logging.getLogger(__name__)

Object = dict[str, Any]

BOOT_SECONDS = 0.2
"""From the end of everything until the kubelet is there again; 4.5 s recorded with a container for a machine."""
PLUGIN_SECONDS = 0.3
"""From then until the device plugin, itself a pod, has registered; 11 s recorded."""
LATE_SECONDS = 3.0
"""The same where `node.late-plugin` is planted."""


async def restart(
    runtime: Runtime, node: PlayedNode, workers: Callable[[], Iterable[PodWorker]], up: asyncio.Event
) -> None:
    """Restart one node.

    Recorded with kubelet v1.34.3: pods that hold devices are refused by the kubelet that comes back, since their device
    plugin is not there yet, and end as Failed with UnexpectedAdmissionError; the node offers no devices until the
    plugin has registered.

    Args:
        runtime: What the nodes share.
        node: The node.
        workers: Returns the pods that are on it.
        up: Set while the node's kubelet takes pods.
    """
    late = defects.LATE_PLUGIN in runtime.config.defects
    resource, name = runtime.config.gpu_resource, node.spec.name
    up.clear()
    node.admission.devices.registered = False
    for worker in list(workers()):
        worker.power_off()
    nothing = {} if late or not node.spec.gpus else {"allocatable": {resource: "0"}}
    await _tell(runtime, name, ready=False, reason="KubeletNotReady", change=nothing)
    await asyncio.sleep(BOOT_SECONDS)
    info = {"nodeInfo": {"bootID": str(uuid.uuid4())}}
    await _tell(runtime, name, ready=True, reason="KubeletReady", change=info)
    up.set()
    await asyncio.sleep(LATE_SECONDS if late else PLUGIN_SECONDS)
    node.admission.devices.registered = True
    await offer(runtime, node)


async def offer(runtime: Runtime, node: PlayedNode) -> None:
    """Write how many devices of a node can be asked for now."""
    if node.spec.gpus:
        usable = {runtime.config.gpu_resource: str(len(node.admission.devices.healthy))}
        await _patch(runtime, node.spec.name, {"allocatable": usable})


async def _tell(runtime: Runtime, name: str, *, ready: bool, reason: str, change: Object) -> None:
    """Write whether a node is Ready, and what changes with it."""
    moment = format_time(now())
    try:
        found = await runtime.api.get(f"/api/v1/nodes/{name}")
    except ApiError as error:
        log.warning("node %s: %s", name, error)
        return
    conditions = [c for c in found["status"].get("conditions") or [] if c.get("type") != "Ready"]
    text = "kubelet is posting ready status" if ready else "container runtime is down"
    mine = {
        "type": "Ready", "status": "True" if ready else "False", "reason": reason, "message": text,
        "lastHeartbeatTime": moment, "lastTransitionTime": moment,
    }  # fmt: skip
    await _patch(runtime, name, {"conditions": [*conditions, mine], **change})


async def _patch(runtime: Runtime, name: str, status: Object) -> None:
    try:
        await runtime.api.patch(f"/api/v1/nodes/{name}/status", {"status": status})
    except ApiError as error:
        log.warning("node %s: %s", name, error)
