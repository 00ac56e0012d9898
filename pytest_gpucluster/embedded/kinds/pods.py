"""Pods: what the API server fills in."""

from typing import Any

from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.plain.quantities import QuantityError, parse_quantity

NOT_READY_SECONDS = 300
"""Seconds that a pod tolerates a node which is not ready or not reachable, by default."""

_FILE_MODE = 0o644


GATED: Obj = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
"""Condition of a pod that no scheduler may look at yet."""


def default_pod(pod: Obj) -> None:
    """Fill in the defaults of a pod, in place."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = spec.setdefault("tolerations", [])
    for condition in ("not-ready", "unreachable"):
        _tolerate(tolerations, f"node.kubernetes.io/{condition}")
    status = pod.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status["qosClass"] = qos_class(spec)
    if spec.get("schedulingGates"):
        status["conditions"] = [{**GATED}]


def _tolerate(tolerations: list[Obj], key: str) -> None:
    known = any(t.get("key") in (key, None) and t.get("effect") in ("NoExecute", None) for t in tolerations)
    if not known:
        tolerations.append(
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NOT_READY_SECONDS}
        )


def default_pod_spec(spec: Obj) -> None:
    """Fill in what a pod template gets too, in place."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    for container in containers_of(spec):
        _default_container(container)
    for volume in spec.get("volumes") or []:
        _default_volume(volume)


def containers_of(spec: Obj) -> list[Obj]:
    """Return the init containers and containers of a pod spec that are objects."""
    listed = (spec.get("initContainers") or []) + (spec.get("containers") or [])
    return [c for c in listed if isinstance(c, dict)]


def _default_container(container: Obj) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(str(container.get("image") or ""))
    resources = container.get("resources")
    if resources is None:
        resources = container["resources"] = {}
    for name, value in (resources.get("limits") or {}).items():
        requests = resources.get("requests")
        if requests is None:
            requests = resources["requests"] = {}
        requests.setdefault(name, value)
    for kind in ("limits", "requests"):
        if resources.get(kind):
            resources[kind] = {k: str(v) for k, v in resources[kind].items()}
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
    for env in container.get("env") or []:
        ref = (env.get("valueFrom") or {}).get("fieldRef")
        if ref is not None:
            ref.setdefault("apiVersion", "v1")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe):
            _default_probe(container[probe])


def _default_probe(probe: Obj) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe[field] = probe.get(field) or value
    if probe.get("httpGet"):
        probe["httpGet"].setdefault("scheme", "HTTP")
        probe["httpGet"].setdefault("path", "/")


def _default_volume(volume: Obj) -> None:
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", _FILE_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}


def pull_policy(image: str) -> str:
    """Return the pull policy of an image without one: Always for `latest` or no tag."""
    last = image.rsplit("/", 1)[-1]
    if "@" in last:
        return "IfNotPresent"
    return "Always" if ":" not in last or last.endswith(":latest") else "IfNotPresent"


def qos_class(spec: Obj) -> str:
    """Return Guaranteed, Burstable or BestEffort, from CPU and memory of all containers."""
    seen, guaranteed = False, True
    for container in containers_of(spec):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit, request = _amount(limits.get(name)), _amount(requests.get(name))
            seen = seen or bool(limit) or bool(request)
            guaranteed = guaranteed and bool(limit) and limit == request
    if not seen:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amount(value: Any) -> Any:
    if value is None:
        return None
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


def pod_from_template(template: Obj) -> Obj:
    """Return a new pod with the labels, annotations, finalizers and spec of a template."""
    meta = template.get("metadata") or {}
    kept = {k: clone(meta[k]) for k in ("labels", "annotations", "finalizers") if meta.get(k)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": kept,
        "spec": clone(template.get("spec") or {}),
    }
