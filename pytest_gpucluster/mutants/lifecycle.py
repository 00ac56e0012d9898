"""Departures of how jobs end."""

import dataclasses
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.mutants import base


def no_completion(evidence: Evidence) -> Evidence:
    """Let nobody end the members that outlive their master; the Job still calls itself Completed."""
    with_master = [g for g in gangs.gangs(evidence) if any("master" in pod.task for pod in g.pods)]
    tasks = {pod.uid: pod.task for gang in with_master for pod in gang.pods}
    workers = {uid for uid, task in tasks.items() if task and "master" not in task}

    def stay(obj: dict[str, Any]) -> None:
        obj.get("metadata", {}).pop("deletionTimestamp", None)
        obj["status"] = {**fields.sub(obj, "status"), "phase": "Running"}

    def ending(line: Line) -> bool:
        gone = bool(fields.sub(line.object, "metadata").get("deletionTimestamp")) or line.type == "DELETED"
        return line.uid in workers and gone

    kept = base.with_lines(
        evidence,
        (dataclasses.replace(ln, type="MODIFIED") if ending(ln) else ln for ln in evidence.lines),
    )
    calm = base.each(kept, lambda line: line.uid in workers and ending(line), stay)
    end = dataclasses.replace(
        calm.lines[-1], t=calm.end + 15.0, type="NOTE", kind="", object={}, data={"note": "end"}
    )
    spans = [dataclasses.replace(span, end=max(span.end, end.t)) for span in calm.spans]
    return base.with_lines(calm, (*calm.lines, end), spans=spans)


def end_with_master(evidence: Evidence) -> Evidence:
    """Delete the lingering members right after their master ended, within any window."""
    masters = [
        p
        for gang in gangs.gangs(evidence)
        for p in gang.pods
        if p.finished is not None and p.task == "master"
    ]
    if not masters:
        return evidence
    when = min(pod.finished or 0.0 for pod in masters) + 0.05
    last = {
        pod.uid: evidence.history(pod.uid)[-1]
        for gang in gangs.gangs(evidence)
        for pod in gang.pods
        if pod.task != "master" and pod.created < when
    }
    early = base.without(evidence, lambda line: line.uid in last and line.t > when)
    gone = [dataclasses.replace(line, t=when, type="DELETED") for line in last.values()]
    return base.with_lines(early, (*early.lines, *gone))


MUTANTS: base.Table = {
    "lifecycle.no-completion": base.Mutant(
        "members stay although the Job is Completed",
        no_completion,
        {"PLG-002": "inconclusive", "PLG-008": "fail", "LIFE-001": "fail"},
    ),
    "lifecycle.end-with-master": base.Mutant(
        "members end with their master", end_with_master, {"LIFE-002": "inconclusive"}
    ),
}
