"""Departures of how nodes align pods, and of what their kubelets say of it."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.evidence.hardware import numa_trials, pod_devices
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names

REASON = "TopologyAffinityError"
RUNNING = {"phase": "Running", "containerStatuses": [{"name": "c0", "state": {"running": {}}}]}


def _played(evidence: Evidence, role: str) -> list[str]:
    """Return the uids of the pods that play a role, the last node's last."""
    told = evidence.given.get("roles")
    members = told.get(role) if isinstance(told, Mapping) else None
    return [str(member["uid"]) for member in members or ()]


def _decided(role: str, status: Mapping[str, Any], *, last: bool = False) -> base.Act:
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


def _device(change: Callable[[list[dict[str, Any]]], None], role: str) -> base.Act:
    """Return the mutant that changes what the pods of a role say of their devices."""

    def mutant(evidence: Evidence) -> Evidence:
        uids = set(_played(evidence, role))

        def act(line: Line, told: dict[str, Any]) -> dict[str, Any]:
            if told.get("event") == pod_devices.EVENT and line.data.get("uid") in uids:
                change(told["devices"])
            return told

        return base.words(evidence, act) if uids else evidence

    return mutant


def _moved(devices: list[dict[str, Any]]) -> None:
    devices[-1]["numa"] = 1 - int(devices[-1]["numa"] or 0)


def _elsewhere(devices: list[dict[str, Any]]) -> None:
    devices[-1]["bus"] = 1 - int(devices[-1]["numa"] or 0)


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
        evidence, lambda line: str(line.data.get("case") or "").startswith(f"{numa_trials.CONFIG}:"), deny
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

    return base.responses(evidence, lambda line: line.data.get("case") == numa_trials.TOPOLOGIES, tell)


def says_container_scope(evidence: Evidence) -> Evidence:
    """Let one kubelet say that it looks at each container by itself."""
    cases = [str(line.data.get("case")) for line in evidence.responses()]
    chosen = max((case for case in cases if case.startswith(f"{numa_trials.CONFIG}:")), default="")

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


def init_ran(evidence: Evidence) -> Evidence:
    """Let the init container of a pod that fits no NUMA node run before the kubelet rejected the pod."""
    uids = [uid for uid in _played(evidence, "misfit") if _has_init(evidence, uid)]
    ran = {
        "phase": "Pending",
        "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 0}}}],
    }
    lines = [ln for uid in uids for ln in evidence.history(uid) if ln.object["spec"].get("nodeName")][:1]
    more = [base.edited(ln, lambda obj: obj.update(status={**obj["status"], **ran})) for ln in lines]
    if not more:
        return evidence
    return base.with_lines(
        evidence, (*evidence.lines, *(dataclasses.replace(ln, type="MODIFIED") for ln in more))
    )


def _has_init(evidence: Evidence, uid: str) -> bool:
    return any(fields.items(line.object, "spec", "initContainers") for line in evidence.history(uid))


def _of_guaranteed(change: Callable[[dict[str, Any]], None]) -> base.Act:
    """Return the mutant that changes every pod with an init container that fits a NUMA node."""

    def mutant(evidence: Evidence) -> Evidence:
        uids = {uid for uid in _played(evidence, "fits") if _has_init(evidence, uid)}
        return base.each(evidence, lambda line: line.uid in uids, change)

    return mutant


def fewer_cpus(evidence: Evidence) -> Evidence:
    """Let a pod with whole CPUs share those of others."""
    uids = {uid for uid in _played(evidence, "fits") if _has_init(evidence, uid)}

    def act(line: Line, told: dict[str, Any]) -> dict[str, Any]:
        if told.get("event") == pod_devices.EVENT and line.data.get("uid") in uids:
            told["cpus"] = "0-95"
        return told

    return base.words(evidence, act) if uids else evidence


def guaranteed_straddles(evidence: Evidence) -> Evidence:
    """Let a device of a pod with an init container lie on the other NUMA node."""
    uids = [uid for uid in _played(evidence, "fits") if _has_init(evidence, uid)]
    return _device(_moved, "fits")(evidence) if uids else evidence


