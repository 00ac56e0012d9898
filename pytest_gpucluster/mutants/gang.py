"""Departures from the gang rule."""

import dataclasses
import math
from collections import Counter
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.scheduling import gangs, lost_members
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names

LATE = 10.0
"""Seconds by which what should come together is torn apart: above any bound of the recorded runs."""


def bind_one_early(evidence: Evidence) -> Evidence:
    """Bind one member of the gang that was held at its gate, right after the scheduler refused it."""
    found = base.held(evidence)
    if found is None or found[2].said is None:
        return evidence
    member, start = found[1].members[0], found[2].said.t

    def bind(obj: dict[str, Any]) -> None:
        obj.setdefault("spec", {}).setdefault("nodeName", "node-early")

    return base.each(evidence, lambda line: line.uid == member.uid and line.t >= start, bind)


def never_bound(evidence: Evidence) -> Evidence:
    """Keep every gang that was held unbound to the end: room appears and is not taken."""
    since = {
        pod.uid: held.end - 1e-9
        for _, gen, held in base.all_held(evidence)
        if held.bound_after
        for pod in gen.members
    }

    def unbind(obj: dict[str, Any]) -> None:
        obj.get("spec", {}).pop("nodeName", None)
        obj["status"] = {"phase": "Pending"}

    return base.each(evidence, lambda line: line.t > since.get(line.uid, math.inf), unbind)


def short_min_member(evidence: Evidence) -> Evidence:
    """Let every PodGroup say one member fewer than the gang needs."""

    def shorten(obj: dict[str, Any]) -> None:
        spec = obj.get("spec", {})
        if isinstance(spec.get("minMember"), int) and spec["minMember"] > 1:
            spec["minMember"] -= 1

    return base.each(evidence, lambda line: line.kind == "PodGroup", shorten)


def role_starts_alone(evidence: Evidence) -> Evidence:
    """Bind one role of the held gang, large enough to make its number up, while it waits for another role."""
    found = base.held(evidence)
    if found is None:
        return evidence
    _, gen, held = found
    roles = Counter(pod.task for pod in gen.members)
    role, count = max(roles.items(), key=lambda item: item[1])
    if len(roles) < 2 or count < gen.minimum:
        return evidence
    uids = {pod.uid for pod in gen.members if pod.task == role}
    start = held.start + 0.6 * (held.end - held.start)

    def bind(obj: dict[str, Any]) -> None:
        obj.setdefault("spec", {}).setdefault("nodeName", "node-early")

    bound = [base.edited(_before(evidence, uid, start), bind) for uid in sorted(uids)]
    early = [dataclasses.replace(line, t=start, type="MODIFIED") for line in bound]
    late = base.each(evidence, lambda line: line.uid in uids and line.t >= start, bind)
    return base.with_lines(late, (*late.lines, *early))


def _before(evidence: Evidence, uid: str, t: float) -> Line:
    """Return the last line of an object up to a time, else its first."""
    lines = evidence.history(uid)
    return next((line for line in reversed(lines) if line.t <= t), lines[0])


def minimum_not_defaulted(evidence: Evidence) -> Evidence:
    """Let every Job ask for all its replicas where it may start with fewer, and its PodGroup too."""
    totals = {job.uid: job.size for job in owners.jobs(evidence) if job.kind == names.VC_JOB}

    def whole(obj: dict[str, Any]) -> None:
        uid = obj["metadata"]["uid"]
        if uid in totals:
            obj["spec"]["minAvailable"] = totals[uid]
            return
        owner = fields.text(fields.owner(obj), "uid")
        if owner in totals:
            obj["spec"]["minMember"] = totals[owner]

    return base.each(evidence, lambda line: line.kind in {names.VC_JOB, "PodGroup"}, whole)


def _rename(evidence: Evidence, *, pods_too: bool) -> Evidence:
    """Let Jobs that name two schedulers, and their pods with them or not, name one scheduler: that of the gang."""

    def of_job(obj: dict[str, Any]) -> None:
        obj["spec"]["schedulerName"] = "volcano"
        for task in obj["spec"].get("tasks") or []:
            task["template"]["spec"]["schedulerName"] = "volcano"

    def of_pod(obj: dict[str, Any]) -> None:
        obj["spec"]["schedulerName"] = "volcano"

    mixed = [g for g in gangs.gangs(evidence) if g.job and len({pod.scheduler for pod in g.pods}) > 1]
    jobs = {gang.uid for gang in mixed}
    pods = {pod.uid for gang in mixed for pod in gang.pods}
    renamed = base.each(evidence, lambda line: line.uid in jobs and line.kind == names.VC_JOB, of_job)
    return base.each(renamed, lambda line: line.uid in pods, of_pod) if pods_too else renamed


def _returned(evidence: Evidence) -> tuple[gangs.Gang, float] | None:
    """Return the gang that was healed after its slot came back, and when that was."""
    found = [
        (gang, short.returned[0])
        for gang in gangs.gangs(evidence)
        for short in lost_members.shortages(evidence, gang)
        if short.healed and short.lost and short.returned is not None
    ]
    return next(iter(found), None)


