"""How a Job ends by its own numbers: minSuccess (LIFE-006) and its time to live (LIFE-005)."""

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.owners import COMPLETED
from pytest_gpucluster.evidence.scheduling import volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import job_cases
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REMOVED = (
    "a Job with ttlSecondsAfterFinished is removed, with everything it owns, that long after it finished"
)
DECIDES = (
    "as soon as minSuccess members have succeeded the Job is Completed and the other members are ended; a Job "
    "that ends with fewer is not Completed"
)

WHOLE_SECONDS = 1.0
"""The time to live counts from a time stamp of whole seconds, so removal may come up to so much early."""

RECEIPT = 0.5
"""Seconds by which a line of a busy watch may be received later than another one."""

NO_COLLECTOR = Cause(
    "nothing removes finished Jobs: the garbage collection of Volcano does not run, or finalizers hold the Job's "
    "objects",
    "check that vc-controller-manager runs with its gc-controller (`--controllers`) and that Kubernetes' garbage "
    "collector answers",
)
NO_TTL = Cause(
    "nothing removes finished Jobs: the ttl-after-finished controller does not run, or finalizers hold the Job's "
    "objects",
    "check kube-controller-manager (`--controllers`), and look for finalizers on the Job and its pods",
)
ABORTED_STAYS = Cause(
    "Volcano removes Jobs that are Completed, Failed or Terminated, never an Aborted one, which can be resumed",
    "delete the Job by hand, or let the policy use TerminateJob instead of AbortJob",
)
IGNORED = Cause(
    "minSuccess did not decide",
    "read spec.minSuccess of the Job as stored (`kubectl get vcjob -o yaml`): an older schema drops the field",
)


