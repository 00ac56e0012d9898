"""Restarts inside a pod, which no policy and no maxRetry sees: LIFE-012, and why other rows were not tried."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import job_cases
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

SHOWN = (
    "under restartPolicy OnFailure a container that fails is restarted in its pod: no PodFailed policy acts, and "
    "no attempt counts against maxRetry"
)

IN_PLACE = Cause(
    "restartPolicy OnFailure (or Always): the kubelet restarts the container inside the same pod, which never "
    "becomes Failed, so policies for PodFailed or exit codes and maxRetry do not apply",
    "set restartPolicy Never in the task's template, or use a policy for TaskFailed with the task's maxRetry",
)


def _told(one: volcano_jobs.InPlace) -> str:
    last = "" if one.exit_code is None else f", last exit {one.exit_code}"
    often = wording.count(one.restarts, "time")
    return f"{one.pod.where} restarts in place ({often}{last}) under restartPolicy {one.policy}"


def instead(evidence: Evidence, gang: Gang, required: str) -> Finding | None:
    """Return why a failure of this Job could not set a policy off; None where nothing was restarted in place."""
    restarted = [one for one in volcano_jobs.in_place(evidence, gang) if one.policy != "Never"]
    if not restarted:
        return None
    one = restarted[0]
    holds = job_cases.held(job_cases.living(evidence, gang, volcano_jobs.end_of_story(evidence)))
    text = f"not tested: {_told(one)}, so PodFailed cannot occur"
    text += f"; {holds} are held meanwhile" if holds else ""
    return wording.finding(
        Verdict.INCONCLUSIVE, required, text, gang, causes=(IN_PLACE,), where=wording.places((one.pod,)),
        evidence=(one.key,),
    )  # fmt: skip


@subjects.judge
def restarts_in_place_control(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-012: the control shows a failure that no policy sees."""
    return job_cases.decide(evidence, given, ("in-place",), lambda gang: _shown(evidence, given, gang), SHOWN)


def _shown(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding | str:
    if gang.job is None or not any(
        p.matches(volcano_jobs.FAILED, p.exit_code) for p in volcano_jobs.all_policies(gang)
    ):
        return f"{gang.title} has no policy for PodFailed or an exit code"
    restarted = [one for one in volcano_jobs.in_place(evidence, gang) if one.exit_code not in (None, 0)]
    if not restarted:
        why = job_cases.expired(evidence, gang)
        return f"no container of {gang.title} was restarted in its pod" + (
            f" (waited for {why})" if why else ""
        )
    one = restarted[0]
    stop = volcano_jobs.end_of_story(evidence)
    since = next((line.t for line in evidence.history(one.pod.uid) if line.key == one.key), stop)
    retries = volcano_jobs.retry_count(gang.job)
    acted = [action for t, action, _ in volcano_jobs.executed(evidence, gang.job) if t <= stop]
    over = [name for t, name, _ in gang.job.phases if name in volcano_jobs.OVER and t <= stop]
    window = subjects.of(evidence, given).window
    stays = stop - since
    number = Number(f"restarts in place of {one.pod.name}", one.restarts, "", None, "restartCount")
    found = wording.Findings(
        SHOWN,
        gang,
        causes=(IN_PLACE,),
        where=wording.places((one.pod,)),
        evidence=(one.key,),
        numbers=(number,),
    )

    told = _told(one)
    if acted or over or retries:
        what = wording.listed([*acted, *over], 4) or f"retryCount {retries}"
        return found.inconclusive(f"not shown: {told}, and the Job acted: {what}")
    gaps = evidence.gaps("Pod", since, stop)
    if gaps or stays < window:
        why = "the watch has a gap" if gaps else f"{stays:.2f} s is shorter than the window of {window:.2f} s"
        return found.inconclusive(f"{told}; {why}")
    phase = gang.job.phase
    return found.passed(f"shown: {told}; Job {phase} with retryCount 0 for {stays:.1f} s, no policy acted")
