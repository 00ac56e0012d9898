"""Putting JobSet into a runtime: schema, webhook, controller, and what its installer leaves."""

from typing import TYPE_CHECKING

from pytest_gpucluster.embedded.jobset import names, schema
from pytest_gpucluster.embedded.jobset.controller import JobSetController
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store

if TYPE_CHECKING:
    from pytest_gpucluster.embedded.objects import Obj


def install(runtime: Runtime) -> None:
    """Add JobSet to a runtime whose table serves its type, and start its controller. Needs a running event loop."""
    runtime.store.table.hook(
        names.JOBSET, default=schema.default, validate=schema.validate, prune=schema.prune
    )
    up = not runtime.has("jobset.absent")
    _leave_installation(runtime.store, up=up)
    runtime.admission.extend(schema.hooks())
    if up:
        runtime.spawn(JobSetController(runtime).run(), "jobsets")


def _leave_installation(store: Store, *, up: bool) -> None:
    """Create namespace and Deployment, as the manifests of the release do."""
    store.create("Namespace", {"metadata": {"name": names.SYSTEM_NAMESPACE}})
    labels = {"control-plane": "controller-manager"}
    image = f"registry.k8s.io/jobset/jobset:{names.VERSION}"
    container = {"name": "manager", "image": image, "command": ["/manager"]}
    deployment: Obj = {
        "metadata": {
            "name": names.DEPLOYMENT, "namespace": names.SYSTEM_NAMESPACE, "labels": dict(labels),
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": {"containers": [container]}},
        },
    }  # fmt: skip
    store.create("Deployment", deployment)
    counts = {"readyReplicas": 1, "availableReplicas": 1} if up else {"unavailableReplicas": 1}
    word = "has" if up else "does not have"
    condition = {
        "type": "Available",
        "status": "True" if up else "False",
        "reason": "MinimumReplicasAvailable" if up else "MinimumReplicasUnavailable",
        "message": f"Deployment {word} minimum availability.",
    }
    status = {
        "observedGeneration": 1,
        "replicas": 1,
        "updatedReplicas": 1,
        **counts,
        "conditions": [condition],
    }
    place = (names.SYSTEM_NAMESPACE, names.DEPLOYMENT)
    store.mutate("Deployment", *place, lambda obj: obj.update(status=status), subresource="status")
