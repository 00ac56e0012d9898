"""Departures in time alone: all that was seen stays, and some of it happened earlier or later than it may."""

import dataclasses
from collections.abc import Callable

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling import gangs, lost_members, volcano_jobs
from pytest_gpucluster.mutants import base

LATE = 30.0
"""Seconds: above any bound of the recorded runs."""
WAITS = "wait-for-master"
"""Init container of workers that wait."""


def _shifted(evidence: Evidence, chosen: Callable[[Line], bool], by: float) -> Evidence:
    """Let chosen lines happen later; what was watched to the end is watched to the new end."""
    if not any(chosen(line) for line in evidence.lines):
        return evidence
    lines = [dataclasses.replace(line, t=line.t + by) if chosen(line) else line for line in evidence.lines]
    end = max(line.t for line in lines)
    spans = (
        dataclasses.replace(span, end=max(span.end, end)) if span.end >= evidence.end else span
        for span in evidence.spans
    )
    return base.with_lines(evidence, lines, spans=spans)


def last_starts_late(evidence: Evidence) -> Evidence:
    """Let the member of a gang that starts last start long after the others; what it does then is later too."""
    for gang in gangs.gangs(evidence):
        running = sorted((pod.running, pod.uid) for pod in gang.pods if pod.running is not None)
        if gang.minimum > 1 and len(running) >= gang.minimum:
            start, uid = running[-1]

            def of_pod(line: Line, uid: str = uid, start: float = start) -> bool:
                return uid in (line.uid, line.data.get("uid")) and line.t >= start

            return _shifted(evidence, of_pod, LATE)
    return evidence


def _short(evidence: Evidence) -> lost_members.Shortage | None:
    found = (
        one
        for gang in gangs.gangs(evidence)
        for one in lost_members.shortages(evidence, gang)
        if one.healed and one.lost and one.reports
    )
    return next(found, None)


def reported_late(evidence: Evidence) -> Evidence:
    """Let the PodGroup of a gang that lost a member say so only once the gang is whole again."""
    short = _short(evidence)
    if short is None:
        return evidence
    uids = {group.uid for group in short.gang.groups}
    during = [ln for ln in evidence.lines if ln.uid in uids and short.start <= ln.t <= short.end]
    keys = {line.key for line in during}
    return base.with_lines(
        evidence,
        (
            dataclasses.replace(line, t=short.end + 1e-3) if line.key in keys else line
            for line in evidence.lines
        ),
    )


def healed_late_unsaid(evidence: Evidence) -> Evidence:
    """Let the slot that a gang lost be taken long after it is back, and the gang's object say so later still."""
    short = _short(evidence)
    if short is None or short.returned is None:
        return evidence
    back = short.returned[0]
    return reported_late(base.later(evidence, back, LATE))


def worker_starts_first(evidence: Evidence) -> Evidence:
    """Let containers of workers that wait for their master start before it listens."""
    listens = [word.t for word in payload_lines.words(evidence).of("listening")]
    if not listens:
        return evidence
    first = min(listens)

    def began(line: Line) -> bool:
        statuses = fields.items(line.object, "status", "containerStatuses")
        waits = fields.items(line.object, "spec", "initContainers")
        return any(c.get("name") == WAITS for c in waits) and any(
            fields.sub(status, "state").get("running") for status in statuses
        )

    early = next((line for line in evidence.lines if line.kind == "Pod" and began(line)), None)
    if early is None:
        return evidence
    made = evidence.history(early.uid)[0].t
    t = max(made, first - 2.0) + 1e-3
    return base.with_lines(
        evidence, (dataclasses.replace(ln, t=t) if ln.key == early.key else ln for ln in evidence.lines)
    )


def gives_up_late(evidence: Evidence) -> Evidence:
    """Let init containers that wait in vain end long after their time-out."""

    def ended(line: Line) -> bool:
        return any(
            status.get("name") == WAITS and fields.number(status, "state", "terminated", "exitCode")
            for status in fields.items(line.object, "status", "initContainerStatuses")
        )

    t = next((line.t for line in evidence.lines if line.kind == "Pod" and ended(line)), None)
    return evidence if t is None else base.later(evidence, t - 1e-6, LATE)


def completes_late(evidence: Evidence) -> Evidence:
    """Let a Job that its master completes end its other members long after that."""
    for gang in gangs.gangs(evidence):
        done = [p.finished for p in gang.pods if p.task == "master" and p.finished is not None]
        if (
            done
            and gang.job is not None
            and any(p.action == "CompleteJob" for p in volcano_jobs.all_policies(gang))
        ):
            return base.later(evidence, min(done), LATE)
    return evidence


def stall_told_late(evidence: Evidence) -> Evidence:
    """Let a rank that stands still outside a collective end long after its bound."""
    places = payload_lines.words(evidence).of("place")
    if not places:
        return evidence
    return base.later(evidence, max(word.t for word in places), LATE)


def others_end_late(evidence: Evidence) -> Evidence:
    """Let everything that follows the rejection of a member happen long after it."""
    rejected = [
        line.t
        for line in evidence.lines
        if fields.text(line.object, "status", "reason") == "TopologyAffinityError"
    ]
    return base.later(evidence, min(rejected), LATE) if rejected else evidence


MUTANTS: base.Table = {
    "gang.last-starts-late": base.Mutant(
        "the last member of a gang starts long after the others",
        base.only("healthy", last_starts_late),
        {"GANG-007": "fail", "LIFE-001": "fail"},
    ),
    "gang.reported-late": base.Mutant(
        "a PodGroup reports its gang as short only when it is whole again",
        reported_late,
        {"GANG-009": "fail"},
    ),
    "gang.healed-late-unsaid": base.Mutant(
        "a returned slot is used only much later, and nothing is reported until then",
        healed_late_unsaid,
        {"GANG-009": "fail", "GANG-010": "fail"},
    ),
    "plugins.worker-starts-first": base.Mutant(
        "a worker that waits for its master starts before it listens",
        worker_starts_first,
        {"PLG-010": "fail"},
    ),
    "plugins.gives-up-late": base.Mutant(
        "a failed wait ends long after its time-out", gives_up_late, {"PLG-013": "fail"}
    ),
    "lifecycle.completes-late": base.Mutant(
        "the other members end long after their master", completes_late, {"LIFE-001": "fail"}
    ),
    "numa.others-end-late": base.Mutant(
        "the other members of a gang end long after one was rejected",
        base.only("rejected-member", others_end_late),
        {"NUMA-008": "fail"},
    ),
    "rendezvous.stall-ends-late": base.Mutant(
        "a stalled rank ends long after its bound", stall_told_late, {"RDZV-009": "fail"}
    ),
}
"""Mutants that change times alone."""
