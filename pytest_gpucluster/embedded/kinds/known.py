"""Which fields the everyday kinds have, so that a misspelt one is found under strict field validation."""

from collections.abc import Iterable

from pytest_gpucluster.embedded.objects import Obj

TOP = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
METADATA = frozenset({
    "annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers",
    "generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences",
    "resourceVersion", "selfLink", "uid",
})  # fmt: skip
POD_SPEC = frozenset({
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig",
    "dnsPolicy", "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork",
    "hostPID", "hostUsers", "hostname", "hostnameOverride", "imagePullSecrets", "initContainers",
    "nodeName", "nodeSelector", "os", "overhead", "preemptionPolicy", "priority", "priorityClassName",
    "readinessGates", "resourceClaims", "resources", "restartPolicy", "runtimeClassName", "schedulerName",
    "schedulingGates", "schedulingGroup", "securityContext", "serviceAccount", "serviceAccountName",
    "setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds",
    "tolerations", "topologySpreadConstraints", "volumes", "workloadRef",
})  # fmt: skip
CONTAINER = frozenset({
    "args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name",
    "ports", "readinessProbe", "resizePolicy", "resources", "restartPolicy", "restartPolicyRules",
    "securityContext", "startupProbe", "stdin", "stdinOnce", "terminationMessagePath",
    "terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts", "workingDir",
})  # fmt: skip
JOB_SPEC = frozenset({
    "activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode", "completions",
    "managedBy", "manualSelector", "maxFailedIndexes", "parallelism", "podFailurePolicy",
    "podReplacementPolicy", "scheduling", "selector", "successPolicy", "suspend", "template",
    "ttlSecondsAfterFinished",
})  # fmt: skip


def prune_fields(obj: object, known: Iterable[str], path: str) -> list[str]:
    """Remove the fields of an object that are not known and return their paths."""
    if not isinstance(obj, dict):
        return []
    unknown = sorted(set(obj) - set(known))
    for field in unknown:
        del obj[field]
    return [f"{path}.{field}" if path else field for field in unknown]


def prune_pod_spec(spec: object, path: str) -> list[str]:
    """Remove unknown fields of a pod spec and its containers; return their paths."""
    out = prune_fields(spec, POD_SPEC, path)
    if isinstance(spec, dict):
        for kind in ("initContainers", "containers"):
            for i, container in enumerate(spec.get(kind) or []):
                out += prune_fields(container, CONTAINER, f"{path}.{kind}[{i}]")
    return out


def _prune_top(obj: Obj) -> list[str]:
    return prune_fields(obj, TOP, "") + prune_fields(obj.get("metadata"), METADATA, "metadata")


def prune_pod(pod: Obj) -> list[str]:
    """Remove unknown fields of a pod; return their paths."""
    return _prune_top(pod) + prune_pod_spec(pod.get("spec"), "spec")


def prune_job(job: Obj) -> list[str]:
    """Remove unknown fields of a batch Job; return their paths."""
    out = _prune_top(job) + prune_fields(job.get("spec"), JOB_SPEC, "spec")
    template = (job.get("spec") or {}).get("template") or {}
    out += prune_fields(template, {"metadata", "spec"}, "spec.template")
    return out + prune_pod_spec(template.get("spec"), "spec.template.spec")
