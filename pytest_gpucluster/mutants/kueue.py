"""Departures of Kueue: Jobs that are not held, quota that is given twice, kept, or never taken back."""

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling import kueue, kueue_quota, kueue_workloads
from pytest_gpucluster.evidence.scheduling.kueue import Held
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain.copies import clone

PATIENCE = 10.0
"""Seconds for which a wait goes on in vain after all that was seen."""

MOMENT = 0.1
"""Seconds for which a pod exists that must not."""


def _labelled(evidence: Evidence) -> list[Held]:
    return [job for job in kueue.held(evidence) if job.queue]


def _refused(evidence: Evidence) -> list[Held]:
    """Return the Jobs that were never admitted and of which no pod was made."""
    return [job for job in _labelled(evidence) if job.workloads and not job.reserved and not job.gang.pods]


def _expired(like: Line, t: float, what: str) -> Line:
    data = {"note": "timed-out", "what": what, "seconds": 8.0}
    return dataclasses.replace(like, t=t, type="NOTE", kind="", object={}, data=data)


def _of(uids: Iterable[str]) -> Any:
    wanted = set(uids)
    return lambda line: line.uid in wanted


def store_unsuspended(evidence: Evidence) -> Evidence:
    """Let every Job that was admitted in the end be stored unsuspended, as without a webhook."""
    first = {evidence.history(job.gang.uid)[0].index for job in _labelled(evidence) if job.reserved}
    return base.each(
        evidence, lambda line: line.index in first, lambda obj: obj["spec"].update(suspend=False)
    )


def admit_in_part(evidence: Evidence) -> Evidence:
    """Let every Workload be admitted with one pod fewer than its Job has."""

    def fewer(obj: dict[str, Any]) -> None:
        for part in fields.items(obj, "status", "admission", "podSetAssignments"):
            part["count"] = part["count"] - 1  # type: ignore[index]

    return base.each(evidence, lambda line: line.kind == kueue_workloads.WORKLOAD, fewer)


