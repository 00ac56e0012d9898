"""Violations that are short, early, uncounted or late: what a look at the end, or at the last attempt, does not see."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import gangs, gates, volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names
from pytest_gpucluster.plain.copies import clone

HOLE = 1.0
"""Seconds that are let into the story, in which what was short happens."""
MOMENT = 0.08
"""Seconds for which a part was bound: less than any bind on its way may take."""
LATE = 180.0


def _phantom(donor: Line, gang: Gang, index: int) -> Line:
    """Return the first line of a pod of a gang that never was, made of any pod's first line."""
    obj: dict[str, Any] = clone(dict(donor.object))
    meta = obj.setdefault("metadata", {})
    task = str(meta.get("labels", {}).get("volcano.sh/task-spec") or "worker")
    meta.update(
        name=f"{gang.name}-{task}-{index}", uid=f"phantom-{gang.uid}-{index}", namespace=gang.namespace
    )
    if gang.uid:
        owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": gang.name, "uid": gang.uid}
        meta["ownerReferences"] = [{**owner, "controller": True}]
    meta["labels"] = {**meta.get("labels", {}), "volcano.sh/job-name": gang.name}
    meta["annotations"] = {k: v for k, v in meta.get("annotations", {}).items() if "group-name" not in k}
    obj["spec"] = {k: v for k, v in obj.get("spec", {}).items() if k != "nodeName"}
    obj["status"] = {"phase": "Pending"}
    return dataclasses.replace(donor, type="ADDED", object=obj)


def _flicker(evidence: Evidence, gang: Gang, start: float, count: int) -> Evidence:
    """Let `count` members of a gang be bound for a moment and taken away again, in a hole made after a time."""
    donor = next((line for line in evidence.of_kind("Pod") if line.type == "ADDED"), None)
    if donor is None:
        return evidence
    told = base.later(evidence, start, HOLE)
    made: list[Line] = []
    for index in range(count):
        first = _phantom(donor, gang, index)
        bound = base.edited(first, lambda obj: obj["spec"].update(nodeName="node-for-a-moment"))
        made += [
            dataclasses.replace(first, t=start + 0.1),
            dataclasses.replace(bound, t=start + 0.2, type="MODIFIED"),
            dataclasses.replace(bound, t=start + 0.2 + MOMENT, type="DELETED"),
        ]
    return base.with_lines(told, (*told.lines, *made))


def _volcano(evidence: Evidence) -> Iterator[Gang]:
    for gang in gangs.gangs(evidence):
        if gang.kind == names.VC_JOB and gang.minimum > 1 and gang.groups:
            yield gang


def _held(evidence: Evidence) -> Gang | None:
    found = [gang for gang, _, _ in base.all_held(evidence) if gang.kind == names.VC_JOB and gang.groups]
    return found[0] if found else None


def _refused(evidence: Evidence) -> Gang | None:
    for gang in _volcano(evidence):
        if gang.whole is None and gates.read(evidence, gang, gang.generations[-1]).enqueue and not gang.pods:
            return gang
    return None


def part_for_a_moment(evidence: Evidence) -> Evidence:
    """Let a part of the gang that is held at its gate be bound for a moment before, and be made anew."""
    gang = _held(evidence)
    if gang is None:
        return evidence
    return _flicker(evidence, gang, gang.groups[0].created + 1e-6, gang.minimum - 1)


def refused_for_a_moment(evidence: Evidence) -> Evidence:
    """Let members of a gang that is refused for good be bound in an attempt before."""
    gang = _refused(evidence)
    if gang is None:
        return evidence
    return _flicker(evidence, gang, gang.groups[0].created + 1e-6, gang.minimum - 1)


def minimum_for_a_moment(evidence: Evidence) -> Evidence:
    """Let the PodGroup of each Job ask for one member fewer while its first members are bound."""
    lines = list(evidence.lines)
    for gang in gangs.gangs(evidence):
        group, bound = (gang.groups or (None,))[0], gang.generations[0].first_bind
        if gang.job is None or group is None or group.minimum < 2 or bound is None:
            continue
        before = next((ln for ln in reversed(evidence.history(group.uid)) if ln.t <= bound), None)
        if before is None:
            continue
        field = ("spec", "schedulingPolicy", "gang", "minCount") if group.native else ("spec", "minMember")

        def short(obj: dict[str, Any], field: tuple[str, ...] = field, less: int = group.minimum - 1) -> None:
            for key in field[:-1]:
                obj = obj[key]
            obj[field[-1]] = less

        lines += [
            dataclasses.replace(base.edited(before, short), t=bound - 1e-6, type="MODIFIED"),
            dataclasses.replace(before, t=bound + MOMENT, type="MODIFIED"),
        ]
    return base.with_lines(evidence, lines) if len(lines) > len(evidence.lines) else evidence


