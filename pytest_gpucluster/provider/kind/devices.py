"""GPUs that are not there, on the workers of a kind cluster: NUMA nodes that kubelets see, and a device plugin."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.provider.kind import claims, gpu_plugin, notes, numa_tree, waiting
from pytest_gpucluster.provider.kind import engine as engines
from pytest_gpucluster.provider.protocol import ProviderError

NUMA_NODES = 2
WITHOUT = "gpucluster.dev/gpus"
"""Label of a worker; with the value "0" it gets no GPUs."""
OFFER_LIMIT = 120.0
"""Seconds until the workers offer the GPUs: the plugin's pods start, and kubelets tell the API server."""


OF_GPU_NODES = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": WITHOUT, "operator": "NotIn", "values": ["0"]}]}
            ]
        }
    }
}
"""Affinity of the plugin: a node without GPUs runs none."""


def without(node: Mapping[str, Any]) -> bool:
    """Report whether a node is one without GPUs."""
    return ((node.get("metadata") or {}).get("labels") or {}).get(WITHOUT) == "0"


def tree(name: str, engine: engines.Engine) -> Path | None:
    """Write the NUMA nodes that the workers of a cluster see; None where they keep those of their host.

    It lies beside the claim on the cluster, for as long as the cluster lives.
    """
    if not engine.sees_this_machine or not Path(numa_tree.MOUNT).is_dir():
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
        for each in gpu_plugin.objects(image, settings, overlay={"affinity": OF_GPU_NODES}):
            notes.apply(api, each)
    except errors.GpuClusterError as error:
        raise ProviderError(f"the device plugin was refused: {error}") from None
    waiting.offers(api, nodes, resource, count, OFFER_LIMIT)
