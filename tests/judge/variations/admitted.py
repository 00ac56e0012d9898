"""What admission and defaults put into objects: labels, containers, volumes, limits, security."""

from typing import Any

from tests.judge.variations.base import Variation, objects

WORKLOADS = ("Pod", "Job.batch", "Job.batch.volcano.sh", "PodGroup", "PodGroup.scheduling.k8s.io", "Workload")


def labelled(obj: dict[str, Any]) -> None:
    """A policy engine labels and annotates all objects, and one of its controllers keeps a finalizer on them."""
    meta = obj.setdefault("metadata", {})
    added = {"kyverno.io/mutated": "true", "app.kubernetes.io/managed-by": "platform", "team": "a" * 63}
    meta["labels"] = {**added, **(meta.get("labels") or {})}
    meta["annotations"] = {
        "policies.kyverno.io/last-applied-patches": "add-team.x.kyverno.io: added /metadata/labels/team\n",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "ambient.istio.io/redirection": "enabled",
        **(meta.get("annotations") or {}),
    }
    meta["managedFields"] = [{"manager": "kyverno", "operation": "Update", "fieldsV1": {"f:metadata": {}}}]


def _status(
    pod: dict[str, Any], key: str, name: str, state: dict[str, Any] | None = None, **told: Any
) -> None:
    """Give an injected container the state that the pod's own have, before theirs."""
    status = pod.get("status") or {}
    own = status.get("containerStatuses") or []
    if own:
        at = {
            "name": name,
            "state": state or own[0].get("state", {}),
            "ready": True,
            "restartCount": 0,
            **told,
        }
        status[key] = [at, *(status.get(key) or [])]


def _beside(pod: dict[str, Any], *added: dict[str, Any]) -> None:
    pod["spec"]["containers"] = [*added, *pod["spec"].get("containers", [])]


def _before(pod: dict[str, Any], *added: dict[str, Any]) -> None:
    pod["spec"]["initContainers"] = [*added, *(pod["spec"].get("initContainers") or [])]


COMPLETED = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-11-28T12:00:00Z"}}


def mesh(pod: dict[str, Any]) -> None:
    """A mesh puts its proxy first among the containers, and its set-up first among the init containers."""
    if not pod.get("spec"):
        return
    image = f"registry.example/istio/proxyv2:1.27.3@sha256:{'5' * 64}"
    ports = [{"containerPort": 15090, "name": "http-envoy-prom", "protocol": "TCP"}]
    limits = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    _beside(pod, {"name": "istio-proxy", "image": image, "args": ["proxy", "sidecar"], "ports": ports,
                  "env": [{"name": "POD_NAME", "value": "x"}], "resources": limits})  # fmt: skip
    _before(pod, {"name": "istio-init", "image": image, "args": ["istio-iptables", "-p", "15001"]})
    _status(pod, "containerStatuses", "istio-proxy")
    _status(pod, "initContainerStatuses", "istio-init", COMPLETED)


def native_sidecar(pod: dict[str, Any]) -> None:
    """A sidecar of Kubernetes' own kind is started before the containers, and killed when they are done."""
    if not pod.get("spec"):
        return
    _before(pod, {"name": "telemetry", "image": "example.com/otel:1", "restartPolicy": "Always",
                  "startupProbe": {"httpGet": {"port": 15021}}})  # fmt: skip
    done = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    killed = {"terminated": {"exitCode": 137, "reason": "Error", "startedAt": "2026-11-28T12:00:00Z"}}
    state = killed if done else {"running": {"startedAt": "2026-11-28T12:00:00Z"}}
    _status(pod, "initContainerStatuses", "telemetry", state, started=True, restartCount=1)


def vault_agent(pod: dict[str, Any]) -> None:
    """An agent that brings secrets: a set-up, an agent beside, and a volume that is mounted into every container."""
    if not pod.get("spec"):
        return
    mount = {"name": "vault-secrets", "mountPath": "/vault/secrets"}
    for container in [*pod["spec"].get("containers", []), *(pod["spec"].get("initContainers") or [])]:
        container["volumeMounts"] = [mount, *(container.get("volumeMounts") or [])]
    agent = {"name": "vault-agent", "image": "hashicorp/vault:1.20", "volumeMounts": [mount]}
    _beside(pod, agent)
    _before(pod, {**agent, "name": "vault-agent-init"})
    pod["spec"]["volumes"] = [{"name": "vault-secrets", "emptyDir": {"medium": "Memory"}},
                              *(pod["spec"].get("volumes") or [])]  # fmt: skip
    _status(pod, "containerStatuses", "vault-agent")
    _status(pod, "initContainerStatuses", "vault-agent-init", COMPLETED)


