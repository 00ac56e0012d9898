"""What is wrong with that which was installed into the cluster."""

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.kind.lab import Lab, until

KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"


@contextlib.contextmanager
def scaled_to_zero(lab: Lab, namespace: str, deployment: str) -> Iterator[None]:
    """Let a deployment have no pod."""
    before = lab.get("Deployment", deployment, namespace)["spec"]["replicas"]
    _scale(lab, namespace, deployment, 0)
    try:
        yield
    finally:
        _scale(lab, namespace, deployment, before)


def _scale(lab: Lab, namespace: str, deployment: str, replicas: int) -> None:
    lab.patch("Deployment", deployment, {"spec": {"replicas": replicas}}, namespace)

    def settled() -> bool:
        status = lab.get("Deployment", deployment, namespace)["status"]
        return (status.get("replicas", 0), status.get("availableReplicas", 0)) == (replicas, replicas)

    until(f"{deployment} has {replicas} pods", settled, 180)


@contextlib.contextmanager
def webhook_down(lab: Lab) -> Iterator[None]:
    """Let Kueue's webhook lead nowhere, while its manager runs."""
    path = ("Service", "kueue-webhook-service")
    selector = lab.get(*path, "kueue-system")["spec"]["selector"]

    def patch(value: dict[str, str]) -> None:
        change = [{"op": "replace", "path": "/spec/selector", "value": value}]
        lab.patch(*path, change, "kueue-system", how="json")

    patch({"app": "nobody"})
    try:
        yield
    finally:
        patch(selector)


QUOTA = "quota-changed"


@contextlib.contextmanager
def quota_changed(lab: Lab) -> Iterator[None]:
    """Raise the quota of the ClusterQueue that the profile names above what the nodes have, while nobody tells it."""
    has = sum(int(node["status"]["allocatable"].get(GPU, 0)) for node in lab.list("Node"))
    flavor = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": QUOTA}}

    def resources(quota: int) -> list[dict[str, Any]]:
        flavors = [{"name": QUOTA, "resources": [{"name": GPU, "nominalQuota": quota}]}]
        return [{"coveredResources": [GPU], "flavors": flavors}]

    spec = {"namespaceSelector": {}, "resourceGroups": resources(has)}
    queue = {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": QUOTA}, "spec": spec}

    def active() -> bool:
        conditions = lab.get("ClusterQueue", QUOTA).get("status", {}).get("conditions", [])
        return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)

    with lab.having(flavor, queue):
        until("the ClusterQueue is Active", active)
        before = lab.decide(f"{QUOTA}-before", "INV-005", changes={"kueue": {"cluster_queue": QUOTA}})
        assert before["INV-005"]["verdict"] == "pass", before
        lab.patch("ClusterQueue", QUOTA, {"spec": {"resourceGroups": resources(10 * has)}})
        yield
