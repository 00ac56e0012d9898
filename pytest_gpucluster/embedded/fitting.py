"""Does a pod fit a node, and if not, why: the filters of kube-scheduler and their words."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from pytest_gpucluster.embedded.objects import Obj, is_deleting, labels_of, name_of
from pytest_gpucluster.plain.quantities import parse_quantity

Amounts = dict[str, Fraction]

ENDED = ("Succeeded", "Failed")


def requests_of(pod: Obj) -> Amounts:
    """Return what a pod asks for: the sum of its containers, or its largest init container if more."""
    spec = pod["spec"]
    total: Amounts = {}
    restartable: Amounts = {}
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            _add(restartable, _container(container))
    for container in spec.get("containers") or []:
        _add(total, _container(container))
    _add(total, restartable)
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") != "Always":
            for name, amount in _container(container).items():
                total[name] = max(total.get(name, Fraction(0)), amount)
    for name, value in (spec.get("overhead") or {}).items():
        _add(total, {name: parse_quantity(value)})
    return total


def _container(container: Obj) -> Amounts:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse_quantity(value) for name, value in asked.items()}


def _add(into: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, Fraction(0)) + amount


HOST = "kubernetes.io/hostname"
"""Topology of anti-affinity that is known here: one node."""


@dataclass
class NodeRoom:
    """One node as a scheduler sees it.

    Attributes:
        node: The Node object.
        allocatable: What it offers.
        used: What the pods bound to it ask for.
        pods: Those pods.
        demanding: Those of them that demand to share the node with none of some pods.
    """

    node: Obj
    allocatable: Amounts
    used: Amounts = field(default_factory=dict)
    pods: list[Obj] = field(default_factory=list)
    demanding: list[Obj] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the node."""
        return name_of(self.node)

    def place(self, pod: Obj) -> None:
        """Count a pod as bound here."""
        _add(self.used, requests_of(pod))
        self.pods.append(pod)
        if _anti_affinity(pod):
            self.demanding.append(pod)

    def copy(self) -> "NodeRoom":
        """Return a copy on which a placement can be tried."""
        return NodeRoom(self.node, self.allocatable, dict(self.used), list(self.pods), list(self.demanding))


def rooms_of(nodes: Iterable[Obj], pods: Iterable[Obj]) -> list[NodeRoom]:
    """Return the nodes with what the given pods leave of them, by name."""
    rooms: dict[str, NodeRoom] = {}
    for node in nodes:
        if is_deleting(node):
            continue
        offered = node.get("status", {}).get("allocatable") or {}
        rooms[name_of(node)] = NodeRoom(node, {k: parse_quantity(v) for k, v in offered.items()})
    for pod in pods:
        room = rooms.get(str(pod["spec"].get("nodeName")))
        if room is not None and pod.get("status", {}).get("phase") not in ENDED:
            room.place(pod)
    return [rooms[name] for name in sorted(rooms)]


@dataclass(frozen=True)
class Misfit:
    """Why a node is refused.

    Attributes:
        reasons: In kube-scheduler's words.
        preemptible: Whether removing other pods could help.
    """

    reasons: tuple[str, ...]
    preemptible: bool


def misfit(pod: Obj, requests: Amounts, room: NodeRoom) -> Misfit | None:
    """Return why a pod does not fit a node, None when it does."""
    spec, node = pod["spec"], room.node
    taints = [t for t in node["spec"].get("taints") or [] if t.get("effect") in ("NoSchedule", "NoExecute")]
    unschedulable = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    tolerations = spec.get("tolerations") or []
    if node["spec"].get("unschedulable") and not tolerated(unschedulable, tolerations):
        return Misfit(("node(s) were unschedulable",), preemptible=False)
    if any(not tolerated(t, tolerations) for t in taints):
        return Misfit(("node(s) had untolerated taint(s)",), preemptible=False)
    if not _selected(spec, node):
        return Misfit(("node(s) didn't match Pod's node affinity/selector",), preemptible=False)
    if any(_kept_apart(other, pod) for other in room.demanding) or (
        _anti_affinity(pod) and any(_kept_apart(pod, other) for other in room.pods)
    ):
        return Misfit(("node(s) didn't match pod anti-affinity rules",), preemptible=True)
    return _resources(requests, room)


