"""Words and shapes that Kubernetes takes for values of a pod, for the overlay that a profile lays onto every pod."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pytest_gpucluster.profile import shapes

_PULL: Final = ("Always", "IfNotPresent", "Never")
_POLICY: Final = ("Honor", "Ignore")
_PROFILE: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_LABELS: Final = ("DoesNotExist", "Exists", "In", "NotIn")

WORDS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "V1Toleration": {
        "operator": ("Equal", "Exists", "Gt", "Lt"),
        "effect": ("NoExecute", "NoSchedule", "PreferNoSchedule"),
    },
    "V1PodSpec": {
        "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        "preemptionPolicy": ("Never", "PreemptLowerPriority"),
        "restartPolicy": ("Always", "Never", "OnFailure"),
    },
    "V1NodeSelectorRequirement": {"operator": (*_LABELS, "Gt", "Lt")},
    "V1LabelSelectorRequirement": {"operator": _LABELS},
    "V1TopologySpreadConstraint": {
        "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
        "nodeAffinityPolicy": _POLICY,
        "nodeTaintsPolicy": _POLICY,
    },
    "V1Container": {
        "imagePullPolicy": _PULL,
        "terminationMessagePolicy": ("FallbackToLogsOnError", "File"),
    },
    "V1ImageVolumeSource": {"pullPolicy": _PULL},
    "V1ContainerPort": {"protocol": ("SCTP", "TCP", "UDP")},
    "V1SeccompProfile": {"type": _PROFILE},
    "V1AppArmorProfile": {"type": _PROFILE},
    "V1PodSecurityContext": {
        "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
        "supplementalGroupsPolicy": ("Merge", "Strict"),
    },
    "V1SecurityContext": {"procMount": ("Default", "Unmasked")},
    "V1VolumeMount": {"mountPropagation": ("Bidirectional", "HostToContainer", "None")},
    "V1PodOS": {"name": ("linux", "windows")},
}
"""Type -> field -> the words that the API server takes."""

SHAPES: Final[Mapping[str, Mapping[str, shapes.Shape]]] = {
    "V1Toleration": {"key": shapes.LABEL_KEY, "value": shapes.LABEL_VALUE},
    "V1PodSpec": {
        "priorityClassName": shapes.OBJECT,
        "runtimeClassName": shapes.OBJECT,
        "serviceAccountName": shapes.OBJECT,
    },
    "V1LocalObjectReference": {"name": shapes.OBJECT},
    "V1NodeSelectorRequirement": {"key": shapes.LABEL_KEY},
    "V1LabelSelectorRequirement": {"key": shapes.LABEL_KEY},
    "V1TopologySpreadConstraint": {"topologyKey": shapes.LABEL_KEY},
    "V1Container": {"name": shapes.NAMESPACE, "image": shapes.IMAGE},
    "V1Volume": {"name": shapes.NAMESPACE},
}
"""Type -> field -> what its text must look like."""

LABELS: Final = frozenset({"labels", "matchLabels", "nodeSelector"})
"""Mappings of labels; those of `NAMED` have keys of the same shape, and any text as value."""

NAMED: Final = frozenset({"annotations"})

NUMBERS: Final = frozenset({"divisor", "limits", "overhead", "requests", "sizeLimit"})
"""Quantities, which YAML may make numbers."""

TAKEN: Final[Mapping[str, str]] = {"nodeName": "must be left out: with it no scheduler places the pod"}
"""Fields of a pod's spec that would take it away from what is tested."""


def odd(kind: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the field of an object and what is wrong with it in view of its other fields."""
    if kind != "V1Toleration":
        return
    operator = value.get("operator") or "Equal"
    if operator == "Exists" and value.get("value"):
        yield "value", "must be left out with `operator: Exists`, which tolerates any value"
    if not value.get("key") and operator != "Exists":
        yield (
            "key" if "key" in value else "",
            "must have a key, or `operator: Exists`, which tolerates every taint",
        )
    if value.get("tolerationSeconds") is not None and value.get("effect") != "NoExecute":
        yield "tolerationSeconds", "must be left out unless `effect` is NoExecute"
