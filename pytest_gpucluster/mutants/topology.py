"""Departures of gangs that must stay inside one domain of the network."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import gangs, kueue_workloads, topology
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names

RACK = "topology.gpucluster.dev/rack"
Change = Callable[[dict[str, Any]], None]


def _demanding(evidence: Evidence) -> list[gangs.Gang]:
    return [gang for gang in gangs.gangs(evidence) if topology.demanded(gang)]


def _nodes(evidence: Evidence) -> dict[str, str]:
    """Return node -> its rack, of the nodes that tell it."""
    lines = evidence.of_kind("Node")
    racks = ((line.name, fields.text(fields.sub(line.object, "metadata", "labels"), RACK)) for line in lines)
    return {name: rack for name, rack in racks if rack}


def member_elsewhere(evidence: Evidence) -> Evidence:
    """Let one member of each gang that was placed be on a node of another rack."""
    racks = _nodes(evidence)
    strays = {
        pod.uid: other
        for gang in _demanding(evidence)
        for pod in gang.pods[:1]
        if pod.node
        for other in [next((name for name, rack in racks.items() if rack != racks.get(pod.node)), "")]
        if other
    }

    def move(obj: dict[str, Any]) -> None:
        if obj["spec"].get("nodeName"):
            obj["spec"]["nodeName"] = strays[obj["metadata"]["uid"]]

    return base.each(evidence, lambda line: line.uid in strays, move)


def _of_nodes(change: Callable[[Evidence, str], Change | None]) -> base.Act:
    """Return the mutant that changes some nodes of an evidence with gangs that demand a domain."""

    def mutant(evidence: Evidence) -> Evidence:
        if not _demanding(evidence):
            return evidence
        changes = {name: found for name in _nodes(evidence) if (found := change(evidence, name)) is not None}

        def edit(obj: dict[str, Any]) -> None:
            changes[obj["metadata"]["name"]](obj)

        return base.each(evidence, lambda line: line.kind == "Node" and line.name in changes, edit)

    return mutant


def _used(evidence: Evidence) -> list[str]:
    return sorted({pod.node for gang in _demanding(evidence) for pod in gang.pods if pod.node})


def _apart(evidence: Evidence, node: str) -> Change | None:
    """Let the last node that was used be in a rack of its own."""
    used = _used(evidence)
    if not used or node != used[-1]:
        return None
    return lambda obj: obj["metadata"]["labels"].update({RACK: "rack-9"})


def _unlabelled(evidence: Evidence, node: str) -> Change | None:
    """Let the nodes that were used not tell their rack."""
    return (lambda obj: obj["metadata"]["labels"].pop(RACK)) if node in _used(evidence) else None


def _elsewhere_full(evidence: Evidence, node: str) -> Change | None:
    """Let no node that was not used offer a slot."""
    if node in _used(evidence):
        return None

    def take(obj: dict[str, Any]) -> None:
        offered = fields.sub(obj, "status", "allocatable")
        for resource in [key for key in offered if key.startswith(names.SLOT_PREFIX)]:
            obj["status"]["allocatable"][resource] = "0"

    return take


def not_asked(evidence: Evidence) -> Evidence:
    """Let no Job ask for a level."""

    def strip(obj: dict[str, Any]) -> None:
        templates = [obj, *([obj["spec"]["template"]] if "template" in obj.get("spec", {}) else [])]
        for one in templates:
            annotations = (one.get("metadata") or {}).get("annotations") or {}
            annotations.pop(names.ANNOTATION_KUEUE_TOPOLOGY, None)
        for one in (obj["spec"], obj["spec"].get("scheduling") or {}):
            one.pop("schedulingConstraints", None)

    kinds = ("Pod", names.BATCH_JOB, names.NATIVE_POD_GROUP)
    return base.each(evidence, lambda line: line.kind in kinds, strip)


def nothing_said(evidence: Evidence) -> Evidence:
    """Let nobody say why a native gang that demands a domain waits."""
    groups = [gang for gang in _demanding(evidence) if any(group.native for group in gang.groups)]
    mine = {group.uid for gang in groups for group in gang.groups} | {
        pod.uid for gang in groups for pod in gang.pods
    }

    def silence(obj: dict[str, Any]) -> None:
        if "conditions" in (obj.get("status") or {}):
            kept = [c for c in obj["status"]["conditions"] if c.get("status") != "False"]
            obj["status"]["conditions"] = kept

    return base.each(evidence, lambda line: line.uid in mine, silence)


def _assignments(change: Change) -> base.Act:
    """Return the mutant that changes what Workloads were told of their domains."""

    def edit(obj: dict[str, Any]) -> None:
        for part in fields.items(obj, "status", "admission", "podSetAssignments"):
            if "topologyAssignment" in part:
                change(part)  # type: ignore[arg-type]

    return lambda evidence: base.each(evidence, lambda line: line.kind == kueue_workloads.WORKLOAD, edit)


def _told_elsewhere(part: dict[str, Any]) -> None:
    for one in part["topologyAssignment"]["slices"]:
        one["valuesPerLevel"][-1] = {"universal": "rack-9"}


MUTANTS: base.Table = {
    "topology.member-elsewhere": base.Mutant(
        "one member of a gang is in another rack than the others",
        member_elsewhere,
        base.all_to("fail", "GANG-012 KUE-007"),
    ),
    "topology.racks-apart": base.Mutant(
        "two nodes of one rack are in two", _of_nodes(_apart), base.all_to("fail", "GANG-012 KUE-007")
    ),
    "topology.racks-untold": base.Mutant(
        "the nodes that a gang was placed on do not tell their rack",
        _of_nodes(_unlabelled),
        base.all_to("inconclusive", "GANG-012 KUE-007"),
    ),
    "topology.nothing-elsewhere": base.Mutant(
        "only the rack that a gang was placed in had slots",
        _of_nodes(_elsewhere_full),
        base.all_to("inconclusive", "GANG-012 KUE-007"),
    ),
    "topology.not-asked": base.Mutant(
        "no Job asks for a level", not_asked, base.all_to("inconclusive", "GANG-012 KUE-007")
    ),
    "topology.nothing-said": base.Mutant(
        "no native PodGroup and no pod of one says why it waits", nothing_said, {"GANG-012": "inconclusive"}
    ),
    "topology.told-elsewhere": base.Mutant(
        "the Workload was told another rack than its pods are in",
        _assignments(_told_elsewhere),
        {"KUE-007": "fail"},
    ),
    "topology.not-told": base.Mutant(
        "the Workload was told no rack",
        _assignments(lambda part: part.pop("topologyAssignment")),
        {"KUE-007": "inconclusive"},
    ),
}
