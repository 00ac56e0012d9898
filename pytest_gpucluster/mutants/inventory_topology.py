"""Departures of the labels by which nodes tell their place in the network."""

import dataclasses
from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain.copies import clone

RACK = "topology.gpucluster.dev/rack"


def _labels(change: Callable[[dict[str, Any]], None], *, nodes: str = "") -> base.Act:
    """Return the mutant that changes the labels of nodes that have a place; of all, or of the one named."""

    def edit(node: dict[str, Any]) -> None:
        labels = {**fields.sub(node, "metadata", "labels")}
        if RACK in labels and nodes in ("", node["metadata"]["name"]):
            change(labels)
        node["metadata"]["labels"] = labels

    return base.only(
        "inventory", lambda evidence: base.each(evidence, lambda line: line.kind == "Node", edit)
    )


def _renamed(labels: dict[str, Any]) -> None:
    labels["topology.gpucluster.dev/racks"] = labels.pop(RACK)


def lost_for_a_moment(evidence: Evidence) -> Evidence:
    """Let one node have no rack at first."""
    first = next(
        (line for line in evidence.of_kind("Node") if RACK in fields.sub(line.object, "metadata", "labels")),
        None,
    )
    if first is None:
        return evidence
    obj = clone(dict(first.object))
    del obj["metadata"]["labels"][RACK]
    # A moment later, so that no two lines tell of one node at one time.
    back = dataclasses.replace(first, t=first.t + 0.001, type="MODIFIED")
    lines = [dataclasses.replace(line, object=obj) if line is first else line for line in evidence.lines]
    return base.with_lines(evidence, (*lines, back))


MUTANTS: base.Table = {
    "inventory.rack-unlabelled": base.Mutant(
        "one node does not tell its rack",
        _labels(lambda labels: labels.pop(RACK), nodes="gpu-1"),
        {"INV-004": "fail"},
    ),
    "inventory.rack-without-value": base.Mutant(
        "the label of the rack is there on all nodes, without a value",
        _labels(lambda labels: labels.update({RACK: ""})),
        {"INV-004": "fail"},
    ),
    "inventory.rack-renamed": base.Mutant(
        "all nodes tell their rack under another key", _labels(_renamed), {"INV-004": "fail"}
    ),
    "inventory.rack-label-late": base.Mutant(
        "one node tells its rack a moment after it was first seen",
        base.only("inventory", lost_for_a_moment),
        {"INV-004": "inconclusive"},
    ),
}
