"""What the rows of JobSet share: whether its controller acts at all, whether a set ended with nothing left running."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import jobsets, volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.scheduling.jobsets import Child
from pytest_gpucluster.judge import creating, subjects, wording
from pytest_gpucluster.judge.lifecycle import job_cases
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Verdict

RECEIPT = 0.5
"""Seconds by which a line of a busy watch may be received later than one of another watch."""

NOT_SERVED = Cause(
    "JobSet is declared and not installed: the API does not serve jobsets.jobset.x-k8s.io",
    "install JobSet (its CRD, jobset-controller-manager and its webhook; "
    "https://jobset.sigs.k8s.io/docs/installation), or take jobset out of the profile's `workload`",
)
SILENT = Cause(
    "JobSet's controller does not act: jobset-controller-manager does not run, has not become leader, or may not "
    "create Jobs",
    "look at it: kubectl -n jobset-system get deployment jobset-controller-manager, kubectl -n jobset-system logs "
    "deployment/jobset-controller-manager; install JobSet where it is missing",
)
TWO = Cause(
    "two controllers act on one JobSet, or somebody else deletes its Jobs",
    "look for a second manager (kubectl get deployments -A | grep jobset; kubectl get leases -A | grep jobset), and at "
    "spec.managedBy of the JobSet",
)


class End(NamedTuple):
    """The end that a set must come to.

    Attributes:
        phase: `Completed` or `Failed`.
        t: when that had to begin.
        told: what is told of that.
        broken: why a set does not end as it must.
    """

    phase: str
    t: float
    told: str
    broken: Cause


def decide(
    evidence: Evidence,
    given: subjects.Given,
    roles: Sequence[str],
    one: Callable[[Gang, Sequence[Child]], "Finding | str"],
    required: str,
) -> Finding:
    """Judge each JobSet of these roles, once its controller was seen to act on it.

    Args:
        evidence: what was seen.
        given: what is told beside it.
        roles: roles of the sets that must all show what is required.
        one: judges one set and its Jobs; a text says why it was not put to the test.
        required: what must hold.
    """
    refused = _not_taken(evidence, required)
    if refused is not None:
        return refused

    def judged(gang: Gang) -> Finding | str:
        made = jobsets.children(evidence, gang)
        why = acted_on(evidence, gang, made, required)
        return one(gang, made) if why is None else why

    return job_cases.decide(evidence, given, roles, judged, required, kinds=(names.JOBSET,))


def _not_taken(evidence: Evidence, required: str) -> Finding | None:
    """Return the finding of a JobSet that the API server did not take, None where it took all."""
    for line, code, message in creating.refused(evidence):
        if not fields.text(line.data, "request").startswith(f"create {names.JOBSET}/"):
            continue
        missing = code == 404 and "namespaces" not in message
        cause = NOT_SERVED if missing else creating.why(code, message)
        text = f"{fields.text(line.data, 'request')} was answered {code}: {wording.short(message) or 'no message'}"
        return wording.finding(
            Verdict.FAIL, required, text, causes=(cause,), evidence=(line.key,), violation=True
        )
    return None


def asked_by_role(evidence: Evidence, given: subjects.Given, gang: Gang, asked: Mapping[str, str]) -> str:
    """Return what was asked for in the set that plays a role, "" where it plays none: storing may have changed it.

    Args:
        evidence: what was seen.
        given: what is told beside it.
        gang: the set.
        asked: role -> what its set asks for.
    """
    known = subjects.roles(evidence, given)
    return next((value for role, value in asked.items() if subjects.plays(gang, known.get(role, ()))), "")


def acted_on(evidence: Evidence, gang: Gang, made: Sequence[Child], required: str) -> Finding | str | None:
    """Return what speaks against one controller that acts on a set, None where nothing does."""
    job = gang.job
    if job is None:
        return f"{gang.title} was not seen"
    found = wording.Findings(required, gang, evidence=(job.key,))
    if not made:
        why = job_cases.expired(evidence, gang)
        gaps = evidence.gaps(names.BATCH_JOB, job.created, volcano_jobs.end_of_story(evidence))
        if why and not gaps:
            text = f"{gang.title} was taken, and nobody made a Job of it (waited for {why})"
            return found.fail(text, SILENT, violation=True)
        return f"{gang.title} has no Job"
    if any(child.attempt is None or not child.replicated for child in made):
        return f"Jobs of {gang.title} do not say which attempt and which replicated Job they are of"
    known = {pod.uid for child in made for pod in child.pods}
    alone = [pod.name for pod in gang.pods if pod.uid not in known]
    if alone:
        return f"{gang.title} has pods of Jobs that were not seen: {wording.listed(alone, 3)}"
    twice = jobsets.made_again(made)
    if twice is not None:
        old, new = twice
        text = (
            f"Job {new.job.name} of {gang.title} was made again at t={new.job.created:.2f} s in the same attempt, "
            f"{new.attempt}, {new.job.created - old.job.created:.1f} s after the first"
        )
        return found.fail(text, TWO, violation=True, evidence=(old.job.key, new.job.key))
    return None


def ended_as(
    evidence: Evidence,
    given: subjects.Given,
    gang: Gang,
    end: End,
    found: wording.Findings,
) -> Finding:
    """Judge whether a set came to an end in time, and nothing of it was left running.

    Args:
        evidence: what was seen.
        given: what is told beside it.
        gang: the set.
        end: the end that it must come to.
        found: builds the findings.
    """
    assert gang.job is not None  # noqa: S101 (narrowed by the caller)
    phase, t, told, broken = end
    stop, limit = volcano_jobs.end_of_story(evidence), job_cases.due(evidence, given, gang, t)
    reached = gang.job.phase_time(phase)
    if reached is None:
        if gang.job.phase or stop >= limit:
            text = f"{told} at t={t:.2f} s, and it is {gang.job.phase or 'at no end'} {stop - t:.1f} s later"
            return found.fail(text, broken, violation=bool(gang.job.phase))
        return found.inconclusive(f"{told}; the evidence ends before it had to be {phase}")
    if gang.job.phase != phase:
        return found.fail(f"{told}: {phase}, and then {gang.job.phase}", broken, violation=True)
    if reached > limit:
        return found.fail(f"{told} at t={t:.2f} s, and it was {phase} only {reached - t:.1f} s later", broken)
    grain = subjects.of(evidence, given).grain
    if reached < t - RECEIPT - grain:
        text = f"{told} at t={t:.2f} s, and it had been {phase} {t - reached:.1f} s before"
        return found.fail(text, broken, violation=True)
    overdue = job_cases.overdue(evidence, gang, stop)
    slow = [
        pod
        for pod in gang.pods
        if not pod.going(t) and pod.finished is None and (volcano_jobs.left(pod) or 0.0) > limit
    ]
    alone = job_cases.left_alone(evidence, gang, stop) if stop >= limit else ()
    left = overdue or tuple(slow) or alone
    if left:
        text = f"{told}: {phase}, but still running: {wording.listed([pod.name for pod in left], 4)}"
        return found.fail(text, broken, violation=True, where=wording.places(left))
    if job_cases.living(evidence, gang, stop):
        return found.inconclusive(f"{told}: {phase}; the evidence ends before the others had to be gone")
    deleted = gang.job.deleted
    if deleted is not None and job_cases.living(evidence, gang, deleted - RECEIPT):
        return found.inconclusive(f"{told}: {phase}; the set was deleted before all of it was gone")
    for kind in ("Pod", names.JOBSET, names.BATCH_JOB):
        if evidence.gaps(kind, gang.job.created, stop):
            return found.inconclusive(f"{told}: {phase}; {kind} was not watched all the time")
    return found.passed(f"{told}: {phase} {reached - t:.2f} s later, nothing left running")
