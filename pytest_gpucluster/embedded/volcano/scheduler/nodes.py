"""Nodes: whether one takes a task, which is best, and how a refusal by all of them is worded."""

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.volcano.amounts import Amounts, lacking
from pytest_gpucluster.embedded.volcano.scheduler.model import NodeRoom, Task
from pytest_gpucluster.plain.selectors import matches_labels

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
MAX_PODS = Fraction(110)
"""Pods that a node takes when it does not say (the kubelet's default)."""


def refusals(task: Task, node: NodeRoom, room: Amounts) -> list[str]:
    """Return why a node does not take a task; the first kind of reason found is the only one named.

    Args:
        task: The task.
        node: The node.
        room: What is free on the node, now or soon.
    """
    short = lacking(task.request, room, task.request)
    if short:
        return [f"Insufficient {name}" for name in short]
    if node.pods >= node.total.get("pods", MAX_PODS):
        return ["node(s) pod number exceeded"]
    spec = task.pod["spec"]
    tolerations = spec.get("tolerations") or []
    if node.node.get("spec", {}).get("unschedulable") and not _tolerates(
        tolerations, {"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}
    ):
        return ["node(s) were unschedulable"]
    for taint in node.node.get("spec", {}).get("taints") or []:
        if taint.get("effect") in BLOCKING_EFFECTS and not _tolerates(tolerations, taint):
            shown = f"{taint.get('key')}: {taint.get('value', '')}"
            return [f"node(s) had untolerated taint {{{shown}}}"]
    if not _selects(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return []


def _tolerates(tolerations: Iterable[Obj], taint: Mapping[str, Any]) -> bool:
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
            continue
        if not toleration.get("key"):
            if toleration.get("operator") == "Exists":
                return True
            continue
        if toleration["key"] != taint.get("key"):
            continue
        exists = toleration.get("operator") == "Exists"
        if exists or (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def _selects(spec: Obj, node: NodeRoom) -> bool:
    wanted = spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms")
    return not terms or any(_term(term, node) for term in terms)


def _term(term: Obj, node: NodeRoom) -> bool:
    fields = {"metadata.name": node.name}
    return matches_labels({"matchExpressions": term.get("matchExpressions")}, node.labels) and matches_labels(
        {"matchExpressions": term.get("matchFields")}, fields
    )


def best(task: Task, nodes: Iterable[NodeRoom]) -> NodeRoom:
    """Return the node on which a task leaves most room, the first by name of equals.

    The recordings spread pods: two pods of 4 GPUs went to two nodes of 8, every time.
    """
    return ranked(task, nodes)[0]


def ranked(task: Task, nodes: Iterable[NodeRoom]) -> list[NodeRoom]:
    """Return nodes, the best for a task first."""
    return sorted(nodes, key=lambda node: (_fullness(task, node), node.name))


def _fullness(task: Task, node: NodeRoom) -> Fraction:
    parts = [
        (node.used.get(name, Fraction(0)) + value) / node.total[name]
        for name, value in task.request.items()
        if node.total.get(name)
    ]
    return sum(parts, Fraction(0)) / len(parts) if parts else Fraction(node.pods)


def no_node_text(reasons: Iterable[str], nodes: int) -> str:
    """Return the text of a refusal by all nodes, such as `0/2 nodes are unavailable: 2 Insufficient cpu.`."""
    counted = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{nodes} nodes are unavailable: {', '.join(counted)}."
