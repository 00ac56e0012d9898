"""What the schemas of Kueue's custom resources fill in and refuse (code 422, reason Invalid)."""

from collections.abc import Iterator

from pytest_gpucluster.embedded.errors import Cause, bad_value, not_supported, required
from pytest_gpucluster.embedded.kinds.known import prune_fields
from pytest_gpucluster.embedded.kueue import names
from pytest_gpucluster.embedded.kueue.amounts import canonical, is_quantity
from pytest_gpucluster.embedded.objects import Obj

STOP_POLICIES = (names.NONE, names.HOLD, names.DRAIN)
STRATEGIES = ("StrictFIFO", "BestEffortFIFO")
CLUSTER_QUEUE_SPEC = frozenset({
    "admissionChecksStrategy", "admissionScope", "cohortName", "concurrentAdmissionPolicy", "fairSharing",
    "flavorFungibility", "namespaceSelector", "preemption", "queueingStrategy", "resourceGroups", "stopPolicy",
})  # fmt: skip
LOCAL_QUEUE_SPEC = frozenset({"clusterQueue", "fairSharing", "stopPolicy"})
ADMISSION_CHECK_SPEC = frozenset({"controllerName", "parameters", "retryDelayMinutes"})
FLAVOR_SPEC = frozenset({"nodeLabels", "nodeTaints", "tolerations", "topologyName"})
WORKLOAD_SPEC = frozenset({
    "active", "maximumExecutionTimeSeconds", "podSets", "preemptionGates", "priority", "priorityClassRef",
    "queueName",
})  # fmt: skip
_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
QUANTITIES = ("nominalQuota", "borrowingLimit", "lendingLimit")


def prune_cluster_queue(obj: Obj) -> list[str]:
    """Remove the fields that a ClusterQueue does not have, in place, and return their paths."""
    return prune_fields(obj.get("spec"), CLUSTER_QUEUE_SPEC, "spec")


def prune_local_queue(obj: Obj) -> list[str]:
    """Remove the fields that a LocalQueue does not have, in place, and return their paths."""
    return prune_fields(obj.get("spec"), LOCAL_QUEUE_SPEC, "spec")


def prune_admission_check(obj: Obj) -> list[str]:
    """Remove the fields that an AdmissionCheck does not have, in place, and return their paths."""
    return prune_fields(obj.get("spec"), ADMISSION_CHECK_SPEC, "spec")


def validate_admission_check(obj: Obj, old: Obj | None = None) -> list[Cause]:
    """Return what the schema refuses in an AdmissionCheck."""
    name = (obj.get("spec") or {}).get("controllerName")
    if not name:
        return [required("spec.controllerName")]
    if old is not None and (old.get("spec") or {}).get("controllerName") != name:
        return [bad_value("spec.controllerName", name, "field is immutable")]
    return []


def prune_flavor(obj: Obj) -> list[str]:
    """Remove the fields that a ResourceFlavor does not have, in place, and return their paths."""
    return prune_fields(obj.get("spec"), FLAVOR_SPEC, "spec")


def validate_flavor(obj: Obj, old: Obj | None = None) -> list[Cause]:
    """Return what the schema refuses in a ResourceFlavor."""
    spec = obj.get("spec") or {}
    before = {} if old is None else old.get("spec") or {}
    out: list[Cause] = []
    if spec.get("topologyName") and not spec.get("nodeLabels"):
        out.append(bad_value("spec", "object", "at least one nodeLabel is required when topology is set"))
    if before.get("topologyName"):
        out += [
            bad_value(
                "spec",
                "object",
                f"{field} {'is' if field == 'topologyName' else 'are'} immutable when topologyName is set",
            )
            for field in ("nodeLabels", "tolerations", "topologyName")
            if before.get(field) != spec.get(field)
        ]
    return out


def validate_topology(obj: Obj, old: Obj | None = None) -> list[Cause]:
    """Return what the schema refuses in a Topology."""
    levels = [str(level.get("nodeLabel") or "") for level in (obj.get("spec") or {}).get("levels") or []]
    if not levels or "" in levels:
        return [required("spec.levels")]
    if old is not None and (old.get("spec") or {}).get("levels") != obj["spec"]["levels"]:
        return [bad_value("spec.levels", "array", "field is immutable")]
    if len(set(levels)) < len(levels):
        return [bad_value("spec.levels", "array", "must be unique")]
    if names.HOSTNAME in levels[:-1]:
        why = f"the {names.HOSTNAME} label can only be used at the lowest level of topology"
        return [bad_value("spec.levels", "array", why)]
    return []