def variables(pod: dict[str, Any]) -> None:
    """A webhook puts variables and a mount in front of those of every container."""
    for container in pod.get("spec", {}).get("containers", []):
        container["env"] = [
            {"name": "DD_AGENT_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            {"name": "LD_PRELOAD", "value": "/opt/agent/launcher.so"},
            *(container.get("env") or []),
        ]
        container["envFrom"] = [{"configMapRef": {"name": "proxy-settings", "optional": True}}]


def limit_range(pod: dict[str, Any]) -> None:
    """A LimitRange gives every container a limit, and the request that it then has."""
    spec = pod.get("spec", {})
    for container in [*spec.get("containers", []), *(spec.get("initContainers") or [])]:
        resources = container.setdefault("resources", {})
        resources["limits"] = {
            "cpu": "4",
            "memory": "8Gi",
            "ephemeral-storage": "10Gi",
            **resources.get("limits", {}),
        }
        resources["requests"] = {"cpu": "100m", "memory": "64Mi", **resources.get("requests", {})}
    pod["metadata"].setdefault("annotations", {})["kubernetes.io/limit-ranger"] = (
        "LimitRanger plugin set: cpu, memory limit for container main"
    )


def pod_security(pod: dict[str, Any]) -> None:
    """A policy sets users, capabilities and seccomp on pods and containers, and lets them have users of their own."""
    spec = pod.get("spec", {})
    spec["securityContext"] = {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000,
                               "seccompProfile": {"type": "RuntimeDefault"}}  # fmt: skip
    spec["hostUsers"] = False
    for container in spec.get("containers", []):
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def defaults(pod: dict[str, Any]) -> None:
    """Admission fills in account, priority, tolerations, a class of runtime and its overhead, and a place to run."""
    spec = pod.get("spec", {})
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.update(
        serviceAccountName="default", enableServiceLinks=True, imagePullSecrets=[{"name": "registry"}]
    )
    spec.update(runtimeClassName="nvidia", overhead={"cpu": "250m", "memory": "120Mi"})
    spec["tolerations"] = [
        *(spec.get("tolerations") or []),
        *({"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
          for key in ("not-ready", "unreachable")),
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    ]  # fmt: skip
    spec["topologySpreadConstraints"] = [
        {"maxSkew": 5, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    token = {
        "name": "kube-api-access-abcde",
        "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
    }
    spec["volumes"] = [*(spec.get("volumes") or []), token]
    spec["dnsConfig"] = {"options": [{"name": "ndots", "value": "2"}]}


def _in(value: Any, depth: int = 0) -> None:
    if isinstance(value, dict):
        for part in list(value.values()):
            _in(part, depth + 1)
        if depth and {"name", "type", "phase", "replicas", "uid", "image"} & set(value):
            value["xNew"] = {"of": ["a later version", None, 1.5, True]}
    elif isinstance(value, list):
        for part in value:
            _in(part, depth + 1)


def unknown_fields(obj: dict[str, Any]) -> None:
    """A later version of the API has further fields everywhere."""
    for part in ("metadata", "spec", "status"):
        if isinstance(obj.get(part), dict):
            _in(obj[part], 1)
            obj[part]["xNew"] = {"of": ["a later version", None, 1.5, True]}
    obj["xNew"] = None


ORDERED = {"tasks", "podSets", "initContainers", "env", "resourceGroups", "flavors", "replicatedJobs",
           "valuesPerLevel"}  # fmt: skip
"""Lists whose order means something; values of a topology assignment stand for its levels by their place."""


def _reversed(value: Any) -> None:
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(part, dict | list):
            _reversed(part)
        ordered = isinstance(part, list) and all(isinstance(one, dict) for one in part)
        if ordered and key not in ORDERED:
            part.reverse()


def other_order(obj: dict[str, Any]) -> None:
    """Lists whose order means nothing (conditions, statuses, containers, volumes, owners) come the other way round."""
    _reversed({key: obj[key] for key in ("metadata", "spec", "status") if key in obj})


VARIATIONS: dict[str, Variation] = {
    "labelled": objects(labelled),
    "mesh": objects(mesh, "Pod"),
    "native-sidecar": objects(native_sidecar, "Pod"),
    "vault-agent": objects(vault_agent, "Pod"),
    "variables": objects(variables, "Pod"),
    "limit-range": objects(limit_range, "Pod"),
    "pod-security": objects(pod_security, "Pod"),
    "defaults": objects(defaults, "Pod"),
    "unknown-fields": objects(unknown_fields),
    "other-order": objects(other_order),
}
"""Name -> variation."""
