"""Make nodes of a machine: which GPUs, CPUs, memory and adapters each has. Pure."""

import dataclasses
from collections.abc import Container, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pytest_gpucluster.plain import names
from pytest_gpucluster.profile import LoadedProfile
from pytest_gpucluster.provider.host.inventory import Adapter, Gpu, Inventory
from pytest_gpucluster.provider.host.labels import labels
from pytest_gpucluster.provider.protocol import ProviderError

RDMA = "rdma/hca"
"""Resource of the machine's RDMA adapters."""


@dataclasses.dataclass(frozen=True)
class Share:
    """What one node has.

    Attributes:
        gpus: its GPUs.
        cpus: NUMA node -> its CPUs.
        memory: KiB.
    """

    gpus: tuple[Gpu, ...]
    cpus: Mapping[int, tuple[int, ...]]
    memory: int


def shares(inventory: Inventory, count: int, chosen: Sequence[Sequence[str]] = ()) -> list[Share]:
    """Divide a machine among nodes.

    Args:
        inventory: what was found.
        count: how many nodes.
        chosen: GPUs of each node by number, UUID or PCI address; none: equal consecutive parts.

    Raises:
        ProviderError: the GPUs cannot be divided so; one line.
    """
    groups = _chosen(inventory.vendor.gpus, chosen) if chosen else _parts(inventory.vendor.gpus, count)
    _alike(groups)
    homes = {node: _home(node, groups, inventory.cpus) for node in inventory.cpus}
    return [
        Share(
            tuple(group),
            {node: part for node, cpus in inventory.cpus.items() if (part := _part(cpus, homes[node], at))},
            sum(inventory.memory.get(node, 0) // len(home) for node, home in homes.items() if at in home),
        )
        for at, group in enumerate(groups)
    ]


def _parts(gpus: Sequence[Gpu], count: int) -> list[list[Gpu]]:
    if len(gpus) % count:
        raise ProviderError(
            f"host.nodes: {len(gpus)} GPUs cannot be divided evenly among {count} nodes; assign them with host.gpus"
        )
    size = len(gpus) // count
    return [list(gpus[at * size : (at + 1) * size]) for at in range(count)]


def _chosen(gpus: Sequence[Gpu], chosen: Sequence[Sequence[str]]) -> list[list[Gpu]]:
    known: dict[str, Gpu] = {}
    for gpu in gpus:
        for word in (gpu.id, gpu.pci, "" if gpu.mig else str(gpu.index)):
            if word:
                known.setdefault(word, gpu)
    taken: set[str] = set()
    groups = []
    for words in chosen:
        group = []
        for word in words:
            if word not in known:
                raise ProviderError(
                    f"host.gpus: no GPU {word!r} on this host{names.did_you_mean(word, known)}"
                )
            if known[word].id in taken:
                raise ProviderError(f"host.gpus: GPU {word!r} is named twice")
            taken.add(known[word].id)
            group.append(known[word])
        groups.append(group)
    return groups


def _alike(groups: Sequence[Sequence[Gpu]]) -> None:
    for at, group in enumerate(groups):
        shapes = {gpu.mig for gpu in group if not gpu.problem}
        if len(shapes) > 1:
            found = ", ".join(sorted(shape or "whole GPUs" for shape in shapes))
            raise ProviderError(
                f"node {at} would have {found} under one resource: make all MIG slices alike, or choose with host.gpus"
            )


def _home(node: int, groups: Sequence[Sequence[Gpu]], known: Container[int]) -> list[int]:
    """Return which nodes share the CPUs of a NUMA node: those with a GPU there or nowhere known, else all."""
    near = [
        at
        for at, group in enumerate(groups)
        if any(gpu.numa == node for gpu in group) or not any(gpu.numa in known for gpu in group)
    ]
    return near or list(range(len(groups)))


def _part(cpus: Sequence[int], home: Sequence[int], at: int) -> tuple[int, ...]:
    """Return a node's part of a NUMA node's CPUs; with fewer CPUs than nodes each has all of them."""
    if at not in home:
        return ()
    if len(cpus) < len(home):
        return tuple(cpus)
    place, parts = home.index(at), len(home)
    return tuple(cpus[place * len(cpus) // parts : (place + 1) * len(cpus) // parts])


def node_entries(loaded: LoadedProfile, inventory: Inventory) -> list[dict[str, Any]]:
    """Return the nodes as their agent is told them."""
    profile = loaded.profile
    declared = profile.numa
    entries = []
    for index, share in enumerate(shares(inventory, profile.host.nodes, profile.host.gpus)):
        entries.append(
            {
                "name": f"gpu-{index}",
                "memory": f"{share.memory}Ki" if share.memory else "1Gi",
                "topology_policy": declared.policy if declared is not None else "none",
                "topology_scope": declared.scope if declared is not None else "container",
                "cpu_policy": "static",
                "memory_policy": "Static" if len(inventory.cpus) > 1 else "None",
                "labels": labels(inventory, share.gpus),
                "extra": {RDMA: str(len(near))} if (near := _near(inventory, share)) else {},
                "hardware": _hardware(inventory, share),
            }
        )
    return entries


def _near(inventory: Inventory, share: Share) -> list[Adapter]:
    """Return the adapters on a node's NUMA nodes, shared with other nodes there, and those that are on none."""
    return [
        adapter
        for adapter in inventory.hcas
        if adapter.numa not in inventory.cpus or adapter.numa in share.cpus
    ]


def _hardware(inventory: Inventory, share: Share) -> dict[str, Any]:
    hcas = [
        {"id": adapter.name, "numa": adapter.numa, "files": list(adapter.files)}
        for adapter in _near(inventory, share)
    ]
    return {
        "root": inventory.root,
        "devices": [
            {"id": gpu.id, "numa": gpu.numa, "files": list(gpu.files), "healthy": not gpu.problem}
            for gpu in share.gpus
        ],
        "shared": list(inventory.vendor.shared),
        "cpus": {str(node): list(cpus) for node, cpus in share.cpus.items()},
        "further": {RDMA: hcas} if hcas else {},
        "files": {RDMA: list(inventory.rdma)} if hcas else {},
        "variables": list(inventory.vendor.variables),
    }


def environment(patterns: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of this process that containers get, as those of an image."""
    return {
        name: value
        for name, value in sorted(given.items())
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
