"""Commands of Volcano's bus: how Jobs and queues are told to stop, go on, close or open."""

from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.plain import names

API = "bus.volcano.sh/v1alpha1"


def manifest(action: str, target: tuple[str, str, str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return a Command, which the controller takes away before it acts.

    It belongs to its target, so that it goes with it where no controller takes it.

    Args:
        action: AbortJob, ResumeJob, CloseQueue, OpenQueue.
        target: apiVersion, kind, name and uid of the object.
        labels: labels of what we create.
    """
    api_version, kind, name, uid = target
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}
    return {
        "apiVersion": API,
        "kind": "Command",
        "metadata": {
            "name": names.safe_name(name, action),
            "labels": dict(labels),
            "ownerReferences": [owner],
        },
        "target": owner,
        "action": action,
    }
