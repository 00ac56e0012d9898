"""What is wrong with that which was installed into the cluster."""

import contextlib
from collections.abc import Iterator
from typing import Any

from pytest_gpucluster.kube import errors
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
    spec = lab.get(*path, "kueue-system")["spec"]

    def patch(value: dict[str, str]) -> None:
        change = [{"op": "replace", "path": "/spec/selector", "value": value}]
        lab.patch(*path, change, "kueue-system", how="json")

    def unreached() -> bool:
        # What the API server has open already goes on to lead to the manager, for as long as anything is asked of it.
        lab.inside(lab.control_plane, f"conntrack -D -p tcp -d {spec['clusterIP']} >/dev/null 2>&1 || true")
        return not webhook_answers(lab)

    patch({"app": "nobody"})
    try:
        until("nobody answers as Kueue's webhook", unreached)
        yield
    finally:
        patch(spec["selector"])
        until("Kueue's webhook answers", lambda: webhook_answers(lab))


def webhook_answers(lab: Lab) -> bool:
    """Report whether the API server gets an answer of Kueue's webhook."""
    flavor = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "asks"}}
    try:
        lab.api.create(flavor, dry_run=True)
    except errors.ApiError:
        return False
    return True


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
