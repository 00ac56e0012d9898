"""What was wrong before, and is right when the evidence ends; what came before it might, by a moment."""

import dataclasses
from typing import Any

from pytest_gpucluster.evidence.log import fields, order, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import kueue, kueue_workloads
from pytest_gpucluster.mutants import base

MOMENT = 0.01
"""Seconds: less than watches of two kinds may be out of step."""
_INDEX = "volcano.sh/task-index"


def label_gone(evidence: Evidence) -> Evidence:
    """Let a pod of a Volcano Job lack the label of its index in one of its states."""
    pods = [line for line in evidence.of_kind("Pod") if line.type == "MODIFIED"]
    labelled = (line for line in pods if _INDEX in fields.sub(line.object, "metadata", "labels"))
    first = next(labelled, None)
    if first is None or evidence.header.get("scenario") != "healthy":
        return evidence

    def strip(pod: dict[str, Any]) -> None:
        pod["metadata"]["labels"] = {k: v for k, v in pod["metadata"]["labels"].items() if k != _INDEX}

    return base.each(evidence, lambda line: line is first, strip)


def wrong_before(evidence: Evidence) -> Evidence:
    """Let a member of an Indexed Job have told a wrong step before the right one."""
    said = next(iter(payload_lines.words(evidence).of("trained")), None)
    if said is None or evidence.header.get("scenario") != "indexed-world":
        return evidence
    right = next(
        line
        for line in evidence.logs(said.uid)
        if payload_lines.find(str(line.data.get("line")))[0] == [said.data]
    )
    spoilt = base.words(
        base.with_lines(evidence, [right]), lambda _, told: {**told, "ok": False, "difference": 1.0}
    ).lines
    before = [dataclasses.replace(line, t=line.t - MOMENT) for line in spoilt]
    return base.with_lines(evidence, (*evidence.lines, *before))


def pod_before_quota(evidence: Evidence) -> Evidence:
    """Let the first pod of an admitted Job be made a moment before the reservation, by the server's own count."""
    job = next((one for one in kueue.held(evidence) if one.reserved and one.gang.pods), None)
    if job is None or evidence.header.get("scenario") not in ("kueue-drained", "kueue-quota"):
        return evidence
    pod = min(job.gang.pods, key=lambda one: one.created)
    made = evidence.history(pod.uid)[0]
    held = next(
        line for line in evidence.of_kind(kueue_workloads.WORKLOAD) if line.key == job.reserved[0].key
    )
    version = str((order.version(held) or 1) - 1)
    early = base.edited(made, lambda obj: obj["metadata"].update(resourceVersion=version))
    moved = dataclasses.replace(early, t=held.t - MOMENT)
    return base.with_lines(evidence, (moved if line is made else line for line in evidence.lines))


MUTANTS: base.Table = {
    "earlier.label-gone": base.Mutant("a pod lacks a label for a time", label_gone, {"PLG-007": "fail"}),
    "earlier.step-wrong": base.Mutant(
        "a member reported a wrong step before the right one", wrong_before, {"RDZV-002": "fail"}
    ),
    "earlier.pod-before-quota": base.Mutant(
        "a pod is made 10 ms before its quota is reserved", pod_before_quota, {"KUE-001": "fail"}
    ),
}
