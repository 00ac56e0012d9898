"""The volume on which training keeps its checkpoints (`storage.durable`), as pods mount it, and how it is left."""

from typing import Any

from pytest_gpucluster.profile.storage import Storage
from pytest_gpucluster.profile.storage import Volume as Declared
from pytest_gpucluster.scenario import Stage
from pytest_gpucluster.scenario.predicates import phase
from pytest_gpucluster.scenario.programs import image
from pytest_gpucluster.workload import Volume, single_pod

CLAIMS = ("create,delete persistentvolumeclaims", "create,delete pods")
"""Permissions of who mounts it: a class is asked by a claim, what is not ours is emptied by a pod."""


def mounted(stage: Stage, storage: Storage, path: str) -> Volume:
    """Return the durable volume as pods mount it; where the profile names a class, a claim of it is made."""
    durable = storage.durable
    if durable.source != "storage_class":
        return Volume("durable", source(durable), path)
    name = f"{stage.name}-durable"
    spec = {
        "accessModes": [durable.access],
        "resources": {"requests": {"storage": durable.size}},
        "storageClassName": durable.name,
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": spec,
    }
    stage.submit(claim, role="claim")
    return Volume("durable", {"persistentVolumeClaim": {"claimName": name}}, path)


def source(volume: Declared) -> dict[str, Any]:
    """Return the source of a volume that is there already, or of its pod's own."""
    if volume.source == "claim":
        return {"persistentVolumeClaim": {"claimName": volume.name}}
    if volume.source == "host_path":
        return {"hostPath": {"path": volume.name, "type": "Directory"}}
    return {"emptyDir": {}}


def empty(stage: Stage, storage: Storage, volume: Volume, folder: str) -> None:
    """Remove what a scenario wrote into a folder of the volume, where the volume is not ours and stays."""
    if storage.durable.source == "storage_class":
        return
    code = f"import shutil; shutil.rmtree({folder!r}, ignore_errors=True)"
    pod = single_pod(f"{stage.name}-remove", ("python", "-c", code), image=image(stage, "python"))
    pod["spec"]["volumes"] = [{"name": volume.name, **volume.source}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": volume.name, "mountPath": volume.path}]
    made = stage.submit(pod, role="remover")
    if made.ok:
        ended = {"Succeeded", "Failed"}
        stage.wait(
            "what was written is removed",
            lambda live: phase(live.by_uid(made.uid) or {}) in ended,
            budget="run",
        )
