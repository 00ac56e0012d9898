"""Node objects and leases: how a kubelet makes itself known and keeps itself alive."""

import asyncio
import logging
import os
import platform
from typing import Any

import aiohttp

from pytest_gpucluster.node import defects, machine
from pytest_gpucluster.node.api import Api, ApiError
from pytest_gpucluster.node.config import AgentConfig, NodeSpec
from pytest_gpucluster.plain.names import ANNOTATION_KUBELET_SOCKET
from pytest_gpucluster.plain.times import format_time, now

log = logging.getLogger(__name__)

Object = dict[str, Any]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
# The release whose recorded kubelet these nodes follow.
KUBELET_VERSION = "v1.37.0"
PRESSURES = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


QUARANTINE = ("sagemaker.amazonaws.com/node-health-status", "UnschedulablePendingReplacement")
"""Label of a quarantine: no scheduler reads it, so a node that keeps it goes on as before."""


DRIVER = ("nvidia.com/cuda.driver-version.full", "0.9.0")
"""Label of a driver that is older than any that the nodes have."""
RACK = ("topology.gpucluster.dev/rack", None)
"""Label of the finest level of the made network, which a node then lacks."""
_PLANTED: dict[str, tuple[str, str | None]] = {
    defects.QUARANTINE_FORGOTTEN: QUARANTINE,
    defects.OLD_DRIVER: DRIVER,
    defects.UNPLACED: RACK,
}


def planted_labels(spec: NodeSpec, config: AgentConfig) -> dict[str, str | None]:
    """Return the labels that planted defects change on the last node, None for those that it must not have."""
    last = config.is_last(spec.name)
    return {
        key: value if last and defect in config.defects else spec.labels.get(key)
        for defect, (key, value) in _PLANTED.items()
    }


def managed_resources(spec: NodeSpec, config: AgentConfig) -> dict[str, str]:
    """Return the resources that the node itself reports, name -> quantity."""
    extra = dict(spec.extra)
    if defects.SHORT_ONE_ADAPTER in config.defects and config.is_last(spec.name):
        extra = {name: str(int(count) - 1) for name, count in extra.items()}
    found = {"cpu": str(spec.cpus), "memory": spec.memory, "pods": str(spec.pods), **extra}
    if spec.gpus:
        found[config.gpu_resource] = str(len(machine.reported(spec, config)))
    return found


def usable_resources(spec: NodeSpec, config: AgentConfig) -> dict[str, str]:
    """Return what pods can ask for: what the node reports, without devices that are unhealthy."""
    found = managed_resources(spec, config)
    if spec.gpus:
        found[config.gpu_resource] = str(len(machine.admission(spec, config).devices.healthy))
    return found


def node_object(spec: NodeSpec, config: AgentConfig, ip: str) -> Object:
    """Return the Node object of one node, Ready."""
    moment = format_time(now())
    resources = managed_resources(spec, config)
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        **spec.labels,
        **planted_labels(spec, config),
    }
    labels = {key: value for key, value in labels.items() if value is not None}
    common = {"lastHeartbeatTime": moment, "lastTransitionTime": moment}
    conditions = [
        {"type": kind, "status": "False", "reason": reason, "message": text, **common}
        for kind, (reason, text) in PRESSURES.items()
    ]
    conditions.append(
        {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
        }
        | common
    )
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": spec.name,
            "labels": labels,
            "annotations": {ANNOTATION_KUBELET_SOCKET: config.kubelet_socket},
        },
        "spec": {},
        "status": {
            "capacity": dict(resources),
            "allocatable": usable_resources(spec, config),
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": ip},
                {"type": "Hostname", "address": spec.name},
            ],
            "nodeInfo": {
                "architecture": architecture, "operatingSystem": "linux", "kubeletVersion": KUBELET_VERSION,
                "kernelVersion": os.uname().release, "osImage": "host processes in a sandbox",
                "containerRuntimeVersion": "process://1", "kubeProxyVersion": "", "machineID": spec.name,
                "systemUUID": spec.name, "bootID": spec.name,
            },
        },
    }  # fmt: skip


async def register(api: Api, node: Object) -> None:
    """Create the Node object, or take over one of that name, and write its status.

    Raises:
        ApiError: when the API server refuses the node.
    """
    name = node["metadata"]["name"]
    try:
        await api.create("/api/v1/nodes", node)
    except ApiError as error:
        if error.code != 409:
            raise
        await api.patch(f"/api/v1/nodes/{name}", {"metadata": node["metadata"]})
    await api.patch(f"/api/v1/nodes/{name}/status", {"status": node["status"]})


async def report(api: Api, spec: NodeSpec, config: AgentConfig) -> None:
    """Write the node's own resources and labels again, as a kubelet that comes back does; others stay as they are."""
    labels = planted_labels(spec, config)
    await api.patch(f"/api/v1/nodes/{spec.name}", {"metadata": {"labels": labels}})
    status = {"capacity": managed_resources(spec, config), "allocatable": usable_resources(spec, config)}
    await api.patch(f"/api/v1/nodes/{spec.name}/status", {"status": status})


async def keep_lease(api: Api, name: str, seconds: int) -> None:
    """Create the node's lease and renew it every quarter of its duration, until cancelled."""
    first = True
    while True:
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": seconds,
            "renewTime": format_time(now(), micro=True),
        }
        lease = {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec,
        }  # fmt: skip
        try:
            if first:
                await api.create(LEASES, lease)
            else:
                await api.patch(f"{LEASES}/{name}", {"spec": spec})
            first = False
        except ApiError as error:
            first = error.code == 404
            log.log(logging.DEBUG if error.code == 409 else logging.WARNING, "lease of %s: %s", name, error)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            log.warning("lease of %s: %s", name, error)
        await asyncio.sleep(seconds / 4)


def unmanaged_difference(node: Object, managed: dict[str, str]) -> dict[str, str | None]:
    """Return what must change in `allocatable` so that foreign extended resources equal capacity.

    A kubelet leaves capacity of resources that no device plugin manages as an administrator patched it, and
    copies it to allocatable. Removed ones are mapped to None.
    """
    state = node.get("status") or {}
    capacity, allocatable = state.get("capacity") or {}, state.get("allocatable") or {}
    wanted = {key: value for key, value in capacity.items() if key not in managed}
    change: dict[str, str | None] = {
        key: value for key, value in wanted.items() if allocatable.get(key) != value
    }
    change |= {key: None for key in allocatable if key not in managed and key not in wanted}
    return change
