"""The machine under one node: its NUMA nodes and GPUs, who hands them out, and what its kubelet says of itself."""

import dataclasses
from collections.abc import Collection
from typing import Any

from pytest_gpucluster.node import defects
from pytest_gpucluster.node.adapters import PlayedAdapters
from pytest_gpucluster.node.admission import Admission
from pytest_gpucluster.node.config import AgentConfig, NodeSpec
from pytest_gpucluster.node.cpus import CpuManager
from pytest_gpucluster.node.device_env import Handing
from pytest_gpucluster.node.devices import Device, DeviceManager, node_devices, of_machine

_POLICIES = {
    defects.TOPOLOGY_NONE: "none",
    defects.TOPOLOGY_BEST_EFFORT: "best-effort",
    defects.TOPOLOGY_RESTRICTED: "restricted",
}


def configured(spec: NodeSpec, config: AgentConfig) -> NodeSpec:
    """Return what a node is told to be, planted departures included: they hit the last node."""
    if not config.is_last(spec.name):
        return spec
    for defect, policy in _POLICIES.items():
        if defect in config.defects:
            spec = dataclasses.replace(spec, topology_policy=policy)
    if defects.TOPOLOGY_CONTAINER in config.defects:
        spec = dataclasses.replace(spec, topology_scope="container")
    return spec


def reported(spec: NodeSpec, config: AgentConfig) -> tuple[Device, ...]:
    """Return the devices that the node's device plugin reports to the kubelet."""
    found = node_devices(spec)
    if defects.PLUGIN_WITHOUT_NUMA in config.defects:
        found = tuple(dataclasses.replace(device, numa=None) for device in found)
    if defects.SHORT_ONE_GPU in config.defects and config.is_last(spec.name):
        found = found[:-1]
    return found


def admission(spec: NodeSpec, config: AgentConfig) -> Admission:
    """Return who decides which pods a node takes, and hands out its devices and CPUs."""
    told = configured(spec, config)
    machine = numa_nodes(spec, config)
    devices = DeviceManager(
        reported(spec, config),
        config.gpu_resource,
        machine,
        scattered=defects.MISALIGNED in config.defects,
    )
    if defects.DEVICE_UNHEALTHY in config.defects and config.is_last(spec.name) and spec.gpus:
        devices.unhealthy = frozenset({node_devices(spec)[-1].id})
    policy = told.topology_policy
    if defects.TOPOLOGY_STALE in config.defects and config.is_last(spec.name):
        policy = "best-effort"
    real = spec.hardware
    if real is not None:
        devices.unhealthy |= {device.id for device in real.devices if not device.healthy}
    cpus = CpuManager(
        spec.cpus,
        machine,
        static=told.cpu_policy == "static",
        places=real.numa_of_cpu if real is not None else None,
    )
    return Admission(
        policy,
        told.topology_scope,
        devices,
        cpus,
        machine,
        handing=handing(spec, config),
        further=_further(spec, machine),
        memory=told.memory_policy == "Static",
        blind_to_init=defects.INIT_UNALIGNED in config.defects,
    )


def _further(spec: NodeSpec, machine: Collection[int]) -> dict[str, DeviceManager]:
    """Return who hands out what a real machine has beside GPUs."""
    has = spec.hardware
    if has is None:
        return {}
    found = {}
    for name, devices in has.further.items():
        found[name] = DeviceManager(of_machine(has, devices), name, machine)
        found[name].unhealthy = frozenset(device.id for device in devices if not device.healthy)
    return found


def numa_nodes(spec: NodeSpec, config: AgentConfig) -> list[int]:
    """Return the NUMA nodes that a node's machine has."""
    if spec.hardware is not None and spec.hardware.cpus:
        return sorted(spec.hardware.cpus)
    return list(range(1 if defects.ONE_NUMA_NODE in config.defects else spec.numa))


def handing(spec: NodeSpec, config: AgentConfig) -> Handing:
    """Return how containers of a node see what they were given."""
    leaks = defects.DEVICES_LEAK in config.defects
    shares = defects.SHARES_A_DEVICE in config.defects
    return Handing(
        spec.hardware,
        leaked=node_devices(spec) if leaks else (),
        shares=shares,
        adapters=_adapters(spec, config),
    )


def _adapters(spec: NodeSpec, config: AgentConfig) -> PlayedAdapters | None:
    """Return the RDMA adapters that a node plays, None for none."""
    told = config.adapters
    count = int(spec.extra.get(str(told.get("resource")), "0"))
    if not count:
        return None
    waiting = defects.PORT_WAITS in config.defects and config.is_last(spec.name)
    folder = config.state_dir / "adapters" / spec.name
    return PlayedAdapters(told["resource"], count, float(told["gbps"]), str(told["layer"]), folder, waiting)


def configz(spec: NodeSpec, config: AgentConfig) -> dict[str, Any]:
    """Return what the kubelet answers on `/configz`, as far as anybody asks."""
    told = configured(spec, config)
    return {
        "kubeletconfig": {
            "topologyManagerPolicy": told.topology_policy,
            "topologyManagerScope": told.topology_scope,
            "cpuManagerPolicy": told.cpu_policy,
            "memoryManagerPolicy": told.memory_policy,
            "maxPods": spec.pods,
        }
    }