def _rejected_gang(evidence: Evidence) -> tuple[set[str], float] | None:
    """Return (uids of members that are no rejected ones, when the first was rejected), None where none was."""
    found = [
        (gang, t)
        for gang in gangs.gangs(evidence)
        for t in numa_trials.trials(evidence, evidence.given)
        if len(gang.pods) > 1 and t.topology and any(pod.uid == t.pod.uid for pod in gang.pods)
    ]
    if not found:
        return None
    lost = {trial.pod.uid for _, trial in found}
    return {pod.uid for pod in found[0][0].pods} - lost, min(trial.since for _, trial in found)


def keeps_others_waiting(evidence: Evidence) -> Evidence:
    """Let the members beside a rejected one run on, and nothing be made again, until the driver gave up."""
    hit = _rejected_gang(evidence)
    if hit is None:
        return evidence
    others, since = hit
    kept = []
    for line in evidence.lines:
        if line.t > since and line.kind in ("Pod", "PodGroup", names.VC_JOB, names.BATCH_JOB):
            continue
        kept.append(line)
    last = [ln for uid in others for ln in evidence.history(uid) if ln.t <= since]
    runs = {"phase": "Running"}
    end = since + 30.0
    running = [
        dataclasses.replace(
            base.edited(line, lambda obj: obj.update(status={**obj["status"], **runs})),
            t=since + 1.0,
            type="MODIFIED",
        )
        for line in last[-1:]
    ]
    note = {"note": "timed-out", "what": "the gang and its members have ended", "seconds": 10.0}
    gave_up = dataclasses.replace(evidence.lines[-1], t=end, type="NOTE", kind="", object={}, data=note)
    notes = [ln for ln in kept if ln.type != "NOTE" or ln.t <= since]
    return base.with_lines(
        evidence,
        (*notes, *running, gave_up),
        spans=[dataclasses.replace(span, end=max(span.end, end)) for span in evidence.spans],
    )


def rejected_without_end(evidence: Evidence) -> Evidence:
    """Let the gang's own object never say that it ended, and its last members never go, though they failed."""
    hit = _rejected_gang(evidence)
    if hit is None:
        return evidence
    _, since = hit

    def silent(line: Line) -> bool:
        return line.t > since and (line.kind in (names.VC_JOB, names.BATCH_JOB) or line.type == "DELETED")

    return base.without(evidence, silent)


def member_admitted(evidence: Evidence) -> Evidence:
    """Let the rejected members of a gang run."""
    if _rejected_gang(evidence) is None:
        return evidence
    lost = {t.pod.uid for t in numa_trials.trials(evidence, evidence.given) if t.topology}

    def change(obj: dict[str, Any]) -> None:
        obj["status"] = {"phase": "Running"}

    return base.each(
        evidence, lambda line: line.uid in lost and line.object["status"].get("phase") == "Failed", change
    )


