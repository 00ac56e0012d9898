"""KUE-004: waitForPodsReady takes a gang that cannot become ready off the quota, and queues it again."""

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.scheduling import kueue_quota, kueue_workloads
from pytest_gpucluster.evidence.scheduling.kueue import Held
from pytest_gpucluster.evidence.scheduling.kueue_workloads import Workload
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.kueue import shared, started
from pytest_gpucluster.judge.lifecycle import job_cases
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "if not all pods of an admitted gang become ready, it is evicted within the timeout of waitForPodsReady: its "
    "pods go, its quota is free, and it is queued again"
)

RECONCILE = 5.0
"""Seconds that Kueue may take beyond the timeout (recorded: 0.5 s less than it, by arithmetic in whole seconds)."""

TIMEOUT = "PodsReadyTimeout"

WAIT = "wait_for_pods_ready"
"""Key of the profile's part on Kueue: the declared timeout in seconds."""

NOT_CONFIGURED = Cause(
    "Kueue's configuration has no waitForPodsReady, or a longer timeout than the profile declares",
    "set waitForPodsReady.timeout in kueue-manager-config (key controller_manager_config.yaml) and restart the "
    "manager; or correct kueue.wait_for_pods_ready in the profile",
)
KEPT = Cause(
    "the Workload is marked as evicted, but the eviction was not carried out",
    "look at the Job (is it suspended?) and at its Workload's conditions; update Kueue (kueue #14811)",
)
DEACTIVATED = Cause(
    "requeuingStrategy.backoffLimitCount is used up or 0: the Workload is deactivated instead",
    "raise backoffLimitCount in waitForPodsReady.requeuingStrategy of kueue-manager-config",
)