def stray_bound(evidence: Evidence) -> Evidence:
    """Bind a pod that only names the PodGroup of a gang that is held, or has no place, in the midst of its wait.

    It has no owner and no label of the Job.
    """
    found = next((one for one in base.all_held(evidence) if one[1].group is not None), None)
    donor = next((line for line in evidence.of_kind("Pod") if line.type == "ADDED"), None)
    if found is None or donor is None:
        return evidence
    gang, gen, held = found
    assert gen.group is not None  # noqa: S101 (chosen so)
    obj: dict[str, Any] = clone(dict(donor.object))
    meta: dict[str, Any] = {"name": "stray", "uid": f"stray-{gang.uid}", "namespace": gang.namespace}
    spec = {k: v for k, v in obj.get("spec", {}).items() if k != "schedulingGroup"}
    if gen.group.native:
        spec["schedulingGroup"] = {"podGroupName": gen.group.name}
    else:
        meta["annotations"] = {names.ANNOTATION_GROUP: gen.group.name}
    obj.update(metadata=meta, spec={**spec, "nodeName": "node-early"}, status={"phase": "Running"})
    t = (held.start + held.end) / 2
    return base.with_lines(
        evidence, (*evidence.lines, dataclasses.replace(donor, t=t, type="ADDED", object=obj))
    )


def _role(evidence: Evidence, *roles: str) -> Gang | None:
    for gang in gangs.gangs(evidence):
        if _plays(gang, *roles):
            return gang
    return None


def ends_alone(evidence: Evidence) -> Evidence:
    """Let nobody ask for the end of the other members: they end by themselves, soon after the master."""
    gang = next((g for g in gangs.gangs(evidence) if any("master" in p.task for p in g.pods)), None)
    if gang is None or _role(evidence, "subject") is None or len(gang.generations) > 1:
        return evidence
    others = {pod.uid for pod in gang.pods if "master" not in pod.task and pod.deleting is not None}
    masters = [p.finished for p in gang.pods if "master" in p.task and p.finished is not None]
    if not others or not masters:
        return evidence

    def end(obj: dict[str, Any]) -> None:
        obj["metadata"].pop("deletionTimestamp", None)
        obj["status"] = {**fields.sub(obj, "status"), "phase": "Succeeded"}

    late = [line for line in evidence.lines if line.uid in others and line.t > max(masters)]
    gone = {id(line) for line in late if line.type == "DELETED"}
    calm = base.each(evidence, lambda line: line in late, end)
    kept = (ln for ln, before in zip(calm.lines, evidence.lines, strict=True) if id(before) not in gone)
    return base.with_lines(calm, kept)


def _stretched(evidence: Evidence, t: float) -> Evidence:
    return base.later(evidence, t, LATE)


def old_member_stays(evidence: Evidence) -> Evidence:
    """Let a member that is replaced be Terminating, and run, long after its replacement came."""
    gang = _role(evidence, "deleted")
    if gang is None:
        return evidence
    first = {pod.uid for pod in volcano_jobs.removals(evidence, gang)}
    going = [p for p in gang.pods if p.uid not in first and p.deleting is not None and p.deleted is not None]
    stop = volcano_jobs.end_of_story(evidence)
    old = next((p for p in going if (p.deleting or 0.0) < stop), None)
    if old is None:
        return evidence

    def run_on(obj: dict[str, Any]) -> None:
        obj["status"] = {**fields.sub(obj, "status"), "phase": "Running"}

    def later(line: Line) -> bool:
        return line.uid == old.uid and line.t >= (old.deleting or 0.0)

    calm = base.each(base.without(evidence, lambda ln: later(ln) and ln.type == "DELETED"), later, run_on)
    return _stretched(calm, max(line.t for line in calm.lines if line.t < stop))


def _run_before(evidence: Evidence, pod: PodStory, times: int) -> Evidence:
    """Let a member have run so often before, each time with its whole life, and nobody count it."""
    t = pod.created - 1e-6
    told = base.later(evidence, t, HOLE)
    before = evidence.history(pod.uid)
    span = max(before[-1].t - before[0].t, 1e-6)
    again: list[Line] = []
    for turn in range(times):
        uid = f"{pod.uid}-{turn}"
        for line in before:
            copied = base.edited(line, lambda obj, uid=uid: obj["metadata"].update(uid=uid))  # type: ignore[misc]
            at = t + HOLE * (turn + 0.05 + 0.9 * (line.t - before[0].t) / span) / times
            again.append(dataclasses.replace(copied, t=at))
    return base.with_lines(told, (*told.lines, *again))


def attempts_uncounted(evidence: Evidence) -> Evidence:
    """Let a member of a Job whose attempts fail run more often than maxRetry allows, under an old mark."""
    gang = _role(evidence, "max-retry")
    if gang is None or gang.job is None:
        return evidence
    return _run_before(evidence, gang.pods[0], volcano_jobs.max_retry(gang.job))


def resumed_twice(evidence: Evidence) -> Evidence:
    """Let a member of a Job that was resumed run twice, at the cost of one retry."""
    gang = _role(evidence, "suspended")
    resume = None if gang is None else volcano_jobs.commands(evidence, gang).resume
    if gang is None or resume is None:
        return evidence
    return _run_before(evidence, next(pod for pod in gang.pods if pod.created > resume), 1)


