"""The fake GPU device plugin as Kubernetes objects: a DaemonSet, its program, and the settings that it watches.

```python
settings = {"default": {"nvidia.com/gpu": Devices.dealt(8)}, "lab-worker2": {"nvidia.com/gpu": Devices.dealt(7)}}
for each in objects("registry/payload:1", settings): ...  # apply
api.patch(settings_map(changed))  # while it runs: the plugins follow at once
```
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.workload import payload_files

NAMESPACE = "gpucluster-system"
NAME = "fake-gpus"
SETTINGS = f"{NAME}-settings"
DEFAULT = "default"
"""Name of the settings of every node that has none of its own."""

_PROGRAM = "device_plugin.py"
_FOLDER = "/var/lib/kubelet/device-plugins"
_READY = "/tmp/registered"  # noqa: S108 - in the plugin's own container
_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "pytest-gpucluster"}

Obj = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Devices:
    """What one node has of one resource.

    Attributes:
        count: How many devices.
        numa: The NUMA node of each; None for a device that tells none; empty: the plugin tells no topology at all.
        unhealthy: Places of the devices that are sick: counted in capacity, not in allocatable.
    """

    count: int
    numa: tuple[int | None, ...] = ()
    unhealthy: tuple[int, ...] = ()

    @classmethod
    def dealt(cls, count: int, nodes: int = 2, unhealthy: tuple[int, ...] = ()) -> "Devices":
        """Return devices dealt over NUMA nodes in equal consecutive parts, as in most machines."""
        return cls(count, tuple(place * nodes // count for place in range(count)), unhealthy)

    def document(self) -> Obj:
        """Return what the plugin reads."""
        return {"count": self.count, "numa": list(self.numa), "unhealthy": list(self.unhealthy)}


Settings = Mapping[str, Mapping[str, Devices]]
"""Name of a node, or `default` -> resource -> devices."""


def settings_map(settings: Settings, namespace: str = NAMESPACE) -> Obj:
    """Return the ConfigMap that says what each node has; writing it again changes nodes in flight."""
    data = {
        node: json.dumps({resource: devices.document() for resource, devices in has.items()})
        for node, has in settings.items()
    }
    return {**_head("v1", "ConfigMap", SETTINGS, namespace), "data": data}


def objects(
    image: str, settings: Settings, *, namespace: str = NAMESPACE, overlay: Mapping[str, Any] | None = None
) -> list[Obj]:
    """Return all that has to be applied, in order.

    Args:
        image: An image with Python and grpcio, such as the payload image.
        settings: What each node has.
        namespace: Where it runs; it is made.
        overlay: Keys that are put over the pod's specification (`volumes` and the container's `volumeMounts` and
            `env` are added to): how an image gets at packages that lie on the node.
    """
    role = _head("rbac.authorization.k8s.io/v1", "Role", NAME, namespace)
    binding = _head("rbac.authorization.k8s.io/v1", "RoleBinding", NAME, namespace)
    program = _head("v1", "ConfigMap", f"{NAME}-program", namespace)
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": _LABELS}},
        _head("v1", "ServiceAccount", NAME, namespace),
        {
            **role,
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["configmaps"],
                    "resourceNames": [SETTINGS],
                    "verbs": ["get", "list", "watch"],
                }
            ],
        },
        {
            **binding,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
        },
        {**program, "data": payload_files(_PROGRAM)},
        settings_map(settings, namespace),
        daemon_set(image, namespace, overlay or {}),
    ]


def daemon_set(image: str, namespace: str, overlay: Mapping[str, Any]) -> Obj:
    """Return the DaemonSet: one plugin on every node but those of the control plane."""
    pod = _pod(image, namespace)
    container = pod["containers"][0]
    for key, value in overlay.items():
        if key in ("env", "volumeMounts"):
            container[key] = [*container[key], *value]
        elif key == "volumes":
            pod[key] = [*pod[key], *value]
        else:
            pod[key] = value
    return {
        **_head("apps/v1", "DaemonSet", NAME, namespace),
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": pod},
        },
    }


def _pod(image: str, namespace: str) -> Obj:
    workers = {"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}
    return {
        "serviceAccountName": NAME,
        "priorityClassName": "system-node-critical",
        # Comes up before the pod network does, as real plugins do.
        "hostNetwork": True,
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 2,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [workers]}]
                }
            }
        },
        "containers": [
            {
                "name": "plugin",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": [
                    "python", f"/plugin/{_PROGRAM}", f"--config-map={namespace}/{SETTINGS}", f"--ready={_READY}",
                ],
                "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "volumeMounts": [
                    {"name": "program", "mountPath": "/plugin", "readOnly": True},
                    {"name": "kubelet", "mountPath": _FOLDER},
                ],
                "readinessProbe": {
                    "exec": {"command": ["test", "-e", _READY]},
                    "periodSeconds": 1,
                },
            }
        ],
        "volumes": [
            {"name": "program", "configMap": {"name": f"{NAME}-program"}},
            {"name": "kubelet", "hostPath": {"path": _FOLDER, "type": "Directory"}},
        ],
    }  # fmt: skip


def _head(version: str, kind: str, name: str, namespace: str) -> Obj:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(_LABELS)},
    }