def prune_workload(obj: Obj) -> list[str]:
    """Remove the fields that a Workload does not have, in place, and return their paths."""
    return prune_fields(obj.get("spec"), WORKLOAD_SPEC, "spec")


def default_cluster_queue(obj: Obj) -> None:
    """Fill in the schema's defaults of a ClusterQueue."""
    spec = obj.setdefault("spec", {})
    fungibility = spec.setdefault("flavorFungibility", {})
    fungibility.setdefault("whenCanBorrow", "MayStopSearch")
    fungibility.setdefault("whenCanPreempt", "TryNextFlavor")
    preemption = spec.setdefault("preemption", {})
    preemption.setdefault("borrowWithinCohort", {}).setdefault("policy", "Never")
    preemption.setdefault("reclaimWithinCohort", "Never")
    preemption.setdefault("withinClusterQueue", "Never")
    spec.setdefault("queueingStrategy", "BestEffortFIFO")
    spec.setdefault("stopPolicy", names.NONE)


def default_local_queue(obj: Obj) -> None:
    """Fill in the schema's defaults of a LocalQueue."""
    obj.setdefault("spec", {}).setdefault("stopPolicy", names.NONE)


def default_workload(obj: Obj) -> None:
    """Fill in the schema's defaults of a Workload."""
    obj.setdefault("spec", {}).setdefault("active", True)


def normalize(obj: Obj) -> None:
    """Write the quantities of a ClusterQueue as a client written in Go sends them back, in place."""
    for group in (obj.get("spec") or {}).get("resourceGroups") or []:
        for flavor in group.get("flavors") or []:
            for resource in flavor.get("resources") or []:
                for name in QUANTITIES:
                    if name in resource:
                        resource[name] = canonical(resource["name"], resource[name])


def validate_cluster_queue(obj: Obj, old: Obj | None = None) -> list[Cause]:  # noqa: ARG001
    """Return what the schema refuses in a ClusterQueue."""
    spec = obj.get("spec") or {}
    out: list[Cause] = []
    groups = spec.get("resourceGroups") or []
    for index, group in enumerate(groups):
        covered = group.get("coveredResources") or []
        if any(len(f.get("resources") or []) != len(covered) for f in group.get("flavors") or []):
            why = "flavors must have the same number of resources as the coveredResources"
            out.append(bad_value(f"spec.resourceGroups[{index}]", "object", why))
    borrows = any(
        resource.get("borrowingLimit") is not None
        for group in groups
        for flavor in group.get("flavors") or []
        for resource in flavor.get("resources") or []
    )
    if borrows and not spec.get("cohortName"):
        out.append(bad_value("spec", "object", "borrowingLimit must be nil when cohort is empty"))
    out += _not_quantities(groups)
    preemption = spec.get("preemption") or {}
    borrowing = (preemption.get("borrowWithinCohort") or {}).get("policy", "Never")
    if preemption.get("reclaimWithinCohort") == "Never" and borrowing != "Never":
        why = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        out.append(bad_value("spec.preemption", "object", why))
    if spec.get("queueingStrategy") not in STRATEGIES:
        out.append(not_supported("spec.queueingStrategy", spec.get("queueingStrategy"), STRATEGIES))
    return out + _stop_policy(spec)


def _not_quantities(groups: list[Obj]) -> Iterator[Cause]:
    for i, group in enumerate(groups):
        for j, flavor in enumerate(group.get("flavors") or []):
            for k, resource in enumerate(flavor.get("resources") or []):
                for name in QUANTITIES:
                    stated = resource.get(name, "0")
                    field = f"spec.resourceGroups[{i}].flavors[{j}].resources[{k}].{name}"
                    if not is_quantity(stated):
                        yield bad_value(field, stated, f"{field} in body should match '{QUANTITY}'")


def validate_local_queue(obj: Obj, old: Obj | None = None) -> list[Cause]:
    """Return what the schema refuses in a LocalQueue."""
    spec = obj.get("spec") or {}
    out = _stop_policy(spec)
    if not spec.get("clusterQueue"):
        out.append(required("spec.clusterQueue"))
    elif old is not None and old["spec"].get("clusterQueue") != spec["clusterQueue"]:
        out.append(bad_value("spec.clusterQueue", spec["clusterQueue"], "field is immutable"))
    return out


def _stop_policy(spec: Obj) -> list[Cause]:
    policy = spec.get("stopPolicy")
    return [] if policy in STOP_POLICIES else [not_supported("spec.stopPolicy", policy, STOP_POLICIES)]
