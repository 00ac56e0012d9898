"""Putting Kueue into a runtime: schemas, webhooks, controllers, and what its installer leaves."""

import json
from typing import Any

from pytest_gpucluster.embedded.kueue import admission, names, schema
from pytest_gpucluster.embedded.kueue.jobs import JobReconciler
from pytest_gpucluster.embedded.kueue.queues import QueueController
from pytest_gpucluster.embedded.kueue.scheduler import Scheduler
from pytest_gpucluster.embedded.kueue.settings import Settings
from pytest_gpucluster.embedded.kueue.ungater import TopologyUngater
from pytest_gpucluster.embedded.kueue.workload_controller import WorkloadController
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store


def install(runtime: Runtime) -> None:
    """Add Kueue to a runtime whose table serves Kueue's types, and start its controllers.

    Needs a running event loop. The configuration key `kueue` is true or what `Settings.of` reads.
    """
    settings = Settings.of(runtime.config.get("kueue"))
    _serve(runtime)
    down = runtime.has("kueue.absent") or runtime.has("kueue.webhook-down")
    _leave_installation(runtime.store, runtime.config.get("kueue"), up=not down)
    if runtime.has("kueue.webhook-down"):
        runtime.admission.extend(admission.unreachable())
    if down:
        return
    runtime.admission.extend(admission.hooks(runtime, settings))
    runtime.spawn(JobReconciler(runtime, settings).run(), "kueue jobs")
    runtime.spawn(WorkloadController(runtime, settings).run(), "kueue workloads")
    # The scheduler comes before what counts: counts are written after it has admitted what a change made room for.
    runtime.spawn(Scheduler(runtime, settings).run(), "kueue scheduler")
    runtime.spawn(QueueController(runtime, settings).run(), "kueue queues")
    runtime.spawn(TopologyUngater(runtime, settings).run(), "kueue topology")


def _serve(runtime: Runtime) -> None:
    table = runtime.store.table
    table.hook(
        names.CLUSTER_QUEUE,
        default=schema.default_cluster_queue,
        validate=schema.validate_cluster_queue,
        prune=schema.prune_cluster_queue,
    )
    table.hook(
        names.LOCAL_QUEUE,
        default=schema.default_local_queue,
        validate=schema.validate_local_queue,
        prune=schema.prune_local_queue,
    )
    table.hook(
        names.ADMISSION_CHECK, validate=schema.validate_admission_check, prune=schema.prune_admission_check
    )
    table.hook(names.FLAVOR, validate=schema.validate_flavor, prune=schema.prune_flavor)
    table.hook(names.TOPOLOGY, validate=schema.validate_topology)
    table.hook(names.WORKLOAD, default=schema.default_workload, prune=schema.prune_workload)


def _leave_installation(store: Store, config: Any, *, up: bool) -> None:
    """Create namespace, ConfigMap and Deployment, as the manifests of the release do."""
    store.create("Namespace", {"metadata": {"name": names.SYSTEM_NAMESPACE}})
    stated = dict(config) if isinstance(config, dict) else {}
    stated.pop("batchSeconds", None)
    written = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "integrations": {"frameworks": ["batch/job"]},
        **stated,
    }
    meta = {"name": names.CONFIG_MAP, "namespace": names.SYSTEM_NAMESPACE}
    store.create(
        "ConfigMap", {"metadata": meta, "data": {names.CONFIG_KEY: json.dumps(written, indent=2) + "\n"}}
    )
    store.create("Deployment", _deployment())

    def write(obj: Obj) -> None:
        obj["status"] = _status(up=up)

    store.mutate("Deployment", names.SYSTEM_NAMESPACE, names.DEPLOYMENT, write, subresource="status")


def _deployment() -> Obj:
    labels = {"control-plane": "controller-manager", "app.kubernetes.io/name": "kueue"}
    container = {
        "name": "manager",
        "image": f"registry.k8s.io/kueue/kueue:{names.VERSION}",
        "args": [f"--config=/{names.CONFIG_KEY}", "--zap-log-level=2"],
        "volumeMounts": [
            {"name": "manager-config", "mountPath": f"/{names.CONFIG_KEY}", "subPath": names.CONFIG_KEY}
        ],
    }
    pod = {
        "serviceAccountName": names.DEPLOYMENT,
        "containers": [container],
        "volumes": [{"name": "manager-config", "configMap": {"name": names.CONFIG_MAP}}],
    }
    return {
        "metadata": {"name": names.DEPLOYMENT, "namespace": names.SYSTEM_NAMESPACE, "labels": dict(labels)},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }


def _status(*, up: bool) -> Obj:
    word = "has" if up else "does not have"
    condition = {
        "type": "Available",
        "status": "True" if up else "False",
        "reason": "MinimumReplicasAvailable" if up else "MinimumReplicasUnavailable",
        "message": f"Deployment {word} minimum availability.",
    }
    counts = {"readyReplicas": 1, "availableReplicas": 1} if up else {"unavailableReplicas": 1}
    return {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, **counts, "conditions": [condition]}
