"""The configuration of a kind cluster: ours as data, or the operator's own, with what differs filled in."""

import importlib.resources
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from pytest_gpucluster.provider.kind import shared_disk
from pytest_gpucluster.provider.protocol import ProviderError

OURS = "cluster.yaml"
NUMA_TREE = "/sys/devices/system/node"
WORKER = "worker"


def read(path: str | None) -> dict[str, Any]:
    """Return a configuration: that of a file, or ours.

    Raises:
        ProviderError: the file cannot be read or is no kind configuration.
    """
    if path is None:
        text = importlib.resources.files(__package__).joinpath(OURS).read_text(encoding="utf-8")
        return dict(yaml.safe_load(text))
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        words = " ".join(str(error).split())
        raise ProviderError(f"kind.config: {path} cannot be read: {words}") from None
    nodes = data.get("nodes") if isinstance(data, dict) and data.get("kind") == "Cluster" else None
    if not nodes or not isinstance(nodes, list):
        raise ProviderError(f"kind.config: {path} is not a kind cluster configuration with nodes")
    for place, node in enumerate(nodes):
        if not isinstance(node, dict):
            told = f"nodes[{place}] is {node!r}, but must be an object such as {{role: worker}}"
            raise ProviderError(f"kind.config: {path}: {told}")
    return dict(data)


def write(
    path: Path,
    data: dict[str, Any],
    *,
    name: str,
    image: str | None,
    mounts: Iterable[tuple[str, str]] = (),
    numa_tree: str | None = None,
    shared: str | None = None,
) -> None:
    """Write a configuration for one cluster.

    Args:
        path: the file.
        data: what `read` returned.
        name: the cluster's name.
        image: image of all nodes; None for what the configuration or kind says.
        mounts: host path and node path of what all nodes see, read-only.
        numa_tree: folder that workers see in place of the host's NUMA nodes.
        shared: folder that all nodes share, for volumes.
    """
    nodes = []
    for node in data["nodes"]:
        own = [_mount(host, inside) for host, inside in mounts]
        if numa_tree is not None and node.get("role") == WORKER:
            own.append(_mount(numa_tree, NUMA_TREE))
        if shared is not None:
            own.append({"hostPath": shared, "containerPath": shared_disk.VOLUMES})
        changed = {**node, **({"image": image} if image else {})}
        if own:
            changed["extraMounts"] = [*(node.get("extraMounts") or []), *own]
        nodes.append(changed)
    whole = {**data, "name": name, "nodes": nodes}
    if shared is not None:
        # First: what the operator's own patches say of it goes before.
        whole["kubeadmConfigPatches"] = [
            shared_disk.CONTROLLER_PATCH,
            *(data.get("kubeadmConfigPatches") or []),
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")


def _mount(host: str, inside: str) -> dict[str, Any]:
    return {"hostPath": host, "containerPath": inside, "readOnly": True}
