"""Departures of what the controllers make of failures, removals, commands and the numbers of a Job."""

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import WATCH_TYPES, Evidence, Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import gangs, volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names

LONG = 30.0
"""Seconds by which the story is told on, so that whatever was due is overdue."""

Obj = dict[str, Any]


def told_on(evidence: Evidence) -> Evidence:
    """Leave our own cleaning up out and let the scenario end later, with all as it was."""
    stop = volcano_jobs.end_of_story(evidence)
    lines = [line for line in evidence.lines if line.t <= stop and line.data.get("note") != "end"]
    if not lines:
        return evidence
    end = dataclasses.replace(lines[-1], t=stop + LONG, type="NOTE", kind="", object={}, data={"note": "end"})
    spans = [
        dataclasses.replace(span, end=max(span.end, end.t)) if span.end >= stop else span
        for span in evidence.spans
    ]
    return base.with_lines(evidence, [*lines, end], spans=spans)


def _with_policy(evidence: Evidence, chosen: Callable[[volcano_jobs.Policy], bool]) -> list[Gang]:
    return [
        gang
        for gang in gangs.gangs(evidence)
        if gang.job is not None and any(chosen(policy) for policy in volcano_jobs.all_policies(gang))
    ]


def _gone(line: Line) -> bool:
    return line.type == "DELETED" or bool(fields.sub(line.object, "metadata").get("deletionTimestamp"))


def _staying(evidence: Evidence, pods: Collection[PodStory], also: Collection[str] = ()) -> Evidence:
    """Let pods stay as they were before they began to go; `also` are uids that stay too."""
    uids = {pod.uid for pod in pods} | set(also)
    if not uids:
        return evidence
    return told_on(base.without(evidence, lambda line: line.uid in uids and _gone(line)))


def _frozen(evidence: Evidence, gang: Gang, t: float) -> Evidence:
    """Let a Job and its pods stay as they were at a time, its events left out."""
    mine = {gang.uid, *(pod.uid for pod in gang.pods)}

    def later(line: Line) -> bool:
        about = fields.text(line.object, "involvedObject", "uid")
        return line.t > t and line.type in WATCH_TYPES and (line.uid in mine or about in mine)

    return base.without(evidence, later)


def _without_pods(evidence: Evidence, *, never: Collection[str], stay: Collection[str]) -> Evidence:
    """Leave pods out that were never made, and the going of those that stay."""
    return base.without(evidence, lambda line: line.uid in never or (line.uid in stay and _gone(line)))


def only_the_lost_returns(evidence: Evidence) -> Evidence:
    """Let the other members run on when one was taken away: only that one is made again."""
    found, changed = evidence, False
    for gang in _with_policy(
        evidence, lambda p: volcano_jobs.EVICTED in p.events and p.action == "RestartJob"
    ):
        for lost in volcano_jobs.removals(evidence, gang)[:1]:
            t = volcano_jobs.left(lost) or 0.0
            others = {p.uid for p in gang.pods if p.created <= t and p.uid != lost.uid}
            fresh = {p.uid for p in gang.pods if p.created > t and p.slot != lost.slot}
            found = _without_pods(found, never=fresh, stay=others)
            changed = True
    return told_on(found) if changed else evidence


def _counted(evidence: Evidence, chosen: Collection[str], change: Callable[[int], int]) -> Evidence:
    """Change status.retryCount of some Jobs wherever it stands."""

    def act(obj: Obj) -> None:
        status = obj.get("status")
        if isinstance(status, dict) and status.get("retryCount"):
            status["retryCount"] = change(int(status["retryCount"]))

    return base.each(evidence, lambda line: line.uid in chosen and line.type in WATCH_TYPES, act)


def restarted_twice(evidence: Evidence) -> Evidence:
    """Count two restarts for one loss."""
    chosen = _with_policy(evidence, lambda p: volcano_jobs.EVICTED in p.events and p.action == "RestartJob")
    return _counted(evidence, {gang.uid for gang in chosen}, lambda count: count + 1)