def pod_for_a_moment(evidence: Evidence) -> Evidence:
    """Let every Job that was refused have a pod for a tenth of a second."""
    models = [line for line in evidence.of_kind("Pod") if line.type == "ADDED"]
    refused = _refused(evidence)
    if not models or not refused:
        return evidence
    made: list[Line] = []
    for job in refused:
        obj = clone(dict(models[0].object))
        obj["metadata"].update(name=f"{job.gang.name}-0-early", uid=f"{job.gang.uid}-early")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job.gang.name, "uid": job.gang.uid}
        obj["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        for t, change in ((job.created + MOMENT, "ADDED"), (job.created + 2 * MOMENT, "DELETED")):
            made.append(dataclasses.replace(models[0], t=t, type=change, object=obj))
    return base.with_lines(evidence, (*evidence.lines, *made))


def blame_nothing(evidence: Evidence) -> Evidence:
    """Let no refusal name what is short."""

    def silence(obj: dict[str, Any]) -> None:
        for condition in fields.items(obj, "status", "conditions"):
            if condition.get("type") == "QuotaReserved" and condition.get("status") == "False":
                condition.update(message="not now", reason="Pending")  # type: ignore[attr-defined]

    return base.each(evidence, lambda line: line.kind == kueue_workloads.WORKLOAD, silence)


def _turns(evidence: Evidence) -> tuple[Held, Held] | None:
    """Return the last two Jobs of which one was admitted after the other had ended."""
    ran = sorted((job for job in _labelled(evidence) if job.reserved), key=lambda job: job.reserved[0].start)
    for one, other in itertools.pairwise(ran):
        ends = [kueue_quota.leaves(pod) for pod in one.gang.pods]
        if ends and max(ends) <= other.reserved[0].start:
            return one, other
    return None


def both_at_once(evidence: Evidence) -> Evidence:
    """Let the second of two Jobs that take turns be admitted, and start, while the first runs."""
    turns = _turns(evidence)
    if turns is None:
        return evidence
    one, other = turns
    by = other.reserved[0].start - one.reserved[0].start
    mine = {workload.uid for workload in other.workloads} | {pod.uid for pod in other.gang.pods}
    since, until = other.reserved[0].start, min(map(kueue_quota.leaves, other.gang.pods), default=math.inf)
    lines = (
        dataclasses.replace(line, t=line.t - by) if line.uid in mine and since <= line.t < until else line
        for line in evidence.lines
    )
    return base.with_lines(evidence, lines)


def never_handed_over(evidence: Evidence) -> Evidence:
    """Let the second of two Jobs that take turns wait for ever: our wait for it expires."""
    turns = _turns(evidence)
    if turns is None:
        return evidence
    other = turns[1]
    since = other.reserved[0].start
    workloads = {workload.uid for workload in other.workloads}
    pods = {pod.uid for pod in other.gang.pods}
    last = next(line for line in reversed(evidence.lines) if line.uid in pods)
    kept = (
        line
        for line in evidence.lines
        if line.uid not in pods and not (line.uid in workloads | {other.gang.uid} and line.t >= since)
    )
    return base.with_lines(
        evidence, (*kept, _expired(last, evidence.end, "each Job has run, one after the other"))
    )


def room_after_all(evidence: Evidence) -> Evidence:
    """Let members that found no room be bound as soon as they are made."""
    lost = {
        pod.uid
        for job in _labelled(evidence)
        if job.reserved and any(pod.bound is not None for pod in job.gang.pods)
        for pod in job.gang.pods
        if pod.bound is None
    }
    return base.each(evidence, _of(lost), lambda obj: obj["spec"].update(nodeName="a-node"))


def _timed_out_of_ready(evidence: Evidence) -> tuple[Held, float] | None:
    for job in _labelled(evidence):
        for workload in job.workloads:
            for told in workload.when("Evicted", reason="PodsReadyTimeout"):
                return job, told.t
    return None


def never_evicted(evidence: Evidence) -> Evidence:
    """Let a gang that never became ready keep all it has: our wait for its eviction expires."""
    found = _timed_out_of_ready(evidence)
    if found is None:
        return evidence
    job, t = found
    mine = {workload.uid for workload in job.workloads} | {pod.uid for pod in job.gang.pods}
    uids = mine | {job.gang.uid}
    kept = [line for line in evidence.lines if not (line.uid in uids and line.t >= t)]
    return base.with_lines(
        evidence, (*kept, _expired(evidence.lines[0], evidence.end + PATIENCE, "the gang is evicted"))
    )


def not_queued_again(evidence: Evidence) -> Evidence:
    """Let a gang that was evicted for want of readiness be deactivated instead of queued again."""
    found = _timed_out_of_ready(evidence)
    if found is None:
        return evidence
    job, t = found
    mine = {workload.uid for workload in job.workloads}
    again = [told.t for workload in job.workloads for told in workload.when("Requeued")]
    until = min(
        (one for one in (*again, *(held.start for held in job.reserved)) if one > t), default=math.inf
    )
    uids = mine | {pod.uid for pod in job.gang.pods} | {job.gang.uid}

    def deactivate(obj: dict[str, Any]) -> None:
        obj["spec"]["active"] = False
        status = obj["status"]
        status.pop("requeueState", None)
        status["conditions"] = [c for c in status["conditions"] if c["type"] != "Requeued"]

    stopped = base.without(evidence, lambda line: line.uid in uids and line.t >= until)
    return base.each(
        stopped, lambda line: line.uid in mine and line.t >= t and bool(line.object.get("status")), deactivate
    )


def keep_quota(evidence: Evidence) -> Evidence:
    """Let every eviction be written down and its quota be kept: our wait for it expires."""
    kept: dict[str, dict[str, Any]] = {}
    lines: list[Line] = []
    for line in evidence.lines:
        if line.kind == kueue_workloads.WORKLOAD and line.type != "DELETED":
            if line.uid not in kept and fields.condition(line.object, "Evicted").get("status") == "True":
                kept[line.uid] = dict(fields.sub(line.object, "status"))
            if line.uid in kept:
                status = kept[line.uid]
                line = base.edited(line, lambda obj, status=status: obj.update(status=clone(status)))  # type: ignore[misc] # noqa: PLW2901
        lines.append(line)
    if not kept:
        return evidence
    end = max((note.t for note in evidence.notes("end")), default=evidence.end)
    lines.append(_expired(evidence.lines[0], end - 1e-3, "the quota of the evicted Job is free"))
    return base.with_lines(evidence, lines)


def forget_reservation(evidence: Evidence) -> Evidence:
    """Let no quota ever have been reserved, while the pods run as they did."""

    def forget(obj: dict[str, Any]) -> None:
        status = obj.get("status") or {}
        status.pop("admission", None)
        for condition in fields.items(status, "conditions"):
            if condition.get("type") in ("QuotaReserved", "Admitted"):
                condition.update(status="False", reason="Pending")  # type: ignore[attr-defined]

    return base.each(evidence, lambda line: line.kind == kueue_workloads.WORKLOAD, forget)


def manage_unlabelled(evidence: Evidence) -> Evidence:
    """Let Kueue suspend a Job that names no queue."""
    bare = {job.gang.uid for job in kueue.held(evidence) if not job.queue}
    return base.each(evidence, _of(bare), lambda obj: obj["spec"].update(suspend=True))


def not_served(evidence: Evidence) -> Evidence:
    """Let the API serve nothing of Kueue."""
    if not evidence.of_kind(kueue_workloads.WORKLOAD):
        return evidence
    first = evidence.lines[0]
    data = {"request": "list ClusterQueue", "case": "api:ClusterQueue", "code": 404}
    answer = dataclasses.replace(first, type="RESPONSE", kind="", object={}, data=data)
    return base.with_lines(evidence, (answer, *evidence.lines))


MUTANTS: base.Table = {
    "kueue.stored-unsuspended": base.Mutant(
        "Jobs are stored unsuspended and are suspended later", store_unsuspended, {"KUE-001": "fail"}
    ),
    "kueue.admitted-in-part": base.Mutant(
        "Workloads are admitted with one pod fewer",
        admit_in_part,
        {"KUE-001": "fail", "KUE-009": "inconclusive"},
    ),
    "kueue.pod-for-a-moment": base.Mutant(
        "a refused Job has a pod for a tenth of a second",
        pod_for_a_moment,
        {"KUE-001": "inconclusive", "KUE-002": "fail", "KUE-007": "inconclusive", "KUE-008": "fail"},
    ),
    "kueue.blames-nothing": base.Mutant(
        "no refusal names the missing resource",
        blame_nothing,
        {"KUE-002": "inconclusive", "KUE-007": "inconclusive", "KUE-008": "inconclusive"},
    ),
    "kueue.both-at-once": base.Mutant(
        "the Jobs of both teams run at the same time", both_at_once, {"KUE-003": "fail"}
    ),
    "kueue.never-handed-over": base.Mutant(
        "the second team's Job waits forever", never_handed_over, {"KUE-003": "fail"}
    ),
    "kueue.room-after-all": base.Mutant(
        "members beyond capacity are bound", room_after_all, {"KUE-009": "inconclusive"}
    ),
    "kueue.never-evicted": base.Mutant(
        "a gang that never became ready keeps its quota",
        never_evicted,
        {"KUE-004": "fail", "KUE-009": "inconclusive"},
    ),
    "kueue.not-queued-again": base.Mutant(
        "a gang that was evicted is not queued again",
        not_queued_again,
        {"KUE-004": "fail", "KUE-009": "inconclusive"},
    ),
    "kueue.evicted-keeps-quota": base.Mutant(
        "an evicted Workload keeps its quota", keep_quota, {"KUE-004": "fail", "KUE-005": "fail"}
    ),
    "kueue.pods-without-quota": base.Mutant(
        "pods run without quota",
        forget_reservation,
        {**base.all_to("inconclusive", "KUE-004 KUE-007 KUE-009"), "KUE-001": "fail", "KUE-005": "fail"},
    ),
    "kueue.holds-unlabelled": base.Mutant(
        "a Job without a queue label is held", manage_unlabelled, {"KUE-008": "fail"}
    ),
    "kueue.not-served": base.Mutant(
        "the API serves no kind of Kueue",
        not_served,
        base.all_to("fail", "KUE-001 KUE-002 KUE-003 KUE-004 KUE-005 KUE-007 KUE-008 KUE-009"),
    ),
}
