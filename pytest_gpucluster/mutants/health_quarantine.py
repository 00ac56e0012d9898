"""Departures of nodes that are kept back for their health."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import node_status
from pytest_gpucluster.mutants import base

Change = Callable[[dict[str, Any]], None]


def _last(evidence: Evidence) -> str:
    return max((m.name for m in node_status.machines(evidence) if m.gpu_label), default="")


def _on_last_node(change: Change) -> base.Act:
    def mutant(evidence: Evidence) -> Evidence:
        name = _last(evidence)
        return base.each(evidence, lambda line: line.kind == "Node" and line.name == name, change)

    return base.only("inventory", mutant)


def _cordoned(node: dict[str, Any]) -> None:
    node["spec"] = {**(node.get("spec") or {}), "unschedulable": True}


def _labelled(**labels: str) -> Change:
    def change(node: dict[str, Any]) -> None:
        node["metadata"]["labels"] = {**node["metadata"]["labels"], **labels}

    return change


def _tainted(key: str, value: str) -> Change:
    def change(node: dict[str, Any]) -> None:
        taint = {"key": key, "value": value, "effect": "NoSchedule"}
        node["spec"] = {**(node.get("spec") or {}), "taints": [taint]}

    return change


def _repair_failed(node: dict[str, Any]) -> None:
    _cordoned(node)
    _labelled(
        **{
            "k8saas.nvidia.com/cordon-by": "NVSentinel",
            "dgxc.nvidia.com/nvsentinel-state": "remediation-failed",
        }
    )(node)
    condition = {"type": "SysLogsXIDError", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
    node["status"]["conditions"] = [*node["status"]["conditions"], condition]


MUTANTS: base.Table = {
    "health.cordoned-for-nothing": base.Mutant(
        "one node is cordoned, and nobody says why", _on_last_node(_cordoned), {"HLT-005": "fail"}
    ),
    "health.label-left-behind": base.Mutant(
        "one node keeps the label of a health system, without a fault",
        _on_last_node(
            _labelled(**{"sagemaker.amazonaws.com/node-health-status": "UnschedulablePendingReboot"})
        ),
        {"HLT-005": "fail"},
    ),
    "health.repair-failed": base.Mutant(
        "the repair of a node with an open fault has failed",
        _on_last_node(_repair_failed),
        {"HLT-005": "fail"},
    ),
    "health.taint-of-nobody": base.Mutant(
        "one node has a taint that speaks of a fault, of no known system",
        _on_last_node(_tainted("example.org/gpu-fault", "true")),
        {"HLT-005": "inconclusive"},
    ),
}