@subjects.judge
def evicts_what_is_not_ready(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge KUE-004."""
    unusable = shared.unusable(evidence, given, REQUIRED)
    if unusable is not None:
        return unusable
    idle = started.kept(evidence, RECONCILE + subjects.of(evidence, given).grain)
    if idle is not None and any(one.reason == TIMEOUT for one in idle.workload.when("Evicted")):
        return started.finding_of_kept(evidence, idle, REQUIRED, RECONCILE)
    limit = subjects.seconds(given, WAIT) or subjects.seconds(fields.sub(given, "kueue"), WAIT)
    named = shared.named(evidence, given, "subject")
    watched = any(
        one.type.startswith("PodsReady=") for w in kueue_workloads.workloads(evidence) for one in w.said
    )
    if limit is None and not watched:
        text = "waitForPodsReady is not declared (kueue.wait_for_pods_ready), and no Workload has a condition PodsReady"
        verdict = (
            Verdict.NOT_APPLICABLE
            if kueue_workloads.workloads(evidence) or named is not None
            else Verdict.INCONCLUSIVE
        )
        return wording.finding(verdict, REQUIRED, text)
    jobs = named if named is not None else shared.labelled(evidence)
    stuck = [job for job in jobs if job.reserved and job.gang.pods and shared.together(job) is None]
    if not stuck:
        return shared.nothing(evidence, REQUIRED, "admitted Job with pods that never became ready")
    findings = [_judge(evidence, given, job, limit) for job in stuck]
    return wording.gravest(findings)


def _judge(evidence: Evidence, given: subjects.Given, job: Held, limit: float | None) -> Finding:
    admitted = job.reserved[0].start
    evicted = [(w, one) for w in job.workloads for one in w.when("Evicted", reason=TIMEOUT)]
    grain = subjects.of(evidence, given).grain
    if not evicted:
        return _not_evicted(evidence, job, admitted, limit, grain)
    workload, first = evicted[0]
    after = first.t - admitted
    number = Number("evicted after", after, "s", limit, "kueue.wait_for_pods_ready" if limit else "")
    if limit is not None and after > limit + RECONCILE + grain:
        text = f"{job.gang.title} was evicted {after:.1f} s after its admission, the timeout is {limit:g} s"
        return _finding(Verdict.FAIL, text, job, first, causes=(NOT_CONFIGURED,), numbers=(number,))
    return _carried_out(evidence, given, job, (workload, first), number)


def _carried_out(
    evidence: Evidence, given: subjects.Given, job: Held, at: tuple[Workload, Said], number: Number
) -> Finding:
    """Judge what followed an eviction: no pods, no quota, back in the queue; `at` is whose, and when it was said."""
    workload, first = at
    expired = subjects.timed_out(evidence, first.t)
    missing = Verdict.INCONCLUSIVE if expired is None else Verdict.FAIL
    held, stop = workload.holding(first.t), shared.story_end(evidence, job)
    released = first.t if held is None else min(held.end, workload.end)
    pods = [pod for pod in job.gang.pods if pod.created <= first.t]
    stay = [pod for pod in pods if kueue_quota.leaves(pod) >= stop]
    if released >= stop or stay:
        kept = f"its quota is kept {stop - first.t:.1f} s later" if released >= stop else ""
        left = f"{wording.count(len(stay), 'pod')} of it remain" if stay else ""
        text = f"{job.gang.title} was evicted at t={first.t:.2f} s, but {' and '.join(p for p in (kept, left) if p)}"
        return _finding(missing, text, job, first, causes=(KEPT,), numbers=(number,))
    grace = max((pod.grace for pod in pods), default=0.0)
    gone = max([released, *(kueue_quota.leaves(pod) for pod in pods)])
    if gone - first.t > job_cases.act_within(given) + grace + job_cases.GONE_SLACK:
        text = f"{job.gang.title} was evicted at t={first.t:.2f} s, and kept quota or pods for {gone - first.t:.0f} s"
        return _finding(Verdict.FAIL, text, job, first, causes=(KEPT,), numbers=(number,))
    again = next((one.start for one in job.reserved if one.start > first.t), None)
    requeued = [one for one in workload.when("Requeued", "True") if one.t > first.t]
    waits = workload.requeues > 0 and bool(workload.when("Requeued", "False", TIMEOUT))
    if again is None and not requeued and not waits:
        text = f"{job.gang.title} was evicted at t={first.t:.2f} s and not queued again"
        gave_up = workload.when("Evicted", reason="Deactivated") or _inactive(workload)
        causes = (DEACTIVATED,) if gave_up else (KEPT,)
        return _finding(
            Verdict.FAIL if gave_up else missing, text, job, first, causes=causes, numbers=(number,)
        )
    most = max(gen.most_held for gen in job.gang.generations)
    how = "waits for its backoff"
    if again is not None:
        how = f"was admitted again at t={again:.2f} s"
    elif requeued:
        how = f"is queued again since t={requeued[0].t:.2f} s"
    text = (
        f"{job.gang.title} ({wording.part(most, job.gang.size)} pods bound) was evicted {number.value:.1f} s after its "
        f"admission; its quota was free {released - first.t:.2f} s later; it {how}"
    )
    return _finding(Verdict.PASS, text, job, first, numbers=(number,))


def _inactive(workload: Workload) -> bool:
    """Report whether a Workload was deactivated."""
    return fields.sub(workload.last, "spec").get("active") is False


def _not_evicted(
    evidence: Evidence, job: Held, admitted: float, limit: float | None, grain: float
) -> Finding:
    watched = min(job.gone, evidence.end) - admitted
    text = f"{job.gang.title} was admitted at t={admitted:.2f} s, its pods never ran together, and it was not evicted"
    late = limit is not None and watched > limit + RECONCILE + grain
    if late or (limit is not None and subjects.timed_out(evidence, admitted + limit) is not None):
        text += f" in {watched:.1f} s; the timeout is {limit:g} s"
        return _finding(Verdict.FAIL, text, job, None, causes=(NOT_CONFIGURED, shared.MANAGER_DOWN))
    text += f", but it was watched for {watched:.1f} s only"
    return _finding(Verdict.INCONCLUSIVE, text, job, None)


def _finding(
    verdict: Verdict, text: str, job: Held, said: Said | None, *,
    causes: tuple[Cause, ...] = (), numbers: tuple[Number, ...] = (),
) -> Finding:  # fmt: skip
    keys = (job.reserved[0].key, *((said.key,) if said else ()))
    return wording.finding(
        verdict, REQUIRED, text, job.gang, causes=causes, numbers=numbers, evidence=keys,
        repeat=shared.repeat(job), currency="quota",
    )  # fmt: skip
