"""TRN-004: the success policy of a JobSet ends it when its targets have succeeded, with nothing of it left running."""

from collections.abc import Mapping, Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import jobsets
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.scheduling.jobsets import Child
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import job_cases
from pytest_gpucluster.judge.trainer import jobset_cases
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "a JobSet is Completed as soon as any of its target Jobs has completed (operator Any), or all of them (All), not "
    "before, and the Jobs that go on are ended"
)
ROLES: Mapping[str, str] = {"any-of": "Any", "all-of": "All"}
"""Role of a set -> the operator that it asks for."""
IGNORED = Cause(
    "JobSet's controller did not follow spec.successPolicy: it stands still, it may not delete Jobs, or its version "
    "does not know the field",
    "read spec.successPolicy of the JobSet as stored (kubectl get jobset -o yaml), the controller's log (kubectl -n "
    "jobset-system logs deployment/jobset-controller-manager), and finalizers of the Jobs that stay",
)


@subjects.judge
def ends_the_set(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge TRN-004."""

    def one(gang: Gang, made: Sequence[Child]) -> Finding | str:
        return _judged(evidence, given, gang, made)

    return jobset_cases.decide(evidence, given, tuple(ROLES), one, REQUIRED)


def _judged(evidence: Evidence, given: subjects.Given, gang: Gang, made: Sequence[Child]) -> Finding | str:
    job = gang.job
    assert job is not None  # noqa: S101 (narrowed by jobset_cases)
    policy = fields.sub(job.last, "spec", "successPolicy")
    operator, every = fields.text(policy, "operator"), jobsets.replicated(job)
    stated = policy.get("targetReplicatedJobs")
    targets = (
        [str(name) for name in stated] if isinstance(stated, list) and stated else [r.name for r in every]
    )
    unknown = sorted(set(targets) - {one.name for one in every})
    if unknown:
        return (
            f"{gang.title} has no replicated Job {wording.listed(unknown, 3)}, which its success policy names"
        )
    asked = jobset_cases.asked_by_role(evidence, given, gang, ROLES)
    if asked and operator != asked:
        return f"{gang.title} is stored with the operator {operator or '(none)'}, {asked} was asked for"
    if any(child.attempt for child in made):
        return f"{gang.title} was restarted: which attempt its end rests on is not judged"
    jobs = sum(one.jobs for one in every if one.name in targets)
    wanted = {"Any": 1, "All": jobs}.get(operator, 0)
    if not wanted:
        return f"{gang.title} has the success policy {operator or '(none)'} of {jobs} Jobs"
    if len(targets) == len(every) and operator == "All":
        return f"{gang.title} asks for all of its Jobs: none could be left running"
    done = sorted(child.complete for child in made if child.replicated in targets and child.complete)
    failed = [child for child in made if child.failed]
    if failed:
        return f"Job {failed[0].job.name} of {gang.title} failed, which the failure policy decides"
    number = Number(
        f"target Jobs of {gang.name} that completed", len(done), "", wanted, f"spec.successPolicy, operator {operator}"
    )  # fmt: skip
    keys = (*(key for _, key in done[:3]), *(key for _, _, key in job.phases))
    found = wording.Findings(REQUIRED, gang, evidence=keys, numbers=(number,))
    told = f"{gang.title}: {len(done)} of {wording.count(jobs, 'target Job')} completed, {operator} needed"
    if len(done) >= wanted:
        end = jobset_cases.End("Completed", done[wanted - 1][0], told, IGNORED)
        ended = jobset_cases.ended_as(evidence, given, gang, end, found)
        if ended.verdict is Verdict.PASS and not _going_on(evidence, gang, made, end.t):
            return f"{told}; no pod of another Job was there then: nothing had to be ended"
        return ended
    early = job.phase_time("Completed")
    if early is not None and not evidence.gaps(names.BATCH_JOB, job.created, evidence.end):
        return found.fail(f"{told}, and it is Completed", IGNORED, violation=True)
    why = job_cases.expired(evidence, gang)
    return f"{told}: not decided yet" + (f" (waited for {why})" if why else "")


def _going_on(evidence: Evidence, gang: Gang, made: Sequence[Child], t: float) -> bool:
    """Report whether a pod of a Job that had not completed was there at a time, and nobody had asked for its end.

    The watch of Jobs may be late by a little.
    """
    done = {pod.uid for child in made if child.complete for pod in child.pods}
    since = t - jobset_cases.RECEIPT
    return any(
        pod.uid not in done
        and pod.created <= t
        and not pod.going(since)
        and job_cases.ended(evidence, pod) > since
        for pod in gang.pods
    )