def _anti_affinity(pod: Obj) -> list[Obj]:
    affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    return list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or [])


def _kept_apart(pod: Obj, other: Obj) -> bool:
    """Report whether a pod demands not to share a node with another: required anti-affinity within its namespace."""
    labels = other["metadata"].get("labels") or {}
    for term in _anti_affinity(pod):
        wanted = (term.get("labelSelector") or {}).get("matchLabels") or {}
        same_space = pod["metadata"].get("namespace") == other["metadata"].get("namespace")
        if term.get("topologyKey") == HOST and wanted and same_space and wanted.items() <= labels.items():
            return True
    return False


def _resources(requests: Amounts, room: NodeRoom) -> Misfit | None:
    reasons: list[str] = []
    preemptible = True
    limit = room.allocatable.get("pods")
    if limit is not None and len(room.pods) + 1 > limit:
        reasons.append("Too many pods")
    for name, asked in requests.items():
        offered = room.allocatable.get(name, Fraction(0))
        if asked > 0 and asked > offered - room.used.get(name, Fraction(0)):
            reasons.append(f"Insufficient {name}")
            preemptible = preemptible and asked <= offered
    return Misfit(tuple(reasons), preemptible) if reasons else None


def tolerated(taint: Obj, tolerations: Iterable[Obj]) -> bool:
    """Report whether one of some tolerations covers a taint."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
            continue
        if toleration.get("key") and toleration["key"] != taint.get("key"):
            continue
        if toleration.get("operator") == "Exists":
            return True
        if toleration.get("key") and (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def _selected(spec: Obj, node: Obj) -> bool:
    labels = labels_of(node)
    if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not affinity:
        return True
    return any(_term(t, node) for t in affinity.get("nodeSelectorTerms") or [])


def _term(term: Obj, node: Obj) -> bool:
    fields = {"metadata.name": name_of(node)}
    wanted = [(e, labels_of(node)) for e in term.get("matchExpressions") or []]
    wanted += [(e, fields) for e in term.get("matchFields") or []]
    return bool(wanted) and all(_expression(e, values) for e, values in wanted)


def _expression(expression: Obj, values: dict[str, str]) -> bool:
    key, listed = expression["key"], expression.get("values") or []
    match expression["operator"]:
        case "In":
            return values.get(key) in listed
        case "NotIn":
            return values.get(key) not in listed
        case "Exists":
            return key in values
        case "DoesNotExist":
            return key not in values
        case "Gt":
            return key in values and int(values[key]) > int(listed[0])
        case "Lt":
            return key in values and int(values[key]) < int(listed[0])
    return False


def filter_text(misfits: list[Misfit]) -> str:
    """Return why no node fits a pod of a group, for which no preemption of its own is tried."""
    if not misfits:
        return "no nodes available to schedule pods"
    counted = Counter(r for m in misfits for r in m.reasons)
    reasons = ", ".join(sorted(f"{n} {reason}" for reason, n in counted.items()))
    return f"0/{len(misfits)} nodes are available: {reasons}."


def refusal_text(misfits: list[Misfit]) -> str:
    """Return the text of a FailedScheduling event, with the words of Kubernetes."""
    if not misfits:
        return filter_text(misfits)
    total = len(misfits)
    helpful = sum(1 for m in misfits if m.preemptible)
    parts: list[str] = []
    if total - helpful:
        parts.append(f"{total - helpful} Preemption is not helpful for scheduling")
    if helpful:
        parts.append(f"{helpful} No preemption victims found for incoming pod")
    return (
        f"{filter_text(misfits)} no new claims to deallocate, preemption: "
        f"0/{total} nodes are available: {', '.join(sorted(parts))}."
    )


def preference(requests: Amounts, room: NodeRoom) -> tuple[Fraction, int, str]:
    """Return the sort key of a node for a pod: the emptier first, then fewer pods, then its name."""
    used = Fraction(0)
    for name in ("cpu", "memory"):
        offered = room.allocatable.get(name)
        if offered:
            used += (room.used.get(name, Fraction(0)) + requests.get(name, Fraction(0))) / offered
    return used, len(room.pods), room.name
