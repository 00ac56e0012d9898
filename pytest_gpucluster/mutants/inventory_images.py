"""Departures of the images of pods."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.mutants import base

Change = Callable[[dict[str, Any]], None]


def _on_pods(change: Change) -> base.Act:
    return base.only(
        "pinned-images", lambda evidence: base.each(evidence, lambda line: line.kind == "Pod", change)
    )


def _tagged(part: str) -> Change:
    def change(pod: dict[str, Any]) -> None:
        for container in fields.items(pod, "spec", part):
            if isinstance(container, dict):
                container["image"] = str(container.get("image")).partition("@")[0] + ":latest"

    return change


def _sidecar(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"] = [*pod["spec"]["containers"], {"name": "agent", "image": "agent:1.2"}]


def _injected_init(pod: dict[str, Any]) -> None:
    added = {"name": "prepare", "image": "prepare", "restartPolicy": "Always"}
    pod["spec"]["initContainers"] = [*pod["spec"]["initContainers"], added]


def _loaded(pod: dict[str, Any]) -> None:
    for part in ("initContainers", "containers"):
        _tagged(part)(pod)
        for container in pod["spec"][part]:
            container["imagePullPolicy"] = "Never"


def _no_pods(evidence: Evidence) -> Evidence:
    return base.without(evidence, lambda line: line.kind == "Pod")


MUTANTS: base.Table = {
    "inventory.image-by-tag": base.Mutant(
        "the image of a regular container has a tag", _on_pods(_tagged("containers")), {"INV-007": "fail"}
    ),
    "inventory.init-image-by-tag": base.Mutant(
        "the image of an init container has a tag", _on_pods(_tagged("initContainers")), {"INV-007": "fail"}
    ),
    "inventory.unpinned-sidecar": base.Mutant(
        "a webhook adds a sidecar whose image has a tag", _on_pods(_sidecar), {"INV-007": "fail"}
    ),
    "inventory.unpinned-init": base.Mutant(
        "a webhook adds a sidecar among the init containers whose image has no tag",
        _on_pods(_injected_init),
        {"INV-007": "fail"},
    ),
    "inventory.image-loaded": base.Mutant(
        "the images were loaded into the nodes", _on_pods(_loaded), {"INV-007": "environment"}
    ),
    "inventory.image-pods-unseen": base.Mutant(
        "the pods with the images were never seen",
        base.only("pinned-images", _no_pods),
        {"INV-007": "inconclusive"},
    ),
}
