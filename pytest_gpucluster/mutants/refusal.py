"""Departures of refusals and of the control after them."""

import dataclasses
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import gangs, gates
from pytest_gpucluster.mutants import base


def forget_later_gangs(evidence: Evidence) -> Evidence:
    """Take away every gang but the first: the control of a refusal never happened."""
    later = gangs.gangs(evidence)[1:]
    uids = {gang.uid for gang in later} | {pod.uid for gang in later for pod in gang.pods}
    uids |= {group.uid for gang in later for group in gang.groups}
    return base.without(evidence, lambda line: line.uid in uids)


def accept_refused(evidence: Evidence) -> Evidence:
    """Accept every case that admission refused for a duplicate task."""
    return base.responses(
        evidence,
        lambda line: "duplicate-task" in str(line.data.get("case")),
        lambda data: data.update(code=201),
    )


def refuse_by_permission(evidence: Evidence) -> Evidence:
    """Let the API server refuse the cases for want of permission instead of admission."""
    status = {"code": 403, "reason": "Forbidden", "message": "jobs.batch.volcano.sh is forbidden"}
    return base.responses(
        evidence,
        lambda line: bool(line.data.get("case")) and (fields.number(line.data, "code") or 0) >= 400,
        lambda data: data.update(code=403, status=status),
    )


def _accepting(case: str) -> base.Act:
    def mutant(evidence: Evidence) -> Evidence:
        return base.responses(
            evidence, lambda line: line.data.get("case") == case, lambda data: data.update(code=201)
        )

    return mutant


def shrink_capability(evidence: Evidence) -> Evidence:
    """Let every queue have declared a quarter of its capability: what its gangs held was too much."""

    def shrink(obj: dict[str, Any]) -> None:
        limits = obj["spec"].get("capability") or {}
        obj["spec"]["capability"] = {
            key: str(int(fields.quantity(value) / 4)) if fields.quantity(value) < 1000 else value
            for key, value in limits.items()
        }

    return base.each(evidence, lambda line: line.kind == "Queue", shrink)


def blame_the_cluster(evidence: Evidence) -> Evidence:
    """Let every refusal at enqueue speak of the cluster's total, none of a queue's share."""
    text = "resource in cluster is overused: overused example.com/x"

    def say(obj: dict[str, Any]) -> None:
        if "queue resource quota" in str(obj.get("message")):
            obj["message"] = text

    return base.each(evidence, lambda line: line.kind == "Event", say)


def _refused_at_enqueue(evidence: Evidence) -> list[tuple[gangs.Gang, float]]:
    """Return the gangs that were refused at enqueue, each with the time of the first word."""
    found = []
    for gang in gangs.gangs(evidence):
        said = gates.read(evidence, gang, gang.generations[-1]).enqueue
        if said:
            found.append((gang, said[0].t))
    return found


def _beside(evidence: Evidence) -> list[gangs.Gang]:
    """Return the gangs that became whole while another was refused and stayed so, the last one first."""
    refused = [(gang, t) for gang, t in _refused_at_enqueue(evidence) if gang.whole is None]
    found = [
        gang
        for gang in gangs.gangs(evidence)
        for other, t in refused
        if gang.whole is not None
        and t
        < gang.whole
        < (other.job.deleted if other.job and other.job.deleted is not None else evidence.end)
    ]
    return sorted(found, key=lambda gang: -gang.created)


def evict_neighbour(evidence: Evidence) -> Evidence:
    """Let a member that started beside a refused gang be taken away half a second later."""
    beside = _beside(evidence)
    if not beside:
        return evidence
    pod = beside[0].pods[0]
    t = (pod.bound or 0.0) + 0.1

    def ending(obj: dict[str, Any]) -> None:
        obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    last = next(line for line in reversed(evidence.history(pod.uid)) if line.t <= t)
    taken = dataclasses.replace(base.edited(last, ending), t=t, type="MODIFIED")
    marked = base.each(evidence, lambda line: line.uid == pod.uid and line.t > t, ending)
    return base.with_lines(marked, (*marked.lines, taken))


