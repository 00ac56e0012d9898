"""What is wrong with that which was installed into the cluster."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from tests.kind.lab import Lab, until

KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"


@contextlib.contextmanager
def scaled_to_zero(lab: Lab, namespace: str, deployment: str) -> Iterator[None]:
    """Let a deployment have no pod."""
    before = lab.get("deployment", "-n", namespace, deployment)["spec"]["replicas"]
    _scale(lab, namespace, deployment, 0)
    try:
        yield
    finally:
        _scale(lab, namespace, deployment, before)


def _scale(lab: Lab, namespace: str, deployment: str, replicas: int) -> None:
    lab.kubectl("scale", "-n", namespace, f"deployment/{deployment}", f"--replicas={replicas}")

    def settled() -> bool:
        status = lab.get("deployment", "-n", namespace, deployment)["status"]
        return (status.get("replicas", 0), status.get("availableReplicas", 0)) == (replicas, replicas)

    until(f"{deployment} has {replicas} pods", settled, 180)


@contextlib.contextmanager
def webhook_down(lab: Lab) -> Iterator[None]:
    """Let Kueue's webhook lead nowhere, while its manager runs."""
    path = ("-n", "kueue-system", "service", "kueue-webhook-service")
    selector = lab.get(*path)["spec"]["selector"]

    def patch(value: str) -> None:
        change = f'[{{"op": "replace", "path": "/spec/selector", "value": {value}}}]'
        lab.kubectl("patch", *path, "--type=json", "-p", change)

    patch('{"app": "nobody"}')
    try:
        yield
    finally:
        patch(json.dumps(selector))


QUOTA = "quota-changed"


@contextlib.contextmanager
def quota_changed(lab: Lab) -> Iterator[None]:
    """Raise the quota of the ClusterQueue that the profile names above what the nodes have, while nobody tells it."""
    has = sum(int(node["status"]["allocatable"].get(GPU, 0)) for node in lab.get("nodes")["items"])
    flavor = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": QUOTA}}

    def queue(quota: int) -> dict[str, Any]:
        flavors = [{"name": QUOTA, "resources": [{"name": GPU, "nominalQuota": quota}]}]
        group = {"coveredResources": [GPU], "flavors": flavors}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": QUOTA}, "spec": spec}

    def active() -> bool:
        conditions = lab.get("clusterqueue", QUOTA).get("status", {}).get("conditions", [])
        return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)

    for each in (flavor, queue(has)):
        lab.kubectl("create", "-f", "-", text=json.dumps(each))
    try:
        until("the ClusterQueue is Active", active)
        before = lab.decide(f"{QUOTA}-before", "INV-005", changes={"kueue": {"cluster_queue": QUOTA}})
        assert before["INV-005"]["verdict"] == "pass", before
        lab.kubectl("apply", "-f", "-", text=json.dumps(queue(10 * has)))
        yield
    finally:
        lab.kubectl("delete", "clusterqueue", QUOTA, "--ignore-not-found")
        lab.kubectl("delete", "resourceflavor", QUOTA, "--ignore-not-found")