@subjects.judge
def removed_after_ttl(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-005."""
    return job_cases.decide(
        evidence, given, ("time-to-live",), lambda gang: _removed(evidence, given, gang), REMOVED,
        kinds=(names.VC_JOB, names.BATCH_JOB),
    )  # fmt: skip


def _removed(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding | str:
    job = gang.job
    ttl = fields.number(job.last, "spec", "ttlSecondsAfterFinished") if job else None
    if job is None or ttl is None:
        return f"{gang.title} has no ttlSecondsAfterFinished"
    ends = volcano_jobs.FINAL | set(COMPLETED)
    finished = next(((t, name, key) for t, name, key in job.phases if name in ends), None)
    if finished is None and job.phase == "Aborted":
        text = f"{gang.title} is Aborted, and the time to live does not count from there"
        return wording.finding(Verdict.INCONCLUSIVE, REMOVED, text, gang, causes=(ABORTED_STAYS,))
    if finished is None:
        why = job_cases.expired(evidence, gang)
        return f"{gang.title} did not finish, it is {job.phase or 'without a phase'}" + (
            f" (waited for {why})" if why else ""
        )
    t, phase, key = finished
    stop = volcano_jobs.end_of_story(evidence)
    grain = subjects.of(evidence, given).grain
    ours = any(note.data.get("uid") == job.uid for note in evidence.notes("deleted-by-us"))
    gone = job.deleted if job.deleted is not None and job.deleted <= stop else None
    took = None if gone is None else gone - t
    number = Number(f"{gang.name} removed after", took, "s", float(ttl), "spec.ttlSecondsAfterFinished")
    start = f"{gang.title} was {phase} at t={t:.2f} s, time to live {ttl} s"

    nobody = NO_TTL if gang.kind == names.BATCH_JOB else NO_COLLECTOR
    keys = (key, *(pod.keys["deleted"] for pod in gang.pods[:3] if "deleted" in pod.keys))
    found = wording.Findings(REMOVED, gang, start=f"{start}; ", evidence=keys, numbers=(number,))

    if ours:
        return found.inconclusive("the run deleted it itself")
    if took is None or gone is None:
        limit = job_cases.due(evidence, given, gang, t + ttl)
        if stop >= limit or job_cases.expired(evidence, gang, t):
            return found.fail(f"still there {stop - t:.1f} s later", nobody)
        return found.inconclusive("the evidence ends before its removal was due")
    if took < ttl - WHOLE_SECONDS - RECEIPT - grain:
        return found.fail(f"removed {took:.1f} s later, too early", violation=True)
    if gone > job_cases.due(evidence, given, gang, t + ttl):
        return found.fail(f"removed only {took:.1f} s later", nobody)
    slow = _owned_late(evidence, gang, gone)
    if slow:
        return found.fail(f"removed {took:.1f} s later, but {slow} was there long after", nobody)
    left = _owned_left(evidence, gang, stop)
    if left:
        why = job_cases.expired(evidence, gang, t)
        verdict = Verdict.FAIL if why or stop - gone > job_cases.GONE_SLACK else Verdict.INCONCLUSIVE
        return found.of(
            verdict,
            f"removed {took:.1f} s later, but {wording.listed(left, 4)} is still there",
            nobody,
            where=tuple(left[: wording.MANY]),
        )
    gaps = [gap for kind in (gang.kind, "Pod") for gap in evidence.gaps(kind, t, gone)]
    if gaps:
        return found.inconclusive("the watch has a gap, so when it was removed is not known")
    return found.passed(f"removed {took:.1f} s later with its {wording.count(len(gang.pods), 'pod')}")


def _owned_late(evidence: Evidence, gang: Gang, gone: float) -> str:
    """Return what a Job owned and was removed long after it, "" for nothing."""
    grace = max((pod.grace for pod in gang.pods), default=0.0)
    for line in evidence.lines:
        owners = {str(ref.get("uid")) for ref in fields.items(line.object, "metadata", "ownerReferences")}
        if line.type == "DELETED" and gang.uid in owners and line.t > gone + grace + job_cases.GONE_SLACK:
            return f"{line.kind}/{line.name}"
    return ""


def _owned_left(evidence: Evidence, gang: Gang, t: float) -> list[str]:
    """Return what a Job owns and is there at a time, as kind and name; events are not owned."""
    uids = {gang.uid} if gang.uid else set()
    left: dict[str, None] = {}
    for line in evidence.lines:
        owners = {str(ref.get("uid")) for ref in fields.items(line.object, "metadata", "ownerReferences")}
        if owners & uids and evidence.at(line.uid, t) is not None:
            left[f"{line.kind}/{line.name}"] = None
    return list(left)


@subjects.judge
def min_success_decides(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-006."""
    return job_cases.decide(
        evidence, given, ("enough", "too-few"), lambda gang: _decided(evidence, given, gang), DECIDES
    )


def _decided(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding | str:
    job = gang.job
    wanted = fields.number(job.last, "spec", "minSuccess") if job else None
    if job is None or not wanted:
        return f"{gang.title} has no minSuccess"
    stop = volcano_jobs.end_of_story(evidence)
    done = sorted(
        (pod.finished, pod.keys["finished"])
        for pod in gang.pods
        if pod.finished is not None and pod.phase == "Succeeded" and pod.finished <= stop
    )
    phase = next((name for t, name, _ in reversed(job.phases) if t <= stop), "")
    number = Number(f"members of {gang.name} that succeeded", len(done), "", wanted, "spec.minSuccess")
    keys = (
        *(key for _, key in done[:3]),
        *(key for _, name, key in job.phases if name in volcano_jobs.FINAL),
    )
    found = wording.Findings(DECIDES, gang, evidence=keys, numbers=(number,))

    told = f"{gang.title}: {wording.count(len(done), 'member')} succeeded, minSuccess {wanted}"
    asked = any(action == "CompleteJob" for _, action, _ in volcano_jobs.executed(evidence, job))
    if len(done) >= wanted:
        return _enough(evidence, given, gang, (done[wanted - 1][0], phase, told), found)
    seen = len({pod.slot for pod in gang.pods}) >= gang.size and not evidence.gaps("Pod", job.created, stop)
    if phase == "Completed" and not asked and seen:
        return found.fail(f"{told}, but it is Completed", IGNORED, violation=True)
    why = job_cases.expired(evidence, gang)
    over = [pod for pod in gang.pods if pod.finished is not None]
    if phase == "Failed":
        return found.passed(f"{told}: Failed")
    if len({pod.slot for pod in over}) >= max(gang.size, 1) and why:
        return found.fail(f"{told}; all ended and it is {phase} (waited for {why})", IGNORED)
    return f"{told}, and it is {phase or 'without a phase'}: not decided yet" + (
        f" (waited for {why})" if why else ""
    )


def _enough(
    evidence: Evidence, given: subjects.Given, gang: Gang, at: tuple[float, str, str], found: wording.Findings
) -> Finding:
    """Judge a Job of which enough members succeeded: `at` is when, the phase now, and how it is told."""
    t, phase, told = at
    assert gang.job is not None  # noqa: S101 (narrowed by the caller)
    stop = volcano_jobs.end_of_story(evidence)
    limit = job_cases.due(evidence, given, gang, t)
    completed = gang.job.phase_time("Completed")
    if completed is None:
        if phase in volcano_jobs.FINAL or stop >= limit:
            text = f"{told} at t={t:.2f} s, and it is {phase} {stop - t:.1f} s later"
            return found.fail(text, IGNORED)
        return found.inconclusive(f"{told}; the evidence ends before it had to be Completed")
    if completed > limit:
        text = f"{told} at t={t:.2f} s, and it was Completed only {completed - t:.1f} s later"
        return found.fail(text, IGNORED)
    if completed < t - RECEIPT - WHOLE_SECONDS * bool(subjects.of(evidence, given).grain):
        text = f"{told} at t={t:.2f} s, and it had been Completed {t - completed:.1f} s before"
        return found.fail(text, IGNORED, violation=True)
    alone = job_cases.left_alone(evidence, gang, stop)
    overdue = job_cases.overdue(evidence, gang, stop)
    slow = [
        p
        for p in gang.pods
        if not p.going(t) and p.finished is None and (volcano_jobs.left(p) or 0.0) > limit
    ]
    if overdue or slow or (alone and stop >= limit):
        left = overdue or tuple(slow) or alone
        text = f"{told}: Completed, but still running: {wording.listed([pod.name for pod in left], 4)}"
        return found.fail(text, IGNORED, violation=True, where=wording.places(left))
    if job_cases.living(evidence, gang, stop):
        return found.inconclusive(f"{told}: Completed; the evidence ends before the others had to be gone")
    if evidence.gaps("Pod", t, stop):
        return found.inconclusive(f"{told}: Completed; pods were not watched all the time")
    return found.passed(f"{told}: Completed at t={completed:.2f} s, the others ended")
