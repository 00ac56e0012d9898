"""Restarts of a whole Job: after a member was taken away (LIFE-003), and how many there may be (LIFE-004)."""

from collections import Counter
from collections.abc import Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import container_restarts, job_cases
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REPLACED = (
    "under PodEvicted -> RestartJob the loss of one member replaces every member, exactly once, and the Job then "
    "completes"
)
BOUNDED = (
    "a Job whose attempts fail is attempted maxRetry times in total, then is Failed with nothing left running"
)

IGNORED = Cause(
    "the controllers did not act on the loss of a member",
    "check that `policies: [{event: PodEvicted, action: RestartJob}]` is in the stored Job (`kubectl get "
    "vcjob -o yaml`), and look at the log of vc-controller-manager for this time",
)
AGAIN = Cause(
    "pods that the controller itself removed trigger the policy again",
    "upgrade Volcano to a version that marks its own deletions (v1.14: annotation "
    "volcano.sh/controller-out-of-sync)",
)
RUNS_ON = Cause(
    "the kubelet does not end the member: its node does not answer, or a finalizer or a stuck volume holds the pod",
    "look at the node (`kubectl describe node`) and at the pod's finalizers; two members with one rank "
    "corrupt the run",
)
FAILED_FIRST = Cause(
    "the process did not end with 0 on SIGTERM: the kubelet reports the pod Failed before it is gone, "
    "so the policy for PodFailed wins over the one for PodEvicted",
    "let the process end with 0 on SIGTERM (`trap 'exit 0' TERM`), or give PodFailed the same action",
)
BY_KUBELET = Cause(
    "the kubelet evicted the pod, because its node ran short or the pod went over a limit of its own: that ends the "
    "processes and leaves the pod object, Failed with reason Evicted, and Volcano treats this as PodFailed",
    "give PodFailed the same policy as PodEvicted, and read in status.message of the pod what it, or its node, "
    "ran short of",
)
NO_LIMIT = Cause(
    "the controllers do not count the attempts",
    "look at status.retryCount and spec.maxRetry of the Job, and at the version of vc-controller-manager",
)
LEAKED = Cause(
    "the Job controller stopped at the last attempt without deleting the pods that still ran",
    "delete the pods by hand to give their GPUs back, and upgrade Volcano",
)


