"""Departures of refusals and of the control after them."""

from pytest_gpucluster.evidence import fields, gangs
from pytest_gpucluster.evidence.model import Evidence
from pytest_gpucluster.evidence.mutate import base


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


MUTANTS: base.Table = {
    "refusal.forget-control": ("the control never happened", forget_later_gangs),
    "refusal.accept-duplicate-task": ("a Job with a task twice is accepted", accept_refused),
    "refusal.by-permission": ("refused for want of permission", refuse_by_permission),
}
