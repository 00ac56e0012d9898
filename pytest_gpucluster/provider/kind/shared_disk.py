"""A disk that all nodes of a kind cluster share, and the class of which claims get parts of it.

Nodes are containers of one machine: a folder of it is mounted into each, where Kubernetes' own provisioner of host
paths, which kind switches on, makes its volumes. The controller manager mounts it too, so that it makes and removes
what lies there. Claims are bound, mounted by several nodes and given back by real components.
"""

import shutil
from pathlib import Path
from typing import Any

import yaml

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.provider.kind import claims, notes
from pytest_gpucluster.provider.kind import engine as engines
from pytest_gpucluster.provider.protocol import ProviderError

CLASS = "shared"
"""Name of the StorageClass."""
VOLUMES = "/tmp/hostpath_pv"  # noqa: S108 - in the nodes; the provisioner knows no other place
"""Where the provisioner makes volumes, on every node."""
PROVISIONER = "kubernetes.io/host-path"
NOTE = "shared-disk"
"""What a cluster that was made with it has among its notes."""
CONTROLLER_PATCH = yaml.safe_dump(
    {
        "kind": "ClusterConfiguration",
        "controllerManager": {
            "extraVolumes": [
                {"name": CLASS, "hostPath": VOLUMES, "mountPath": VOLUMES, "pathType": "Directory"}
            ]
        },
    }
)
"""What kubeadm is told, so that the controller manager sees the folder."""


def make(name: str, where: engines.Engine) -> Path | None:
    """Make the folder of a cluster, beside the claim on it; None where the engine sees no files of this machine."""
    if not where.sees_this_machine:
        return None
    folder = claims.shared_folder(name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def install(api: objects.Objects, name: str, *, fresh: bool, asked: bool) -> None:
    """Put the class into a cluster whose nodes share the disk.

    Args:
        api: the cluster.
        name: of the cluster.
        fresh: whether it was made just now.
        asked: whether the profile keeps checkpoints on the class.

    Raises:
        ProviderError: the class is refused; or it is asked for, and the cluster was made before there was a disk.
    """
    try:
        if fresh and claims.shared_folder(name).is_dir():
            notes.write(api, **{NOTE: VOLUMES})
        if NOTE in notes.read(api):
            notes.apply(api, storage_class())
        elif asked and not fresh:
            raise ProviderError(
                f"its nodes share no disk, which storage.durable asks for: remove it "
                f"(kind delete cluster --name {name}), and the next run makes it anew"
            )
    except errors.GpuClusterError as error:
        raise ProviderError(f"the StorageClass {CLASS} was refused: {error}") from None


def storage_class() -> dict[str, Any]:
    """Return the class."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def empty(name: str, where: engines.Engine) -> None:
    """Let a node of a cluster remove what lies on the disk: it is root's, and who removes the cluster may not be.

    Raises:
        ProviderError: the node does not do it.
    """
    folder = claims.shared_folder(name)
    if folder.is_dir() and any(folder.iterdir()):
        where.ask("exec", f"{name}-control-plane", "find", VOLUMES, "-mindepth", "1", "-delete")