def one_attempt_too_many(evidence: Evidence) -> Evidence:
    """Count one attempt more than maxRetry allows."""
    chosen = _with_policy(evidence, lambda p: volcano_jobs.FAILED in p.events and p.action == "RestartJob")
    return _counted(evidence, {gang.uid for gang in chosen}, lambda count: count + 1)


def failed_leaves_a_worker(evidence: Evidence) -> Evidence:
    """Let the members of the last attempt run on although the Job is Failed."""
    left = []
    for gang in gangs.gangs(evidence):
        if gang.job is None or gang.job.kind != names.VC_JOB or not volcano_jobs.retry_count(gang.job):
            continue
        if any(name == "Failed" for _, name, _ in gang.job.phases):
            last = max(volcano_jobs.attempt_of(gang, pod) for pod in gang.pods)
            left += [p for p in gang.pods if volcano_jobs.attempt_of(gang, p) == last and p.finished is None]
    return _staying(evidence, left)


def _with_ttl(evidence: Evidence) -> list[Gang]:
    return [
        gang
        for gang in gangs.gangs(evidence)
        if gang.job is not None
        and fields.number(gang.job.last, "spec", "ttlSecondsAfterFinished") is not None
    ]


def never_removed(evidence: Evidence) -> Evidence:
    """Let Jobs with a time to live stay for ever."""
    found = _with_ttl(evidence)
    return _staying(evidence, [pod for gang in found for pod in gang.pods], [gang.uid for gang in found])


def pods_outlive_their_job(evidence: Evidence) -> Evidence:
    """Let the pods of Jobs with a time to live stay when the Job goes."""
    return _staying(evidence, [pod for gang in _with_ttl(evidence) for pod in gang.pods])


def _rephased(evidence: Evidence, chosen: Collection[str], change: dict[str, str]) -> Evidence:
    """Exchange phases of some Jobs."""

    def act(obj: Obj) -> None:
        state = obj.get("status", {}).get("state", {})
        if state.get("phase") in change:
            state["phase"] = change[state["phase"]]

    return base.each(evidence, lambda line: line.uid in chosen and line.type in WATCH_TYPES, act)


def completes_with_too_few(evidence: Evidence) -> Evidence:
    """Let a Job with minSuccess be Completed where it was Failed."""
    chosen = {
        gang.uid
        for gang in gangs.gangs(evidence)
        if gang.job is not None and fields.number(gang.job.last, "spec", "minSuccess")
    }
    return _rephased(evidence, chosen, {"Failed": "Completed"})


def failure_ignored(evidence: Evidence) -> Evidence:
    """Let a Job that ends when a pod fails go on as if nothing had happened."""
    found, changed = evidence, False
    for gang in _with_policy(evidence, lambda p: p.action in ("AbortJob", "TerminateJob")):
        for failure in volcano_jobs.first_failures(evidence, gang)[:1]:
            found, changed = _frozen(found, gang, failure.t), True
    return told_on(found) if changed else evidence


def another_action(evidence: Evidence) -> Evidence:
    """Let a Job that a policy aborts be Terminated."""
    chosen = {gang.uid for gang in _with_policy(evidence, lambda p: p.action == "AbortJob")}
    return _rephased(evidence, chosen, {"Aborting": "Terminating", "Aborted": "Terminated"})


def undocumented_phase(evidence: Evidence) -> Evidence:
    """Let a Job pass through Terminating on its way to Completed."""
    chosen = {gang.uid for gang in gangs.gangs(evidence)}
    return _rephased(evidence, chosen, {"Completing": "Terminating"})


def _resumed(evidence: Evidence) -> list[tuple[Gang, float]]:
    asked = [(gang, volcano_jobs.commands(evidence, gang).resume) for gang in gangs.gangs(evidence)]
    return [(gang, t) for gang, t in asked if t is not None]


