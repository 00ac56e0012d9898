"""Which images the containers of pods have once they are admitted: ours, and what webhooks put beside them."""

from typing import Any

from pytest_gpucluster.scenario import Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import finished
from pytest_gpucluster.scenario.programs import image, roles_with_image

from .common import FILLER

QUIET = ("sh", "-c", "exit 0")


def pod(name: str, named: str) -> dict[str, Any]:
    """Return a pod with an init container and a regular one of an image; both end at once."""
    asked = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    marked = {"image": named, "command": list(QUIET), "resources": asked}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "initContainers": [{"name": "first", "env": _mark("first"), **marked}],
            "containers": [{"name": "main", "env": _mark("main"), **marked}],
        },
    }


def _mark(name: str) -> list[dict[str, str]]:
    """Return the variable by which containers of ours are told from what a webhook adds."""
    return [{"name": "GPUCLUSTER_CONTAINER", "value": name}]


def run(stage: Stage) -> None:
    """Make a pod of each image that the profile names, and see what it became."""
    roles = [role for role in roles_with_image(stage) if role != "etcd" or _runs_etcd(stage)]
    images = {role: image(stage, role) for role in roles or ["python"]}
    stage.given["images"] = images
    pods = [stage.submit(pod(f"{stage.name}-{role}", named)) for role, named in images.items()]
    made = [handle for handle in pods if handle.ok]
    ended = [finished(handle, 1) for handle in made]
    stage.wait("the pods have ended", lambda live: all(each(live) for each in ended), budget="start")


def _runs_etcd(stage: Stage) -> bool:
    """Report whether runs make an etcd: only then its image is used."""
    elastic = stage.profile.elastic
    return elastic is not None and elastic.backend == "etcd-v2" and elastic.endpoint is None


pinned_images = Scenario(
    name="pinned-images",
    summary="a pod of each image of the profile, with an init container: which images it has once it is admitted",
    run=run,
    needs=Needs(seconds=2, gang=False, permissions=FILLER),
    kinds=("Pod", "Event", "Node"),
)
