"""What Volcano's installer leaves in a cluster for others to read.

Its namespace, its three Deployments and the configuration of its scheduler, as in v1.14.4.
"""

from typing import Final

from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.embedded.volcano import names

SCHEDULER_CONF: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""`volcano-scheduler.conf` as shipped."""

DEPLOYMENT: Final = "Deployment"

PARTS: Final = {
    "volcano-admission": ("admission", "vc-webhook-manager"),
    "volcano-controllers": ("volcano-controllers", "vc-controller-manager"),
    "volcano-scheduler": ("volcano-scheduler", "vc-scheduler"),
}
"""Deployment -> container, image."""


def create_installation(
    store: Store, *, down: frozenset[str] = frozenset(), scheduler_conf: str = SCHEDULER_CONF
) -> None:
    """Create namespace, ConfigMap and Deployments.

    Args:
        store: The store.
        down: Deployments none of whose pods is available.
        scheduler_conf: Configuration of the scheduler.
    """
    store.create("Namespace", {"metadata": {"name": names.SYSTEM_NAMESPACE}})
    store.create(
        "ConfigMap",
        {
            "metadata": {"name": names.SCHEDULER_CONFIG, "namespace": names.SYSTEM_NAMESPACE},
            "data": {names.SCHEDULER_CONFIG_KEY: scheduler_conf},
        },
    )
    for name, (container, image) in PARTS.items():
        store.create(DEPLOYMENT, _deployment(name, container, image))
        status = _status(up=name not in down)
        store.mutate(
            DEPLOYMENT,
            names.SYSTEM_NAMESPACE,
            name,
            lambda obj, now=status: obj.update(status=now),  # type: ignore[misc]
            subresource="status",
        )


def _deployment(name: str, container: str, image: str) -> Obj:
    labels = {"app": name}
    pod: Obj = {
        "serviceAccountName": name,
        "priorityClassName": "system-cluster-critical",
        "containers": [
            {
                "name": container,
                "image": f"docker.io/volcanosh/{image}:{names.VERSION}",
                "imagePullPolicy": "Always",
                **({"args": _scheduler_args()} if name == "volcano-scheduler" else {}),
            }
        ],
    }
    if name == "volcano-scheduler":
        pod["volumes"] = [{"name": "scheduler-config", "configMap": {"name": names.SCHEDULER_CONFIG}}]
        mount = {"name": "scheduler-config", "mountPath": "/volcano.scheduler"}
        pod["containers"][0]["volumeMounts"] = [mount]
    return {
        "metadata": {"name": name, "namespace": names.SYSTEM_NAMESPACE, "labels": dict(labels)},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }


def _scheduler_args() -> list[str]:
    return [
        "--logtostderr",
        f"--scheduler-conf=/volcano.scheduler/{names.SCHEDULER_CONFIG_KEY}",
        "--enable-healthz=true",
        "--enable-metrics=true",
        "--leader-elect=false",
        "-v=3",
        "2>&1",
    ]


def _status(*, up: bool) -> Obj:
    reason = "MinimumReplicasAvailable" if up else "MinimumReplicasUnavailable"
    text = "Deployment has minimum availability." if up else "Deployment does not have minimum availability."
    counts = (
        {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
        if up
        else {"replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1}
    )
    condition = {"type": "Available", "status": "True" if up else "False", "reason": reason, "message": text}
    return {"observedGeneration": 1, **counts, "conditions": [condition]}
