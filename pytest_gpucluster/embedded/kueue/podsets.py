"""What Kueue adds to the pod template of a Job when it starts it, and takes away when it stops it."""

from dataclasses import dataclass, field

from pytest_gpucluster.embedded.kueue import names
from pytest_gpucluster.embedded.kueue.placement import explicit
from pytest_gpucluster.embedded.kueue.workloads import OWN_LABELS
from pytest_gpucluster.embedded.names import is_label
from pytest_gpucluster.embedded.objects import Obj, name_of
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.plain.copies import clone


@dataclass
class PodSetInfo:
    """What is added to a template."""

    count: int
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: list[Obj] = field(default_factory=list)
    gates: list[Obj] = field(default_factory=list)


def running_info(store: Store, workload: Obj) -> PodSetInfo:
    """Return what the admission of a Workload adds to its only pod set."""
    admission = workload["status"]["admission"]
    (assignment,) = admission["podSetAssignments"]
    out = PodSetInfo(int(assignment["count"]))
    out.annotations[names.WORKLOAD_ANNOTATION] = name_of(workload)
    out.labels[names.PODSET_LABEL] = str(assignment["name"])
    out.labels[names.LOCAL_QUEUE_LABEL] = str(workload["spec"].get("queueName") or "")
    if is_label(str(admission["clusterQueue"])):
        out.labels[names.CLUSTER_QUEUE_LABEL] = str(admission["clusterQueue"])
    if "topologyAssignment" in assignment:
        out.gates.append({"name": names.TOPOLOGY_GATE})
        (pod_set,) = workload["spec"]["podSets"]
        if not explicit(pod_set):
            out.annotations[names.UNCONSTRAINED_TOPOLOGY] = "true"
    for name in dict.fromkeys((assignment.get("flavors") or {}).values()):
        spec = (store.peek(names.FLAVOR, None, name) or {}).get("spec") or {}
        out.node_selector |= spec.get("nodeLabels") or {}
        out.tolerations += clone(spec.get("tolerations") or [])
    return out


def merge(template: Obj, info: PodSetInfo) -> None:
    """Add to a template, in place."""
    meta = template.setdefault("metadata", {})
    meta["labels"] = {**(meta.get("labels") or {}), **info.labels}
    meta["annotations"] = {**(meta.get("annotations") or {}), **info.annotations}
    spec = template["spec"]
    if info.node_selector:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **info.node_selector}
    if info.gates:
        spec["schedulingGates"] = [*(spec.get("schedulingGates") or []), *info.gates]
    if info.tolerations:
        spec["tolerations"] = [*(spec.get("tolerations") or []), *info.tolerations]


def restore(template: Obj, workload: Obj) -> None:
    """Give a template back what its Workload was made of, in place; the Job's own labels stay."""
    (pod_set,) = workload["spec"]["podSets"]
    before = pod_set["template"]
    meta, spec = template.setdefault("metadata", {}), template["spec"]
    own = {k: v for k, v in (meta.get("labels") or {}).items() if k in OWN_LABELS}
    _set(meta, "labels", {**((before.get("metadata") or {}).get("labels") or {}), **own})
    _set(meta, "annotations", (before.get("metadata") or {}).get("annotations"))
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        _set(spec, name, before["spec"].get(name))


def _set(holder: Obj, name: str, value: object) -> None:
    if value:
        holder[name] = clone(value)
    else:
        holder.pop(name, None)
