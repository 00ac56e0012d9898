"""LIFE-007: the policies for PodFailed and for exit codes do what they say."""

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.scheduling import volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import container_restarts, job_cases
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "when a pod fails, the first policy that matches its event or exit code acts: AbortJob, TerminateJob and "
    "CompleteJob end the Job accordingly and leave nothing running, RestartJob replaces every member"
)

NOT_ACTED = Cause(
    "the controllers did not act on the failed pod",
    "check that the policy is on the failing task or on the Job and names PodFailed or this exit code, and "
    "look at the log of vc-controller-manager",
)
NOT_FIRST = Cause(
    "Volcano compares an exit-code policy with the first container of the pod only",
    "list the container whose exit code matters first in the task's template, or use a policy for PodFailed",
)
OTHER = Cause(
    "another policy acted: a policy of the task is tried before those of the Job, and the first that matches wins",
    "read spec.tasks[].policies and spec.policies in this order",
)


@subjects.judge
def act_as_documented(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-007."""
    return job_cases.decide(
        evidence,
        given,
        ("abort", "terminate", "max-retry"),
        lambda gang: _acted(evidence, given, gang),
        REQUIRED,
    )


def _acted(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding | str:
    if gang.job is None:
        return f"the Job of {gang.title} is not in the evidence"
    for failure in volcano_jobs.first_failures(evidence, gang):
        policy = volcano_jobs.policy_for(gang, failure.pod.task, volcano_jobs.FAILED, failure.exit_code)
        if policy is None or policy.delayed:
            continue
        if policy.action in volcano_jobs.ENDS or policy.action == "RestartJob":
            return _judge(evidence, given, gang, failure, policy)
    instead = container_restarts.instead(evidence, gang, REQUIRED)
    if instead is not None:
        return instead
    unread = _unread(gang)
    if unread is not None:
        return unread
    why = job_cases.expired(evidence, gang)
    return f"no pod of {gang.title} failed in a way that a policy covers" + (
        f" (waited for {why})" if why else ""
    )


def _unread(gang: Gang) -> Finding | None:
    """Return why a policy for an exit code was not set off: another container than the first ended with it."""
    wanted = {policy.exit_code for policy in volcano_jobs.all_policies(gang)} - {None}
    for pod in gang.pods:
        # As Volcano reads them: the first of all, of whoever it is.
        for status in fields.items(pod.last, "status", "containerStatuses")[1:]:
            code = fields.number(containers.end_of(status), "exitCode")
            if pod.phase == "Failed" and code is not None and code in wanted:
                which = f"{status.get('name')} of {pod.where}"
                text = f"not tested: {which} ended with exit code {code}, and it is not the first container"
                return wording.finding(
                    Verdict.INCONCLUSIVE, REQUIRED, text, gang, causes=(NOT_FIRST,), where=(pod.where,)
                )
    return None


def _judge(
    evidence: Evidence,
    given: subjects.Given,
    gang: Gang,
    failure: volcano_jobs.Failure,
    policy: volcano_jobs.Policy,
) -> Finding:
    job = gang.job
    assert job is not None  # noqa: S101 (narrowed by the caller)
    stop = volcano_jobs.end_of_story(evidence)
    acts = [(t, action, key) for t, action, key in volcano_jobs.executed(evidence, job) if t <= stop]
    code = "" if failure.exit_code is None else f" with exit code {failure.exit_code}"
    start = f"{failure.pod.name} failed{code} at t={failure.t:.2f} s, {policy.when} -> {policy.action}"
    limit = job_cases.due(evidence, given, gang, failure.t)
    moved = _moved(gang, policy.action)
    keys = (failure.key, *(key for _, _, key in acts[:2]), *(key for _, _, key in moved[:2]))
    took = moved[0][0] - failure.t if moved else None
    number = Number(
        f"{policy.action} of {gang.name} after", took, "s", job_cases.act_within(given), "budget to finish"
    )
    found = wording.Findings(REQUIRED, gang, start=f"{start}; ", evidence=keys, numbers=(number,))

    wrong = _other_end(gang, policy.action, stop)
    if wrong:
        return found.fail(f"but the Job became {wrong}", OTHER, violation=True)
    late = not moved or moved[0][0] > limit
    if late and stop >= limit:
        text = f"the Job stayed {job.phase or 'without a phase'}, nothing was done within {limit - failure.t:.1f} s"
        return found.fail(text, NOT_ACTED, violation=True)
    if late:
        return found.inconclusive("the evidence ends before the action was due")
    if policy.action == "RestartJob":
        return _restarted(evidence, given, gang, failure, found)
    return _ended(evidence, given, gang, volcano_jobs.ENDS[policy.action], found)


def _moved(gang: Gang, action: str) -> list[tuple[float, str, str]]:
    """Return the phases that show that an action was carried out."""
    wanted = {"RestartJob": ("Restarting",), "AbortJob": ("Aborting", "Aborted")}.get(action)
    if wanted is None:
        end = volcano_jobs.ENDS[action]
        wanted = (end.replace("ed", "ing"), end)
    return [phase for phase in (gang.job.phases if gang.job else ()) if phase[1] in wanted]


def _other_end(gang: Gang, action: str, stop: float) -> str:
    """Return the first phase of another action than this one, "" where there was none."""
    allowed = {"Restarting", "Failed"} if action == "RestartJob" else {volcano_jobs.ENDS[action]}
    allowed |= {end.replace("ed", "ing") for end in allowed}
    for t, name, _ in gang.job.phases if gang.job else ():
        if t <= stop and name in volcano_jobs.OVER:
            return "" if name in allowed else name
    return ""


def _ended(
    evidence: Evidence, given: subjects.Given, gang: Gang, end: str, found: wording.Findings
) -> Finding:
    job = gang.job
    assert job is not None  # noqa: S101 (narrowed by the caller)
    stop = volcano_jobs.end_of_story(evidence)
    at = job.phase_time(end)
    begun = min(t for t, name, _ in job.phases if name in (end, end.replace("ed", "ing")))
    limit = job_cases.due(evidence, given, gang, begun)
    alone = job_cases.lingering(evidence, gang, begun, limit)
    overdue = job_cases.overdue(evidence, gang, stop)
    if overdue or (alone and stop >= limit):
        left = overdue or alone
        text = f"{end}, but {wording.listed([p.name for p in left], 4)} runs on"
        return found.fail(text, NOT_ACTED, violation=True, where=wording.places(left))
    grace = max((pod.grace for pod in gang.pods), default=0.0)
    if at is not None and at > job_cases.due(evidence, given, gang, begun) + grace + job_cases.GONE_SLACK:
        return found.fail(f"it was {end} only {at - begun:.0f} s after it began to end")
    if at is None:
        why = job_cases.expired(evidence, gang, begun)
        verdict = Verdict.FAIL if why else Verdict.INCONCLUSIVE
        return found.of(verdict, f"it was not seen {end}" + (f" (waited for {why})" if why else ""))
    if job_cases.living(evidence, gang, stop):
        return found.inconclusive(f"{end}; the evidence ends before all pods had to be gone")
    gaps = evidence.gaps("Pod", begun, stop)
    if gaps:
        return found.inconclusive(f"{end}; pods were not watched all the time")
    return found.passed(f"{end} at t={at:.2f} s, nothing left running")


def _restarted(
    evidence: Evidence,
    given: subjects.Given,
    gang: Gang,
    failure: volcano_jobs.Failure,
    found: wording.Findings,
) -> Finding:
    others = [
        p
        for p in gang.pods
        if p.created <= failure.t
        and p.uid != failure.pod.uid
        and (p.deleted is None or p.deleted > failure.t)
    ]
    limit = job_cases.due(evidence, given, gang, failure.t)
    stop = volcano_jobs.end_of_story(evidence)
    stayed = [p for p in others if (t := volcano_jobs.left(p)) is None or t > limit]
    if stayed and stop >= limit:
        text = f"{wording.listed([p.name for p in stayed], 4)} ran on"
        return found.fail(text, NOT_ACTED, violation=True, where=wording.places(stayed))
    grace = max((p.grace for p in gang.pods), default=0.0)
    slow = job_cases.outlived(evidence, (failure.pod, *others), stop)
    if slow:
        pod, over = slow[0]
        text = f"{pod.name} ran on for {over:.0f} s beyond its grace period"
        return found.fail(text, NOT_ACTED, violation=True, where=(pod.where,))
    soon = limit + grace + job_cases.GONE_SLACK
    fresh = {p.slot for p in gang.pods if failure.t < p.created <= min(stop, soon)}
    wanted = {p.slot for p in (failure.pod, *others)}
    last = gang.job is not None and volcano_jobs.retry_count(gang.job) >= volcano_jobs.max_retry(gang.job)
    if stayed or (wanted - fresh and not (last and not fresh)):
        why = job_cases.expired(evidence, gang, failure.t)
        verdict = Verdict.FAIL if why and not stayed else Verdict.INCONCLUSIVE
        text = f"{wording.listed(sorted(wanted - fresh), 4)} not yet made again"
        return found.of(verdict, text + (f" (waited for {why})" if why else ""))
    if evidence.gaps("Pod", failure.t, max((p.created for p in gang.pods), default=failure.t)):
        return found.inconclusive("pods were not watched all the time")
    return found.passed(f"all {len(wanted)} members were replaced" if fresh else "no attempt was left")