def removed_late(evidence: Evidence) -> Evidence:
    """Let a finished Job with a time to live be removed, but minutes after it was due."""
    gang = _role(evidence, "time-to-live")
    if gang is None or gang.job is None or gang.job.deleted is None:
        return evidence
    finished = gang.job.phases[-1][0]
    gone = min(
        t for t in (gang.job.deleted, *(p.deleting for p in gang.pods)) if t is not None and t > finished
    )
    return _stretched(evidence, gone - 1e-6)


def restored_late(evidence: Evidence) -> Evidence:
    """Let a gang that was held be bound only minutes after its room appeared, or after the other gang had gone."""
    found = [
        (gang, gen.first_bind)
        for gang, gen, held in base.all_held(evidence)
        if held.bound_after and gen.first_bind is not None and gang.kind == names.VC_JOB
    ]
    if not found:
        return evidence
    return _stretched(evidence, max(t for _, t in found) - 1e-6)


def completed_late(evidence: Evidence) -> Evidence:
    """Let the Job whose master ended be Completed minutes after everything of it had ended."""
    gang = next((g for g in gangs.gangs(evidence) if any("master" in p.task for p in g.pods)), None)
    if gang is None or gang.job is None or gang.job.completed is None or _role(evidence, "subject") is None:
        return evidence
    return _stretched(evidence, gang.job.completed - 1e-6)


def gives_up_late(evidence: Evidence) -> Evidence:
    """Let members that give up say so in time, and end minutes later."""
    ends = [
        pod.finished
        for gang in gangs.gangs(evidence)
        if _plays(gang, "unanswered", "endpoint", "subdomain", "stalled")
        for pod in gang.pods
        if pod.finished is not None
    ]
    return _stretched(evidence, min(ends) - 1e-6) if ends else evidence


def evicted_slowly(evidence: Evidence) -> Evidence:
    """Let Kueue say that it evicts a Job, which keeps its quota and its pods for minutes."""
    for line in evidence.of_kind("Workload"):
        if fields.condition(line.object, "Evicted").get("status") == "True":
            return _stretched(evidence, line.t)
    return evidence


def _plays(gang: Gang, *roles: str) -> bool:
    return fields.sub(gang.job.last if gang.job else {}, "metadata", "labels").get(names.LABEL_ROLE) in roles


MUTANTS: base.Table = {
    "moment.evicted-slowly": base.Mutant(
        "Kueue evicts a Job, but the Job keeps its resources for minutes",
        evicted_slowly,
        {"KUE-004": "fail", "KUE-005": "fail"},
    ),
    "moment.gives-up-late": base.Mutant(
        "a member that gives up says so in time and ends minutes later",
        gives_up_late,
        {"RDZV-003": "fail", "RDZV-004": "fail", "RDZV-008": "fail", "RDZV-009": "fail"},
    ),
    "moment.part-bound": base.Mutant(
        "a part of the held gang is bound for a moment and then created again",
        part_for_a_moment,
        {"GANG-002": "fail", "GANG-003": "fail", "GANG-004": "fail", "GANG-005": "fail"},
    ),
    "moment.refused-bound": base.Mutant(
        "members of a refused gang are bound for a moment",
        refused_for_a_moment,
        {"REF-001": "fail", "REF-002": "fail", "REF-005": "inconclusive"},
    ),
    "moment.minimum-short": base.Mutant(
        "the PodGroup asks for fewer members while they are bound",
        minimum_for_a_moment,
        {"GANG-001": "fail", "GANG-006": "fail"},
    ),
    "moment.stray-bound": base.Mutant(
        "a pod that only names the PodGroup is bound while its gang waits",
        stray_bound,
        {
            "GANG-006": "inconclusive",
            "REF-006": "inconclusive",
            "REF-007": "inconclusive",
            "LIFE-013": "inconclusive",
            "LIFE-014": "inconclusive",
            **base.all_to("fail", "GANG-002 GANG-003 GANG-004 GANG-005 GANG-012 REF-009 TRN-003"),
        },
    ),
    "moment.ends-alone": base.Mutant(
        "the other members end by themselves, without a request",
        ends_alone,
        {"LIFE-001": "inconclusive", "LIFE-002": "inconclusive"},
    ),
    "moment.old-member-stays": base.Mutant(
        "a replaced member is Terminating but runs for minutes more", old_member_stays, {"LIFE-003": "fail"}
    ),
    "moment.attempts-uncounted": base.Mutant(
        "members run more often than the controllers count", attempts_uncounted, {"LIFE-004": "fail"}
    ),
    "moment.resumed-twice": base.Mutant(
        "a member of a resumed Job runs twice for one retry", resumed_twice, {"LIFE-009": "fail"}
    ),
    "moment.removed-late": base.Mutant(
        "a finished Job is removed minutes after it was due", removed_late, {"LIFE-005": "fail"}
    ),
    "moment.bound-late": base.Mutant(
        "a held gang is bound minutes after its room appeared",
        restored_late,
        {"GANG-002": "fail", "GANG-003": "fail", "GANG-005": "fail", "LIFE-014": "inconclusive"},
    ),
    "moment.completed-late": base.Mutant(
        "the Job is Completed minutes after all members ended", completed_late, {"LIFE-001": "fail"}
    ),
}
