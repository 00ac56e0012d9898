"""Departures of how nodes align pods, and of what their kubelets say of it."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.evidence import held, numa
from pytest_gpucluster.evidence.model import Evidence, Line
from pytest_gpucluster.evidence.mutate import base

REASON = "TopologyAffinityError"
RUNNING = {"phase": "Running", "containerStatuses": [{"name": "c0", "state": {"running": {}}}]}


def _played(evidence: Evidence, role: str) -> list[str]:
    """Return the uids of the pods that play a role, the last node's last."""
    told = evidence.given.get("roles")
    members = told.get(role) if isinstance(told, Mapping) else None
    return [str(member["uid"]) for member in members or ()]


def _decided(role: str, status: Mapping[str, Any], *, last: bool = False) -> base.Mutant:
    """Return the mutant that gives pods of a role another end: of all nodes, or of the `last` one."""

    def mutant(evidence: Evidence) -> Evidence:
        pods = _played(evidence, role)
        uids = set(pods[-1:] if last else pods)

        def bound(line: Line) -> bool:
            return line.uid in uids and line.kind == "Pod" and bool(line.object["spec"].get("nodeName"))

        def change(obj: dict[str, Any]) -> None:
            kept = {key: obj["status"][key] for key in ("qosClass", "startTime") if key in obj["status"]}
            obj["status"] = {**kept, **status}

        return base.each(evidence, bound, change)

    return mutant


def _rejected(reason: str) -> dict[str, Any]:
    return {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {reason}"}


def _device(change: Callable[[list[dict[str, Any]]], None], role: str) -> base.Mutant:
    """Return the mutant that changes what the pods of a role say of their devices."""

    def mutant(evidence: Evidence) -> Evidence:
        uids = set(_played(evidence, role))

        def act(line: Line, told: dict[str, Any]) -> dict[str, Any]:
            if told.get("event") == held.EVENT and line.data.get("uid") in uids:
                change(told["devices"])
            return told

        return base.words(evidence, act) if uids else evidence

    return mutant


def _moved(devices: list[dict[str, Any]]) -> None:
    devices[-1]["numa"] = 1 - int(devices[-1]["numa"] or 0)


def _unplaced(devices: list[dict[str, Any]]) -> None:
    devices[-1]["numa"] = None


def kubelets_silent(evidence: Evidence) -> Evidence:
    """Let nobody read the kubelets' configuration, and no pod show their scope."""
    if not _played(evidence, "split"):
        return evidence
    denied = {"code": 403, "reason": "Forbidden", "message": "nodes is forbidden"}

    def deny(data: dict[str, Any]) -> None:
        data.pop("object", None)
        data.update(code=403, status=denied)

    quiet = base.responses(
        evidence, lambda line: str(line.data.get("case") or "").startswith(f"{numa.CONFIG}:"), deny
    )
    gone = set(_played(evidence, "split"))
    return base.without(quiet, lambda line: line.uid in gone)


def exporter_disagrees(evidence: Evidence) -> Evidence:
    """Let the NodeResourceTopology of a node say another policy than its kubelet."""
    nodes = [line.name for line in evidence.of_kind("Node")]

    def tell(data: dict[str, Any]) -> None:
        told = [{"name": "topologyManagerPolicy", "value": "best-effort"}]
        data.pop("status", None)
        data.update(code=200, items=[{"metadata": {"name": nodes[0]}, "attributes": told}])

    return base.responses(evidence, lambda line: line.data.get("case") == numa.TOPOLOGIES, tell)


def says_container_scope(evidence: Evidence) -> Evidence:
    """Let one kubelet say that it looks at each container by itself."""
    cases = [str(line.data.get("case")) for line in evidence.responses()]
    chosen = max((case for case in cases if case.startswith(f"{numa.CONFIG}:")), default="")

    def tell(data: dict[str, Any]) -> None:
        data["object"]["kubeletconfig"]["topologyManagerScope"] = "container"

    return base.responses(evidence, lambda line: bool(chosen) and line.data.get("case") == chosen, tell)


def nothing_tried(evidence: Evidence) -> Evidence:
    """Let no node have room for a pod that is too large for a NUMA node."""
    if "tried" not in evidence.given:
        return evidence
    given = {**evidence.given, "tried": []}
    return Evidence(evidence.lines, header={**evidence.header, "given": given}, spans=evidence.spans)


def moved_late(evidence: Evidence) -> Evidence:
    """Let a pod that was rejected run all the same, for a moment, before it was rejected."""
    uids = _played(evidence, "misfit")[-1:]
    lines = [ln for uid in uids for ln in evidence.history(uid) if ln.object["spec"].get("nodeName")]
    if not lines:
        return evidence
    ran = base.edited(lines[0], lambda obj: obj.update(status={**obj["status"], **RUNNING}))
    return base.with_lines(evidence, (*evidence.lines, dataclasses.replace(ran, type="MODIFIED")))


MUTANTS: base.Table = {
    "numa.misfit-ran": (
        "on the last node a pod ran that fits no NUMA node",
        _decided("misfit", RUNNING, last=True),
    ),
    "numa.misfit-ran-first": ("a container of a pod started before its kubelet rejected it", moved_late),
    "numa.refused-otherwise": (
        "pods that fit no NUMA node were refused for want of devices",
        _decided("misfit", _rejected("UnexpectedAdmissionError")),
    ),
    "numa.fits-rejected": (
        "on the last node a pod that fits a NUMA node was rejected",
        _decided("fits", _rejected(REASON), last=True),
    ),
    "numa.split-admitted": (
        "on the last node a pod ran that fits container by container only",
        _decided("split", RUNNING, last=True),
    ),
    "numa.straddles": ("one device of a pod lies on the other NUMA node", _device(_moved, "fits")),
    "numa.device-without-numa": ("one device of a pod carries no NUMA node", _device(_unplaced, "other")),
    "numa.devices-untold": ("no pod says what it holds", base.drop(held.EVENT)),
    "numa.kubelets-silent": ("kubelets may not be asked, and no pod shows their scope", kubelets_silent),
    "numa.exporter-disagrees": ("a NodeResourceTopology says best-effort", exporter_disagrees),
    "numa.says-container-scope": ("one kubelet says scope container", says_container_scope),
    "numa.nothing-tried": ("no node has room for the pods", nothing_tried),
}