def stays_suspended(evidence: Evidence) -> Evidence:
    """Let a resumed Job stay as it was."""
    found, changed = evidence, False
    for gang, t in _resumed(evidence):
        found, changed = _frozen(found, gang, t), True
    return told_on(found) if changed else evidence


def resume_is_free(evidence: Evidence) -> Evidence:
    """Count no retry for a Job that was resumed."""
    chosen = {gang.uid for gang, _ in _resumed(evidence)}
    return _counted(evidence, chosen, lambda _: 0)


def finished_member_returns(evidence: Evidence) -> Evidence:
    """Let a finished member of a batch Job whose pod was taken away be made again."""
    more: list[Line] = []
    for gang in gangs.gangs(evidence):
        for pod in volcano_jobs.removals(evidence, gang):
            if gang.kind != names.BATCH_JOB or pod.finished is None or pod.deleted is None:
                continue
            first = evidence.history(pod.uid)[0]

            def rename(obj: Obj) -> None:
                obj["metadata"].update(uid="made-again", name=f"{obj['metadata']['name']}-again")

            more.append(dataclasses.replace(base.edited(first, rename), t=pod.deleted + 0.05))
    return base.with_lines(evidence, [*evidence.lines, *more]) if more else evidence


def no_restart_in_place(evidence: Evidence) -> Evidence:
    """Let no container be restarted in its pod."""

    def calm(obj: Obj) -> None:
        for status in fields.items(obj, "status", "containerStatuses"):
            if isinstance(status, dict):
                status["restartCount"] = 0

    return base.each(evidence, lambda line: line.kind == "Pod", calm)


MUTANTS: base.Table = {
    "lifecycle.only-the-lost-returns": base.Mutant(
        "the other members outlive the loss of one", only_the_lost_returns, {"LIFE-003": "fail"}
    ),
    "lifecycle.restarted-twice": base.Mutant(
        "one loss counts as two restarts", restarted_twice, {"LIFE-003": "fail"}
    ),
    "lifecycle.one-attempt-too-many": base.Mutant(
        "one attempt more than maxRetry is counted", one_attempt_too_many, {"LIFE-004": "fail"}
    ),
    "lifecycle.failed-leaves-a-worker": base.Mutant(
        "a member outlives the Failed Job",
        failed_leaves_a_worker,
        {"LIFE-004": "fail", "NUMA-008": "inconclusive"},
    ),
    "lifecycle.never-removed": base.Mutant(
        "the time to live passes and nothing is removed", never_removed, {"LIFE-005": "fail"}
    ),
    "lifecycle.pods-outlive-their-job": base.Mutant(
        "the Job is removed, its pods stay", pods_outlive_their_job, {"LIFE-005": "fail"}
    ),
    "lifecycle.completes-with-too-few": base.Mutant(
        "a Job is Completed with fewer than minSuccess members", completes_with_too_few, {"LIFE-006": "fail"}
    ),
    "lifecycle.failure-ignored": base.Mutant(
        "a Job goes on after a pod has failed", failure_ignored, {"LIFE-007": "fail"}
    ),
    "lifecycle.another-action": base.Mutant(
        "a Job ends as Terminated, but the policy says AbortJob", another_action, {"LIFE-007": "fail"}
    ),
    "lifecycle.undocumented-phase": base.Mutant(
        "Terminating leads to Completed", undocumented_phase, {"LIFE-008": "fail"}
    ),
    "lifecycle.stays-suspended": base.Mutant(
        "a resumed Job does not go on", stays_suspended, {"LIFE-009": "fail"}
    ),
    "lifecycle.resume-is-free": base.Mutant("a resume costs no retry", resume_is_free, {"LIFE-009": "fail"}),
    "lifecycle.finished-member-returns": base.Mutant(
        "a finished member is created again", finished_member_returns, {"LIFE-010": "fail"}
    ),
    "lifecycle.no-restart-in-place": base.Mutant(
        "no container is restarted in its pod", no_restart_in_place, {"LIFE-012": "inconclusive"}
    ),
}