MUTANTS: base.Table = {
    "numa.misfit-ran": base.Mutant(
        "on the last node, a pod ran that fits no NUMA node",
        _decided("misfit", RUNNING, last=True),
        {"NUMA-001": "fail", "NUMA-002": "fail", "NUMA-005": "fail", "NUMA-007": "fail"},
    ),
    "numa.misfit-ran-first": base.Mutant(
        "a container of a pod started before its kubelet rejected it",
        moved_late,
        {"NUMA-001": "fail", "NUMA-002": "fail", "NUMA-005": "fail", "NUMA-007": "fail"},
    ),
    "numa.refused-otherwise": base.Mutant(
        "pods that fit no NUMA node were refused because of missing devices",
        _decided("misfit", _rejected("UnexpectedAdmissionError")),
        {"NUMA-002": "inconclusive", "NUMA-005": "inconclusive", "NUMA-007": "inconclusive"},
    ),
    "numa.fits-rejected": base.Mutant(
        "on the last node, a pod that fits a NUMA node was rejected",
        _decided("fits", _rejected(REASON), last=True),
        {"NUMA-003": "fail", "NUMA-007": "fail", "NUMA-005": "inconclusive"},
    ),
    "numa.turned-away": base.Mutant(
        "on the last node, a pod that fits a NUMA node did not get its devices",
        _decided("fits", _rejected("UnexpectedAdmissionError"), last=True),
        {"NUMA-003": "fail", "NUMA-007": "fail", "NUMA-005": "inconclusive"},
    ),
    "numa.machine-says-otherwise": base.Mutant(
        "the machine has a device on another NUMA node than its plugin reports",
        _device(_elsewhere, "fits"),
        {"NUMA-003": "fail", "NUMA-006": "fail", "NUMA-007": "fail", "NUMA-005": "environment"},
    ),
    "numa.split-admitted": base.Mutant(
        "on the last node, a pod ran whose containers fit one by one but not together",
        _decided("split", RUNNING, last=True),
        {"NUMA-001": "fail"},
    ),
    "numa.init-ran": base.Mutant(
        "an init container ran before its pod was rejected", init_ran, {"NUMA-007": "fail"}
    ),
    "numa.other-class": base.Mutant(
        "a training pod has another QoS class",
        _of_guaranteed(lambda obj: obj["status"].update(qosClass="Burstable")),
        {"NUMA-007": "fail"},
    ),
    "numa.fewer-cpus": base.Mutant("whole CPUs are shared with others", fewer_cpus, {"NUMA-007": "fail"}),
    "numa.guaranteed-straddles": base.Mutant(
        "a training pod straddles NUMA nodes", guaranteed_straddles, {"NUMA-007": "fail"}
    ),
    "numa.keeps-others-waiting": base.Mutant(
        "members wait for a rejected member", keeps_others_waiting, {"NUMA-008": "fail"}
    ),
    "numa.rejected-without-end": base.Mutant(
        "a gang with a rejected member never says that it ended",
        rejected_without_end,
        {"NUMA-008": "inconclusive"},
    ),
    "numa.member-admitted": base.Mutant(
        "no member of a gang is rejected", member_admitted, {"NUMA-008": "inconclusive"}
    ),
    "numa.straddles": base.Mutant(
        "one device of a pod lies on the other NUMA node",
        _device(_moved, "fits"),
        {"NUMA-003": "fail", "NUMA-007": "fail", "NUMA-005": "environment"},
    ),
    "numa.device-without-numa": base.Mutant(
        "one device of a pod carries no NUMA node",
        _device(_unplaced, "other"),
        {"NUMA-003": "inconclusive", "NUMA-006": "fail"},
    ),
    "numa.devices-untold": base.Mutant(
        "no pod reports its devices",
        base.drop(pod_devices.EVENT),
        base.all_to("inconclusive", "NUMA-001 NUMA-002 NUMA-003 NUMA-004 NUMA-005 NUMA-006 NUMA-007"),
    ),
    "numa.kubelets-silent": base.Mutant(
        "kubelets may not be read, and no pod shows their scope",
        kubelets_silent,
        {
            "NUMA-001": "inconclusive",
            "NUMA-002": "inconclusive",
            "NUMA-003": "inconclusive",
            "NUMA-005": "inconclusive",
            "NUMA-006": "inconclusive",
        },
    ),
    "numa.exporter-disagrees": base.Mutant(
        "a NodeResourceTopology says best-effort", exporter_disagrees, {"NUMA-001": "fail"}
    ),
    "numa.says-container-scope": base.Mutant(
        "one kubelet says scope container", says_container_scope, {"NUMA-001": "fail"}
    ),
    "numa.nothing-tried": base.Mutant(
        "no node has room for the pods",
        nothing_tried,
        base.all_to(
            "environment",
            "NUMA-002 NUMA-003 NUMA-004 NUMA-005 NUMA-006 NUMA-007 NUMA-008 FAB-007 HLT-002 HLT-004",
        ),
    ),
}
