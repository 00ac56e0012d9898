"""INV-001 for gangs behind Kueue: its API is served, its admission suspends Jobs, its manager answers."""

from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import kueue_workloads
from pytest_gpucluster.judge import attribution, creating, subjects, wording
from pytest_gpucluster.judge.kueue import shared
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "Kueue's API is served, its admission suspends a Job that names a queue, and its manager makes a Workload "
    "for the Job and reports whether its quota is reserved"
)


def answers(evidence: Evidence, given: subjects.Given) -> tuple[Finding, ...]:
    """Return the finding on each part."""
    absent = shared.unusable(evidence, given, REQUIRED)
    if absent is not None:
        return (absent,)
    return (_api(evidence), _suspends(evidence), *_answers(evidence, given))


def _part(verdict: Verdict, text: str, key: str = "", *causes: Cause, **more: Any) -> Finding:
    repeat = ("kubectl api-resources --api-group=kueue.x-k8s.io", "kubectl -n kueue-system get pods")
    keys = (key,) if key else ()
    return wording.finding(verdict, REQUIRED, text, evidence=keys, causes=causes, repeat=repeat, **more)


def _api(evidence: Evidence) -> Finding:
    asked = [line for line in evidence.responses() if str(line.data.get("case")).startswith("api:")]
    seen = evidence.of_kind(kueue_workloads.WORKLOAD)
    if not asked and not seen:
        return _part(Verdict.INCONCLUSIVE, "the evidence has no request that shows whether the API is served")
    return _part(Verdict.PASS, "Kueue's kinds are served", asked[0].key if asked else seen[0].key)


def _suspends(evidence: Evidence) -> Finding:
    line = next((one for one in evidence.responses() if one.data.get("case") == "dry-run"), None)
    if line is None:
        return _part(Verdict.INCONCLUSIVE, "no dry-run Job tested the admission")
    answer = attribution.answer(line)
    if not answer.accepted:
        text = (
            f"the dry-run Job was refused: HTTP {answer.code} by {answer.component} "
            f"({wording.short(answer.message)})"
        )
        # A permission, or a gate of somebody else, says nothing of Kueue.
        foreign = answer.at_admission and not answer.component.endswith("kueue.x-k8s.io")
        undecided = foreign or answer.code in (401, 403, 429)
        verdict = Verdict.INCONCLUSIVE if undecided else Verdict.FAIL
        silent = "failed calling webhook" in answer.message and "kueue" in answer.message
        cause = shared.MANAGER_DOWN if silent else creating.why(answer.code, answer.message)
        return _part(verdict, text, line.key, cause)
    spec = fields.sub(line.data, "object", "spec")
    if not spec:
        return _part(Verdict.INCONCLUSIVE, "the answer to the dry-run Job carries no object", line.key)
    if spec.get("suspend") is not True:
        text = "the dry-run Job that names a queue came back unsuspended"
        return _part(Verdict.FAIL, text, line.key, shared.NO_WEBHOOK, violation=True)
    return _part(Verdict.PASS, "admission suspends a Job that names a queue", line.key)


def _answers(evidence: Evidence, given: subjects.Given) -> tuple[Finding, ...]:
    """Judge whether the manager made a Workload and said whether there is quota."""
    named = shared.named(evidence, given, "subject", "probe")
    jobs = named if named is not None else shared.labelled(evidence)
    if not jobs:
        return (_part(Verdict.INCONCLUSIVE, "no Job was submitted to test whether the manager answers"),)
    job = jobs[0]
    said = min(
        (one.t for w in job.workloads for one in w.said if one.type.startswith("QuotaReserved=")),
        default=None,
    )
    end = said if said is not None else min(evidence.end, job.gone)
    waited, limits = end - job.created, subjects.of(evidence, given)
    number = Number(
        "time to Kueue's answer", waited, "s", limits.silent, "none so far: the manager is silent"
    )
    key = job.workloads[0].key if job.workloads else job.gang.job.key if job.gang.job else ""
    if said is not None:
        text = f"Workload {job.workloads[0].name} said within {waited:.2f} s whether quota is reserved"
        return (_part(Verdict.PASS, text, key, numbers=(number,)),)
    what = "its Workload says nothing" if job.workloads else "no Workload was made for it"
    text = f"{job.gang.title}: {what} in {waited:.1f} s"
    gaps = evidence.gaps(kueue_workloads.WORKLOAD, job.created, end)
    if subjects.silent(evidence, given, job.created, end) and not gaps:
        causes = shared.silence(job)
        return (_part(Verdict.FAIL, text, key, *causes, violation=True, numbers=(number,)),)
    return (_part(Verdict.INCONCLUSIVE, text, key, numbers=(number,)),)