def block_neighbour(evidence: Evidence) -> Evidence:
    """Let the gang of another queue never start beside a refused one: our wait for it expires."""
    beside = _beside(evidence)
    if not beside:
        return evidence
    gang = beside[0]
    uids = {pod.uid for pod in gang.pods}
    lost = next(line for line in evidence.lines if line.uid in uids)
    note = {"note": "timed-out", "what": f"{gang.name} is bound", "seconds": 8.0}
    expired = dataclasses.replace(lost, t=gang.whole or lost.t, type="NOTE", kind="", object={}, data=note)
    return base.with_lines(evidence, (*(ln for ln in evidence.lines if ln.uid not in uids), expired))


def nobody_blocked(evidence: Evidence) -> Evidence:
    """Take away the reasons for which a gang that started in the end was refused at enqueue before."""
    groups = {
        group.uid
        for gang, _ in _refused_at_enqueue(evidence)
        if gang.whole is not None
        for group in gang.groups
    }
    return base.without(
        evidence,
        lambda line: (
            line.kind == "Event" and str(fields.sub(line.object, "involvedObject").get("uid")) in groups
        ),
    )


def speak_for_nobody(evidence: Evidence) -> Evidence:
    """Let a scheduler call the pods unschedulable that name a scheduler which does not exist."""
    served = {pod.scheduler for gang in gangs.gangs(evidence) for pod in gang.pods if pod.bound is not None}
    silent = {
        pod.uid
        for gang in gangs.gangs(evidence)
        for pod in gang.pods
        if pod.scheduler not in served and not pod.waiting
    }
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    return base.each(
        evidence,
        lambda line: line.uid in silent,
        lambda obj: obj.setdefault("status", {}).setdefault("conditions", []).append(dict(condition)),
    )


MUTANTS: base.Table = {
    "refusal.forget-control": base.Mutant(
        "the control never happened",
        forget_later_gangs,
        base.all_to(
            "inconclusive",
            "GANG-004 GANG-011 GANG-012 FAB-019 REF-001 REF-002 REF-005 REF-006 REF-007 REF-008 REF-009 "
            "PLG-002 PLG-005 PLG-008 PLG-009 PLG-010 PLG-013 "
            "LIFE-003 LIFE-005 LIFE-006 LIFE-007 LIFE-009 LIFE-010 LIFE-012 LIFE-013 LIFE-014 "
            "RDZV-001 RDZV-003 RDZV-004 RDZV-005 RDZV-006 RDZV-008 ELA-004 ELA-009 KUE-001 KUE-002 KUE-003 "
            "KUE-007 KUE-008 FAB-016 MFU-002 MFU-003 MFU-006 CKPT-002 CKPT-005 CKPT-006 TRN-003 "
            "TRN-004 TRN-005 TRN-006",
        ),
    ),
    "refusal.accept-duplicate-task": base.Mutant(
        "a Job with a task twice is accepted", accept_refused, {"REF-003": "fail"}
    ),
    "refusal.by-permission": base.Mutant(
        "Jobs are refused because of missing permissions",
        refuse_by_permission,
        {"REF-003": "inconclusive", "REF-004": "inconclusive"},
    ),
    "queue.accept-unknown": base.Mutant(
        "a Job for an unknown queue is accepted", _accepting("unknown-queue"), {"REF-004": "fail"}
    ),
    "queue.accept-closed": base.Mutant(
        "a Job for a closed queue is accepted", _accepting("closed-queue"), {"REF-004": "fail"}
    ),
    "queue.capability-overrun": base.Mutant(
        "the queue held more than its capability", shrink_capability, {"REF-002": "fail"}
    ),
    "refusal.blames-cluster": base.Mutant(
        "no refusal mentions a queue's share", blame_the_cluster, {"REF-002": "inconclusive"}
    ),
    "refusal.evicts-neighbour": base.Mutant(
        "a member beside a refused gang loses its place", evict_neighbour, {"REF-005": "fail"}
    ),
    "refusal.blocks-neighbour": base.Mutant(
        "the gang of another queue does not start beside a refused one",
        block_neighbour,
        {"REF-005": "fail", "REF-009": "fail"},
    ),
    "refusal.not-blocked": base.Mutant(
        "an enqueued gang keeps nobody waiting",
        nobody_blocked,
        {"REF-007": "inconclusive", "LIFE-013": "inconclusive"},
    ),
    "refusal.speaks-for-nobody": base.Mutant(
        "pods of a scheduler that does not exist are reported as refused",
        speak_for_nobody,
        {"REF-008": "fail"},
    ),
}