def short_unsaid(evidence: Evidence) -> Evidence:
    """Let the PodGroup of a gang that lost a member and its slot say Running all the time."""
    found = _returned(evidence)
    if found is None or found[0].whole is None:
        return evidence
    whole = found[0].whole

    def calm(obj: dict[str, Any]) -> None:
        status = obj.get("status") or {}
        kept = [c for c in status.get("conditions") or [] if c.get("type") != "Unschedulable"]
        obj["status"] = {**status, "phase": "Running", "conditions": kept}

    return base.each(evidence, lambda line: line.kind == "PodGroup" and line.t > whole, calm)


def not_healed_unsaid(evidence: Evidence) -> Evidence:
    """Let the gang stay short although its slot is back, while its PodGroup says Running again."""
    found = _returned(evidence)
    if found is None:
        return evidence
    gang, back = found
    group = evidence.history(gang.groups[-1].uid)
    late = next((line for line in group if line.t > back), group[-1])
    kept = [line for line in evidence.lines if line.t <= back]
    said = base.edited(late, lambda obj: obj.update(status={**obj.get("status", {}), "phase": "Running"}))
    end = dataclasses.replace(kept[-1], t=back + LATE, type="NOTE", kind="", object={}, data={"note": "end"})
    again = dataclasses.replace(said, t=back + 0.1, type="MODIFIED")
    spans = [dataclasses.replace(span, end=max(span.end, end.t)) for span in evidence.spans]
    return base.with_lines(evidence, (*kept, again, end), spans=spans)


def _apart(moment: str) -> base.Act:
    """Return a mutant that lets everything after the first bind, or start, of a gang happen later."""

    def mutant(evidence: Evidence) -> Evidence:
        for gang in gangs.gangs(evidence):
            times = sorted(t for pod in gang.pods if (t := getattr(pod, moment)) is not None)
            if gang.minimum > 1 and len(times) > 1 and times[0] < times[1]:
                return base.later(evidence, times[0], LATE)
        return evidence

    return mutant


MUTANTS: base.Table = {
    "gang.bind-one-early": base.Mutant(
        "one member of the held gang is bound",
        bind_one_early,
        {
            "GANG-002": "fail",
            "GANG-012": "fail",
            "GANG-003": "fail",
            "GANG-004": "fail",
            "GANG-005": "fail",
            "TRN-003": "fail",
            "REF-006": "inconclusive",
            "REF-007": "inconclusive",
        },
    ),
    "gang.never-bound": base.Mutant(
        "the held gang is not bound when room appears",
        never_bound,
        {
            "REF-009": "fail",
            **base.all_to("inconclusive", "GANG-002 GANG-003 GANG-004 GANG-005 LIFE-014 KUE-003 TRN-003"),
        },
    ),
    "gang.short-min-member": base.Mutant(
        "PodGroups require one member fewer", short_min_member, {"GANG-001": "fail", "GANG-006": "fail"}
    ),
    "gang.role-starts-alone": base.Mutant(
        "one role alone fills the gang's minimum", role_starts_alone, {"GANG-005": "fail"}
    ),
    "gang.minimum-not-defaulted": base.Mutant(
        "Jobs and PodGroups require all replicas",
        minimum_not_defaulted,
        {
            "GANG-003": "inconclusive",
            "GANG-005": "inconclusive",
            "REF-009": "inconclusive",
            "GANG-006": "fail",
            "REF-006": "fail",
        },
    ),
    "gang.schedulers-agree": base.Mutant(
        "Jobs that named two schedulers name only one, and so do their pods",
        lambda evidence: _rename(evidence, pods_too=True),
        {"GANG-011": "inconclusive"},
    ),
    "gang.pods-renamed": base.Mutant(
        "Jobs that named two schedulers name only one, but their pods still name two",
        lambda evidence: _rename(evidence, pods_too=False),
        {"GANG-011": "fail"},
    ),
    "gang.short-unsaid": base.Mutant(
        "the PodGroup of a gang that lost a member says Running all the time",
        short_unsaid,
        {"GANG-009": "fail"},
    ),
    "gang.not-healed-unsaid": base.Mutant(
        "the gang stays short after its slot is back, and its PodGroup says Running",
        not_healed_unsaid,
        {"GANG-010": "fail"},
    ),
    "gang.binds-apart": base.Mutant(
        "the first bind of a gang is long before the others",
        _apart("bound"),
        base.all_to("fail", "GANG-001 GANG-002 GANG-003 GANG-004 GANG-005 GANG-007 KUE-004 TRN-003"),
    ),
    "gang.starts-apart": base.Mutant(
        "the first start of a gang is long before the others",
        _apart("running"),
        {"GANG-007": "fail", "KUE-004": "fail"},
    ),
    "gang.drop-a-barrier-line": base.Mutant(
        "one member printed no barrier line",
        base.drop("barrier", alone=True),
        {"GANG-001": "inconclusive", "RDZV-004": "fail"},
    ),
    "gang.barrier-of-fewer": base.Mutant(
        "one member met fewer members at the barrier",
        base.on("barrier", lambda w: w.update(world=2), alone=True),
        {"GANG-001": "fail"},
    ),
}
