"""The pods of a gang, and a pod that only holds room."""

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gpucluster.workload.spec import PAYLOAD_DIR, GangSpec, Manifest, Role, Sidecar


def pod_spec(spec: GangSpec, role: Role, scheduler: str) -> Manifest:
    """Return the pod spec of a role's members."""
    env: list[Manifest] = [{"name": key, "value": value} for key, value in {**spec.env, **role.env}.items()]
    for name, path in {"GPUCLUSTER_POD": "metadata.name", **role.field_env}.items():
        env.append({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
    volumes = [
        *([("payload", PAYLOAD_DIR, {"configMap": {"name": spec.payload}})] if spec.payload else []),
        *((volume.name, volume.path, dict(volume.source)) for volume in spec.volumes),
    ]
    asked = spec.resources if role.resources is None else role.resources
    main: dict[str, Any] = {
        "name": "main",
        "image": role.image or spec.image,
        "command": list(role.command),
        "env": [*env, {"name": "GPUCLUSTER_CONTAINER", "value": "main"}],
        "resources": {
            # Small CPU and memory requests: a member without any request is best-effort, which the gang
            # plugin does not protect.
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {name: str(count) for name, count in asked.items()},
        },
    }
    main["resources"]["requests"].update(main["resources"]["limits"])
    if role.args:
        main["args"] = list(role.args)
    containers = [main, *(_sidecar(spec, role, sidecar, env) for sidecar in role.sidecars)]
    pod: dict[str, Any] = {
        "schedulerName": scheduler,
        "restartPolicy": role.restart_policy,
        "terminationGracePeriodSeconds": spec.grace,
        "containers": containers,
    }
    if spec.subdomain:
        pod["subdomain"] = spec.subdomain
    if spec.apart:
        term = {
            "labelSelector": {"matchLabels": {spec.apart: spec.name}},
            "topologyKey": "kubernetes.io/hostname",
        }
        pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if spec.nodes:
        pod["affinity"] = {**pod.get("affinity", {}), **_only_on(spec.nodes)}
    if volumes:
        for container in containers:
            container["volumeMounts"] = [{"name": name, "mountPath": path} for name, path, _ in volumes]
        pod["volumes"] = [{"name": name, **source} for name, _, source in volumes]
    return pod


def lone_pod(spec: GangSpec, scheduler: str, labels: Mapping[str, str]) -> Manifest:
    """Return a gang of one role as one bare pod, which no controller makes again.

    Args:
        spec: the gang.
        scheduler: schedulerName of the pod.
        labels: of the pod, for Services.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": spec.name, "labels": dict(labels)},
        "spec": pod_spec(spec, spec.roles[0], scheduler),
    }


def _only_on(nodes: Sequence[str]) -> Manifest:
    """Return the affinity of a pod that may be placed on some nodes alone; a term names one node."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in nodes
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _sidecar(spec: GangSpec, role: Role, sidecar: Sidecar, env: list[Manifest]) -> Manifest:
    return {
        "name": sidecar.name,
        "image": sidecar.image or role.image or spec.image,
        "command": list(sidecar.command),
        "env": [*env, {"name": "GPUCLUSTER_CONTAINER", "value": sidecar.name}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }


def filler(name: str, resources: Mapping[str, int | str], image: str, command: tuple[str, ...]) -> Manifest:
    """Return a bare pod of the default scheduler that holds room.

    It is no Volcano pod of the queue under test, so that the queue's quota stays out of the question
    (Volcano counts its own pods at enqueue; recorded: the same shortfall made by a Volcano Job of the same queue is
    refused before the gang gate).
    """
    return single_pod(name, command, image=image, resources=resources)


def single_pod(
    name: str,
    command: tuple[str, ...],
    *,
    image: str,
    node: str = "",
    resources: Mapping[str, int | str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Manifest:
    """Return a bare pod of the default scheduler that runs one command once.

    Args:
        name: of the pod.
        command: program and arguments.
        image: of its container.
        node: name of the only node that it may be placed on, "" for any; the scheduler decides all the same.
        resources: what it asks for beside a little CPU and memory (limits).
        env: variables of its container.
    """
    held = {key: str(value) for key, value in (resources or {}).items()}
    container: Manifest = {
        "name": "main",
        "image": image,
        "command": list(command),
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi", **held}, "limits": held},
    }
    if env:
        container["env"] = [{"name": key, "value": value} for key, value in env.items()]
    spec: Manifest = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    if node:
        spec["affinity"] = _only_on([node])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
