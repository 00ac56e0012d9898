"""LIFE-009: suspending a Job by command ends its pods, resuming starts it anew and costs one retry."""

from collections import Counter

from pytest_gpucluster.evidence.log import order
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import job_cases
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = (
    "AbortJob ends every pod and the Job is Aborted with none until ResumeJob, after which every member is made "
    "again; the two cost one retry"
)

COMMANDS = Cause(
    "the controllers did not carry out the command",
    "check that the CRD commands.bus.volcano.sh is installed and that vc-controller-manager runs and may delete "
    "commands",
)
RETRIES = Cause(
    "a resume is counted as an attempt: suspending and resuming a Job often uses up its maxRetry",
    "give Jobs that are suspended by hand or by a queue manager a high maxRetry",
)


@subjects.judge
def suspend_and_resume(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-009."""
    return job_cases.decide(
        evidence, given, ("suspended",), lambda gang: _suspended(evidence, given, gang), REQUIRED
    )


def _suspended(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding | str:
    asked, job = volcano_jobs.commands(evidence, gang), gang.job
    if asked.suspend is None or job is None:
        return f"{gang.title} was not suspended by a command"
    stop = volcano_jobs.end_of_story(evidence)
    aborted = job.phase_time("Aborted")
    limit = job_cases.due(evidence, given, gang, asked.suspend)
    path = volcano_jobs.retry_path(evidence, job)
    cost = sum(1 for t, _, key in path if asked.suspend <= order.seen_by(evidence, key, t) <= stop)
    number = Number(f"retries of {gang.name} used", cost, "", 1, "documented: a resume counts as an attempt")
    keys = tuple(key for _, name, key in job.phases if name in ("Aborting", "Aborted", "Restarting"))
    start = f"{gang.title}: AbortJob at t={asked.suspend:.2f} s; "
    found = wording.Findings(REQUIRED, gang, start=start, evidence=keys, numbers=(number,))

    until = asked.resume if asked.resume is not None else stop
    alone = job_cases.left_alone(evidence, gang, until)
    if aborted is None or aborted > until:
        if stop >= limit or job_cases.expired(evidence, gang, asked.suspend):
            text = f"{stop - asked.suspend:.1f} s later it is {job.phase or 'without a phase'}"
            if alone:
                text += f" and {wording.listed([p.name for p in alone], 4)} runs on"
            return found.fail(text, COMMANDS, violation=bool(alone), where=wording.places(alone or gang.pods))
        return found.inconclusive("the evidence ends before it had to be Aborted")
    if job_cases.living(evidence, gang, until) and (alone or job_cases.overdue(evidence, gang, until)):
        names = wording.listed([p.name for p in job_cases.living(evidence, gang, until)], 4)
        return found.fail(f"Aborted at t={aborted:.2f} s, but {names} runs on", COMMANDS, violation=True)
    lingered = job_cases.lingering(evidence, gang, asked.suspend, limit)
    if lingered and until >= limit:
        names = wording.listed([pod.name for pod in lingered], 4)
        text = f"Aborted at t={aborted:.2f} s, but {names} ran on without a request to end it"
        return found.fail(text, COMMANDS, violation=True, where=wording.places(lingered))
    grace = max((pod.grace for pod in gang.pods), default=0.0)
    if aborted > limit + grace + job_cases.GONE_SLACK:
        return found.fail(f"Aborted only {aborted - asked.suspend:.0f} s later", COMMANDS)
    text = f"Aborted at t={aborted:.2f} s"
    first = {pod.uid: order.seen_by(evidence, pod.keys["created"], pod.created) for pod in gang.pods}
    made = [p.name for p in gang.pods if aborted < first[p.uid] and p.created < until]
    if made:
        return found.fail(
            f"{text}; {wording.listed(made, 4)} was made while it was suspended", violation=True
        )
    return _resumed(evidence, given, gang, (asked.resume, text, cost), found)


def _resumed(
    evidence: Evidence,
    given: subjects.Given,
    gang: Gang,
    told: tuple[float | None, str, int],
    found: wording.Findings,
) -> Finding:
    """Judge what came of the resume; `told` is its time, the text so far and the retries used."""
    resume, text, cost = told
    stop = volcano_jobs.end_of_story(evidence)
    if resume is None:
        return found.inconclusive(f"{text}; it was not resumed")
    text = f"{text}, no pod until ResumeJob at t={resume:.2f} s"
    before = {p.slot for p in gang.pods if p.created < resume}
    soon = job_cases.due(evidence, given, gang, resume) + subjects.placed_within(given, "enqueue")
    fresh = {p.slot for p in gang.pods if resume <= p.created <= min(stop, soon)}
    missing = sorted(before - fresh)
    if missing and gang.job is not None and gang.job.phase == "Failed":
        used, allowed = volcano_jobs.retry_count(gang.job), volcano_jobs.max_retry(gang.job)
        if used >= allowed:
            text = f"{text}; the resume used up attempt {used} of {allowed}, so the Job is Failed"
            return found.inconclusive(text, RETRIES)
    if missing:
        why = job_cases.expired(evidence, gang, resume)
        text = f"{text}; {wording.listed(missing, 4)} was not made again"
        if why or stop >= job_cases.due(evidence, given, gang, resume):
            return found.fail(text + (f" (waited for {why})" if why else ""), COMMANDS)
        return found.inconclusive(f"{text} when the evidence ends")
    runs = Counter(p.slot for p in gang.pods if resume <= p.created <= stop and p.running is not None)
    slot, most = max(runs.items(), key=lambda one: one[1], default=("", 0))
    if most > 1 and gang.job is not None and not volcano_jobs.first_failures(evidence, gang):
        text = f"{text}; {slot} ran {most} times after it, retries used: {cost}"
        return found.fail(text, violation=True)
    text = f"{text}; all {len(before)} members were made again, retries used: {cost}"
    if cost != 1:
        return found.fail(f"{text}, documented is 1", RETRIES, violation=True)
    start = min((pod.created for pod in gang.pods), default=resume)
    if evidence.gaps("Pod", start, stop):
        return found.inconclusive(f"{text}; pods were not watched all the time")
    return found.passed(text, RETRIES)
