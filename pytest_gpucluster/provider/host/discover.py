"""Look at a machine: its GPUs by whichever way leads to some, then all else."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_gpucluster.provider.host import kfd, nvml, sysfs
from pytest_gpucluster.provider.host.inventory import OFFER, HostProblem, Inventory, Vendor
from pytest_gpucluster.provider.protocol import ProviderError


def look(
    root: Path = Path("/"),
    library: Callable[[], Any] = nvml.library,
    cpus: frozenset[int] | None = None,
    visible: str | None = None,
) -> Inventory:
    """Return what is found on a machine.

    Args:
        root: folder of the machine's root.
        library: returns the module that speaks NVML.
        cpus: CPUs that this process may use; None: as the kernel says.
        visible: `CUDA_VISIBLE_DEVICES` of this process.

    Raises:
        ProviderError: no GPU; one line that names what was looked for and offers the embedded cluster.
    """
    vendor = _vendor(root, library, visible)
    nodes, memory, notes = sysfs.numa_nodes(root, cpus or frozenset(os.sched_getaffinity(0)))
    adapters = tuple(sysfs.adapters(root))
    if all(gpu.numa is None for gpu in vendor.gpus):
        notes = [*notes, f"no GPU has a NUMA node (/{sysfs.PCI}/*/numa_node): pods cannot be aligned"]
    return Inventory(
        vendor, nodes, memory, adapters, sysfs.shared_rdma(root), sysfs.product(root), str(root), tuple(notes)
    )


def _vendor(root: Path, library: Callable[[], Any], visible: str | None) -> Vendor:
    tried = []
    ways: tuple[Callable[[], Vendor], ...] = (
        lambda: nvml.read(library(), root, visible),
        lambda: kfd.read(root),
    )
    for way in ways:
        try:
            found = way()
        except HostProblem as problem:
            tried.append(str(problem))
            continue
        if any(not gpu.problem for gpu in found.gpus):
            return found
        said = "; ".join(found.notes) or (
            f"none that CUDA_VISIBLE_DEVICES={visible} names" if visible is not None else "it finds none"
        )
        tried.append(
            f"NVML answers, but no GPU can be used: {said}" if found.resource == nvml.RESOURCE else said
        )
    raise ProviderError(f"no usable GPU was found on this host: {'; '.join(tried)}{OFFER}")


@functools.cache
def this_machine() -> Inventory:
    """Return what is found on the machine on which this runs; it is looked at once.

    Raises:
        ProviderError: no GPU.
    """
    nvml.make_files()
    return look(visible=os.environ.get("CUDA_VISIBLE_DEVICES"))
