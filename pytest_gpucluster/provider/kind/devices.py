"""GPUs that are not there, on the workers of a kind cluster: NUMA nodes that kubelets see, and a device plugin."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.provider.kind import claims, gpu_plugin, notes, numa_tree, waiting
from pytest_gpucluster.provider.protocol import ProviderError

NUMA_NODES = 2
OFFER_LIMIT = 120.0
"""Seconds until the workers offer the GPUs: the plugin's pods start, and kubelets tell the API server."""

LOCAL = "unix://"
"""How the address of an engine begins that sees the files of this machine."""


def tree(name: str) -> Path | None:
    """Write the NUMA nodes that the workers of a cluster see; None where they keep those of their host.

    It lies beside the claim on the cluster, for as long as the cluster lives.
    """
    address = os.environ.get("DOCKER_HOST", "")
    if (address and not address.startswith(LOCAL)) or not Path(numa_tree.MOUNT).is_dir():
        return None
    folder = claims.folder() / f"{name}.numa"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        return numa_tree.write_numa_tree(folder, NUMA_NODES).folder
    except numa_tree.NumaTreeError:
        # One CPU: the kubelet of a single NUMA node still refuses what fits no node.
        return None


def install(api: objects.Objects, image: str, nodes: Sequence[str], resource: str, count: int) -> None:
    """Give nodes their GPUs and wait until they offer them.

    Raises:
        ProviderError: an object is refused, or a node does not offer them in time; names it.
    """
    if count == 0:
        return
    settings = {gpu_plugin.DEFAULT: {resource: gpu_plugin.Devices.dealt(count, NUMA_NODES)}}
    try:
        for each in gpu_plugin.objects(image, settings):
            notes.apply(api, each)
    except errors.GpuClusterError as error:
        raise ProviderError(f"the device plugin was refused: {error}") from None
    waiting.offers(api, nodes, resource, count, OFFER_LIMIT)
