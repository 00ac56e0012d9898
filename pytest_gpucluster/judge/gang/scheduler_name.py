"""GANG-011: a gang that names two schedulers is diagnosed by the field at fault."""

from collections.abc import Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.gang import job_faults
from pytest_gpucluster.judge.gang.job_faults import Fault
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Verdict

REQUIRED = "if a Job and its task templates name two schedulers, the diagnosis names the field at fault"

_ORDER = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)


@subjects.judge
def field_named_control(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-011."""
    jobs = {
        gang.uid: gang
        for gang in subjects.everyone(evidence)
        if gang.job is not None and gang.job.kind == names.VC_JOB
    }
    found = job_faults.scheduler_names(evidence, given)
    cases = fields.sub(given, "cases")
    if not cases:
        return _recorded(jobs, found)
    played = subjects.roles(evidence, given)
    findings = []
    for role, field in cases.items():
        uids = [uid for _, _, uid in played.get(str(role), ())]
        job = next((jobs[uid] for uid in uids if uid in jobs), None)
        if job is None:
            why = f"the Job {role} is not in the evidence: {subjects.nothing(evidence, 'Job')}"
            findings.append(wording.finding(Verdict.INCONCLUSIVE, REQUIRED, why))
        else:
            findings.append(_case(job, str(field), [fault for fault in found if fault.uid == job.uid]))
    worst = min(findings, key=lambda finding: _ORDER.index(finding.verdict))
    if worst.verdict is not Verdict.PASS:
        return worst
    causes = tuple(cause for finding in findings for cause in finding.causes)
    keys = tuple(key for finding in findings for key in finding.evidence)
    text = "; ".join(finding.observed for finding in findings)
    where = tuple(place for finding in findings for place in finding.where)
    return wording.finding(Verdict.PASS, REQUIRED, text, where=where, causes=causes, evidence=keys)


def _recorded(jobs: dict[str, Gang], found: Sequence[Fault]) -> Finding:
    """Judge a recording: the first Job that names two schedulers."""
    for job in jobs.values():
        own = [fault for fault in found if fault.uid == job.uid]
        if _mixed(job) and own:
            return _shown(job, own)
    return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, "no Job in the evidence names two schedulers")


def _mixed(job: Gang) -> bool:
    return len({pod.scheduler for pod in job.pods}) > 1


def _case(job: Gang, field: str, own: Sequence[Fault]) -> Finding:
    if not _mixed(job):
        seen = ", ".join(sorted({pod.scheduler for pod in job.pods})) or "no scheduler (there are none)"
        text = f"the pods of {job.title} all went to {seen}: the control does not show the failure"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, job)
    named = [fault.field for fault in own]
    if named != [field]:
        text = f"{job.title}: the diagnosis names {', '.join(named) or 'no field'}, but {field} is at fault"
        causes = tuple(fault.cause for fault in own) or (
            Cause(
                "the diagnosis does not see the field",
                "compare schedulerName of the Job, its templates and its pods",
            ),
        )
        return wording.finding(Verdict.FAIL, REQUIRED, text, job, causes=causes, evidence=_keys(job, own))
    return _shown(job, own)


def _shown(job: Gang, own: Sequence[Fault]) -> Finding:
    text = "; ".join(fault.observed for fault in own)
    return wording.finding(
        Verdict.PASS, REQUIRED, f"named: {text}; fix: {own[0].cause.fix}", job,
        causes=tuple(fault.cause for fault in own), evidence=_keys(job, own),
    )  # fmt: skip


def _keys(job: Gang, own: Sequence[Fault]) -> tuple[str, ...]:
    pods = [pod.keys["created"] for pod in job.pods[:2]]
    return tuple(dict.fromkeys([*(fault.key for fault in own), *pods]))
