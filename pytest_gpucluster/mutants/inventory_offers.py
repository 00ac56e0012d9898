"""What nodes and queues tell and nobody understands, and what was so for a time only."""

import dataclasses
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import gpu_names, node_status
from pytest_gpucluster.mutants import base

AWAY = 1.9
"""Seconds for which something is otherwise."""


def _amounts(node: dict[str, Any]) -> list[dict[str, Any]]:
    parts = [fields.sub(node, "status", part) for part in ("capacity", "allocatable")]
    return [part for part in parts if isinstance(part, dict)]


def _unknown_name(node: dict[str, Any]) -> None:
    """Offer what may be the same GPUs under a name of another plugin as well."""
    for amounts in _amounts(node):
        if any(gpu_names.is_gpu(name) for name in amounts):
            amounts["volcano.sh/vgpu-number"] = "80"


def _renamed(node: dict[str, Any]) -> None:
    """Offer the GPUs under the name of the product, on a node that no label calls one with GPUs."""
    for amounts in _amounts(node):
        for name in [name for name in amounts if gpu_names.is_gpu(name)]:
            amounts[f"{name}-h100"] = amounts.pop(name)
    labels = fields.sub(node, "metadata", "labels")
    node["metadata"]["labels"] = {
        key: value for key, value in labels.items() if "gpu" not in key.rpartition("/")[2]
    }


def _not_whole(node: dict[str, Any]) -> None:
    for amounts in _amounts(node):
        amounts.update({name: f"{amounts[name]}.5" for name in amounts if gpu_names.is_gpu(name)})


def _none(node: dict[str, Any]) -> None:
    part = fields.sub(node, "status", "allocatable")
    if isinstance(part, dict):
        part.update({name: "0" for name in part if gpu_names.is_gpu(name)})


def _last_node(evidence: Evidence) -> Line | None:
    found = [m.line for m in node_status.machines(evidence) if any(map(gpu_names.is_gpu, m.capacity))]
    return found[-1] if found and evidence.header.get("scenario") == "inventory" else None


def _on_last_node(change: Any) -> base.Act:
    def mutant(evidence: Evidence) -> Evidence:
        node = _last_node(evidence)
        if node is None:
            return evidence
        return base.each(evidence, lambda line: line.kind == "Node" and line.name == node.name, change)

    return mutant


def flickers(evidence: Evidence) -> Evidence:
    """Let a node offer no GPU for a moment, after all nodes were seen."""
    node = _last_node(evidence)
    if node is None:
        return evidence
    seen = max(line.t for line in evidence.of_kind("Node"))
    odd = dataclasses.replace(base.edited(node, _none), t=seen + 0.1, type="MODIFIED")
    back = dataclasses.replace(node, t=seen + 0.1 + AWAY, type="MODIFIED")
    # What was watched to the end is watched to the new one.
    longer = [
        dataclasses.replace(span, end=max(span.end, back.t)) if span.end >= evidence.end - 1e-3 else span
        for span in evidence.spans
    ]
    return base.with_lines(evidence, (*evidence.lines, odd, back), spans=longer)


def left(evidence: Evidence) -> Evidence:
    """Let a node that nobody cordoned be deleted while it is watched."""
    node = _last_node(evidence)
    if node is None:
        return evidence
    gone = dataclasses.replace(node, t=evidence.end - 1e-6, type="DELETED")
    return base.with_lines(evidence, (*evidence.lines, gone))


def shut_for_a_time(evidence: Evidence) -> Evidence:
    """Let the training queue be closed for a moment."""
    name = str(evidence.given.get("queue") or "default")
    found = [line for line in evidence.of_kind("Queue") if line.name == name]
    if not found or evidence.header.get("scenario") != "inventory":
        return evidence
    now = found[-1]
    shut = base.edited(now, lambda obj: obj["status"].update(state="Closed"))
    was, odd = (
        dataclasses.replace(line, t=now.t - before) for line, before in ((now, AWAY + 0.1), (shut, AWAY))
    )
    return base.with_lines(evidence, (*evidence.lines, was, odd))


def unread_promise(evidence: Evidence) -> Evidence:
    """Let the queue promise what is no amount."""
    name = str(evidence.given.get("queue") or "default")
    only = base.only("inventory", lambda seen: base.each(
        seen,
        lambda line: line.kind == "Queue" and line.name == name,
        lambda obj: obj["spec"].update(capability={"nvidia.com/gpu": "a lot"}),
    ))  # fmt: skip
    return only(evidence)


MUTANTS: base.Table = {
    "offers.unknown-name": base.Mutant(
        "a node offers 80 volcano.sh/vgpu-number in addition to its GPUs",
        _on_last_node(_unknown_name),
        {"INV-002": "inconclusive", "INV-008": "fail"},
    ),
    "offers.renamed": base.Mutant(
        "a node offers nvidia.com/gpu-h100, and no label mentions a GPU",
        _on_last_node(_renamed),
        {"INV-002": "fail", "INV-008": "fail"},
    ),
    "offers.not-whole": base.Mutant(
        "a node offers 8.5 GPUs", _on_last_node(_not_whole), {"INV-002": "inconclusive", "INV-008": "fail"}
    ),
    "offers.flickers": base.Mutant(
        "a node offers no GPU for 1.9 s", flickers, {"INV-002": "fail", "INV-008": "fail"}
    ),
    "offers.node-left": base.Mutant(
        "a GPU node is deleted while it is watched",
        left,
        {"INV-002": "inconclusive", "INV-003": "inconclusive", "INV-004": "inconclusive"},
    ),
    "offers.queue-shut-for-a-time": base.Mutant(
        "the queue is closed for 1.9 s", shut_for_a_time, {"INV-005": "fail"}
    ),
    "offers.unread-promise": base.Mutant(
        "the queue promises an invalid amount", unread_promise, {"INV-005": "inconclusive"}
    ),
}