@subjects.judge
def evicted_restarts_once(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-003."""
    return job_cases.decide(
        evidence, given, ("deleted", "evicted"), lambda gang: _evicted(evidence, given, gang), REPLACED
    )


def _evicted(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding | str:
    acting = [
        p
        for p in volcano_jobs.all_policies(gang)
        if p.matches(volcano_jobs.EVICTED, None) and p.action in volcano_jobs.RESTARTS
    ]
    if gang.job is None or not acting:
        return f"{gang.title} has no policy PodEvicted -> RestartJob"
    gone = [
        pod
        for pod in volcano_jobs.removals(evidence, gang)
        if (policy := volcano_jobs.policy_for(gang, pod.task, volcano_jobs.EVICTED))
        and policy.action in volcano_jobs.RESTARTS
    ]
    if not gone:
        return _never_gone(evidence, gang)
    first = gone[0]
    failure = volcano_jobs.failure_of(evidence, first)
    rival = (
        volcano_jobs.policy_for(gang, first.task, volcano_jobs.FAILED, failure.exit_code) if failure else None
    )
    if failure and rival and rival.action != "RestartJob":
        text = (
            f"{first.where} was deleted and ended with exit code {failure.exit_code}: it was Failed at "
            f"t={failure.t:.2f} s, before it was gone, so {rival.when} -> {rival.action} acted and PodEvicted was "
            "not tried"
        )
        return wording.finding(
            Verdict.INCONCLUSIVE, REPLACED, text, gang, causes=(FAILED_FIRST,), evidence=(failure.key,)
        )
    other = [p.action for p in acting if p.action != "RestartJob"]
    if other and not any(p.action == "RestartJob" for p in acting):
        return _partly(evidence, gang, gone, other[0])
    return _replaced(evidence, given, gang, gone)


def _never_gone(evidence: Evidence, gang: Gang) -> Finding | str:
    """Say why no removal of a member was seen: pods that the kubelet evicts stay, and are Failed."""
    evicted = [p for p in gang.pods if fields.text(p.last, "status", "reason") == "Evicted"]
    if evicted:
        text = (
            f"{evicted[0].where} was evicted by its kubelet and is Failed; no pod went away, so PodEvicted was not "
            "tried"
        )
        return wording.finding(
            Verdict.INCONCLUSIVE, REPLACED, text, gang, causes=(BY_KUBELET,), where=wording.places(evicted)
        )
    why = job_cases.expired(evidence, gang)
    return f"no member of {gang.title} was removed" + (f" (waited for {why})" if why else "")


def _partly(evidence: Evidence, gang: Gang, gone: Sequence[PodStory], action: str) -> Finding | str:
    """Judge a policy that restarts a part of the gang: it, too, may act but once for each loss."""
    retries = volcano_jobs.retry_count(gang.job) if gang.job else 0
    if retries > len(gone) and not volcano_jobs.first_failures(evidence, gang):
        path = volcano_jobs.retry_path(evidence, gang.job) if gang.job else ()
        lost = wording.count(len(gone), "loss", "losses")
        text = f"{gone[0].name} of {gang.title} went; retryCount is {retries} after {lost} ({action})"
        return wording.finding(
            Verdict.FAIL,
            REPLACED,
            text,
            gang,
            violation=True,
            causes=(AGAIN,),
            evidence=tuple(k for *_, k in path),
        )
    return f"the policy of {gang.title} for PodEvicted is {action}, not RestartJob"


def _replaced(evidence: Evidence, given: subjects.Given, gang: Gang, gone: Sequence[PodStory]) -> Finding:
    assert gang.job is not None  # noqa: S101 (narrowed by the caller)
    stop = volcano_jobs.end_of_story(evidence)
    first = gone[0]
    t = volcano_jobs.left(first) or 0.0
    vanished = first.deleted if first.deleted is not None else t
    others = [p for p in gang.pods if p.created <= t and p.uid != first.uid and not p.going(t)]
    fresh = [p for p in gang.pods if t < p.created <= stop]
    slots = sorted({p.slot for p in (first, *others)})
    # The controllers may make the lost member again before they act on its loss, and remove it with the others: what
    # went before it ran, and was made once more, is no second restart.
    missed = {p.slot for p in gone}
    early = {
        p.uid
        for p in fresh
        if p.slot in missed and p.running is None and p.deleting is not None
        and any(not other.going(p.created) for other in others)
    }  # fmt: skip
    again = Counter(p.slot for p in fresh if p.uid not in early)
    made = {slot: again[slot] for slot in slots}
    retries = volcano_jobs.retry_count(gang.job)
    start = f"{first.name} of {gang.title} went at t={t:.2f} s"
    keys = (*_keys((first,), "deleting", "deleted"), *_keys(fresh[:4], "created"))
    numbers = (Number(f"restarts of {gang.name}", retries, "", len(gone), "members that were removed"),)
    found = wording.Findings(REPLACED, gang, start=f"{start}; ", evidence=keys, numbers=numbers)

    many = [slot for slot in slots if made[slot] > len(gone)]
    if many or retries > len(gone):
        lost = wording.count(len(gone), "loss", "losses")
        text = f"members were made {max(made.values())} times and retryCount is {retries} after {lost}"
        return found.fail(f"{text}: {wording.listed(many or slots, 4)}", AGAIN, violation=True)
    limit = job_cases.due(evidence, given, gang, vanished)
    stayed = [p for p in others if (left := volcano_jobs.left(p)) is None or left > limit]
    if stayed and stop >= limit:
        text = f"{wording.listed([p.name for p in stayed], 4)} ran on"
        if made[first.slot]:
            text += f", and only {first.slot} was made again"
        return found.fail(text, IGNORED, violation=True, where=wording.places(stayed))
    if stayed:
        return found.inconclusive("the evidence ends before the others had to be replaced")
    outlived = job_cases.outlived(evidence, (first, *others), stop)
    if outlived:
        old, over = outlived[0]
        text = f"{old.where} ran on for {over:.0f} s beyond its grace period, beside what replaced it"
        return found.fail(text, RUNS_ON, violation=True, where=(old.where,))
    slow = [p for p in fresh if p.uid not in early and p.created > limit + p.grace + job_cases.GONE_SLACK]
    if slow and not volcano_jobs.first_failures(evidence, gang):
        text = f"{slow[0].name} was made again only {slow[0].created - t:.0f} s later"
        return found.fail(text, IGNORED)
    gaps = evidence.gaps("Pod", t, max([p.created for p in fresh], default=t))
    if gaps:
        text = f"pods were not watched from t={gaps[0][0]:.2f} s to {gaps[0][1]:.2f} s"
        return found.inconclusive(text)
    return _completed_after(evidence, gang, made, found)


def _completed_after(
    evidence: Evidence, gang: Gang, made: dict[str, int], found: wording.Findings
) -> Finding:
    assert gang.job is not None  # noqa: S101 (narrowed by the caller)
    missing = [slot for slot, count in made.items() if not count]
    retries = volcano_jobs.retry_count(gang.job)
    why = job_cases.expired(evidence, gang)
    phase = _phase_at(gang, volcano_jobs.end_of_story(evidence))
    if missing:
        text = f"{wording.listed(missing, 4)} was not made again; the Job is {phase}"
        verdict = Verdict.FAIL if why or phase in volcano_jobs.FINAL else Verdict.INCONCLUSIVE
        return found.of(verdict, text + (f" (waited for {why})" if why else ""), IGNORED)
    text = f"all {len(made)} members were replaced once, retryCount {retries}"
    done = gang.job.phase_time("Completed")
    if why and done is not None and (job_cases.given_up(evidence, gang, 0.0) or 0.0) < done:
        return found.fail(f"{text}; Completed only after the wait for {why}", IGNORED)
    if phase == "Completed" and retries == 1:
        return found.passed(f"{text}; Job Completed at t={gang.job.phase_time('Completed') or 0.0:.2f} s")
    if phase in volcano_jobs.FINAL or why:
        return found.fail(f"{text}; the Job is {phase}" + (f" (waited for {why})" if why else ""), IGNORED)
    return found.inconclusive(f"{text}; the Job was not seen Completed, it is {phase}")


def _phase_at(gang: Gang, t: float) -> str:
    phases = gang.job.phases if gang.job is not None else ()
    return next((name for when, name, _ in reversed(phases) if when <= t), "without a phase")


def _keys(pods: Sequence[PodStory], *whats: str) -> tuple[str, ...]:
    return tuple(pod.keys[what] for pod in pods for what in whats if what in pod.keys)


@subjects.judge
def attempts_bounded(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-004."""
    return job_cases.decide(
        evidence, given, ("max-retry",), lambda gang: _bounded(evidence, given, gang), BOUNDED
    )


def _bounded(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding | str:
    job = gang.job
    if job is None:
        return f"the Job of {gang.title} is not in the evidence"
    limit, retries = volcano_jobs.max_retry(job), volcano_jobs.retry_count(job)
    restarting = [p for p in volcano_jobs.all_policies(gang) if p.action in volcano_jobs.RESTARTS]
    if not retries or not restarting:
        return (
            container_restarts.instead(evidence, gang, BOUNDED)
            or f"no attempt of {gang.title} led to a restart"
        )
    taken = volcano_jobs.removals(evidence, gang)
    made = max(volcano_jobs.attempts(gang), min(retries, limit), _by_pods(gang, taken))
    gone = {volcano_jobs.attempt_of(gang, pod) for pod in taken}
    failures = volcano_jobs.first_failures(evidence, gang)
    if not failures and gone:
        return f"{gang.title} was restarted because members were removed, not because they failed"
    keys = (
        *(key for _, _, key in volcano_jobs.retry_path(evidence, job)),
        *(one.key for one in failures[:4]),
    )
    number = Number(f"attempts of {gang.name}", made, "", limit, "spec.maxRetry")
    start = f"{gang.title}: {made} of {limit} attempts, retryCount {retries}; "
    found = wording.Findings(BOUNDED, gang, start=start, evidence=keys, numbers=(number,))

    if made > limit or retries > limit:
        return found.fail("more than maxRetry allows", NO_LIMIT, violation=True)
    stop = volcano_jobs.end_of_story(evidence)
    phase, why = _phase_at(gang, stop), job_cases.expired(evidence, gang)
    if phase != "Failed":
        if why and made == limit:
            return found.fail(f"the Job is {phase} (waited for {why})", NO_LIMIT)
        return found.inconclusive(f"the Job is {phase}, not all attempts are used up")
    if retries < limit:
        return found.fail("Failed before its attempts were used up", NO_LIMIT)
    return _quiet(evidence, given, gang, found)


def _by_pods(gang: Gang, taken: Sequence[PodStory]) -> int:
    """Return how often the member that ran most often ran: an attempt is what ran, whatever the controllers count.

    What somebody took away, and was made again for that, was no attempt.
    """
    lost = Counter(pod.slot for pod in taken)
    ran = Counter(pod.slot for pod in gang.pods if pod.running is not None or pod.exit_codes)
    return max((count - lost[slot] for slot, count in ran.items()), default=0)


def _quiet(evidence: Evidence, given: subjects.Given, gang: Gang, found: wording.Findings) -> Finding:
    """Judge whether anything of a Failed Job is left running."""
    stop = volcano_jobs.end_of_story(evidence)
    failed = next((t for t, name, _ in gang.job.phases if name == "Failed"), stop) if gang.job else stop
    limit = job_cases.due(evidence, given, gang, failed)
    alone = job_cases.left_alone(evidence, gang, stop) or job_cases.lingering(evidence, gang, failed, limit)
    overdue = job_cases.overdue(evidence, gang, stop)
    if overdue or (alone and stop >= limit):
        left = overdue or alone
        holds = job_cases.held(left)
        who = wording.listed([f"{pod.name} on {pod.node}" for pod in left], 4)
        text = f"Failed, but {who} still there {stop - failed:.0f} s later"
        text += f" and holds {holds}" if holds else ""
        return found.fail(text, LEAKED, violation=True, where=wording.places(left))
    if job_cases.living(evidence, gang, stop):
        return found.inconclusive("Failed; the evidence ends before all pods had to be gone")
    start = min((pod.created for pod in gang.pods), default=failed)
    gaps = evidence.gaps("Pod", start, stop)
    if gaps:
        text = f"Failed; pods were not watched from t={gaps[0][0]:.2f} s to {gaps[0][1]:.2f} s"
        return found.inconclusive(text)
    return found.passed(f"Failed at t={failed:.2f} s, nothing left running")
