"""KUE-002: what is above the quota stays suspended, and no pod of it ever exists."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.scheduling import kueue_quota, kueue_workloads
from pytest_gpucluster.evidence.scheduling.kueue import Held
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.kueue import shared
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number, Refusal, Verdict

REQUIRED = (
    "a Job that asks for more than its queue can ever give stays suspended for the window and never has a pod, "
    "and its Workload names the resource that is short"
)
OVERRUN = Cause(
    "the queue admits more than its quota",
    "check which ClusterQueue and cohort the LocalQueue leads to, and borrowingLimit: without a limit it may "
    "borrow up to the whole cohort",
)


@subjects.judge
def over_quota_held(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge KUE-002."""
    unusable = shared.unusable(evidence, given, REQUIRED)
    if unusable is not None:
        return unusable
    named = shared.named(evidence, given, "over-quota")
    jobs = named if named is not None else shared.labelled(evidence)
    large = [(job, short) for job in jobs if (short := shared.over(evidence, job))]
    if not large:
        if jobs and named is not None:
            text = f"{jobs[0].gang.title} fits its queue's quota, or the queue was not seen"
            return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, jobs[0].gang)
        return shared.nothing(evidence, REQUIRED, "Job above its queue's quota")
    return wording.gravest([_judge(evidence, given, job, short) for job, short in large])


def _judge(evidence: Evidence, given: subjects.Given, job: Held, short: list[str]) -> Finding:
    violation = _violated(job, short)
    if violation is not None:
        return violation
    end = min(job.gone, evidence.end)
    said = [one for workload in job.workloads for one in workload.refusals]
    attributed = [one for one in said if any(resource in one.message for resource in short)]
    if not attributed:
        return _unattributed(evidence, job, short, said)
    limits = subjects.of(evidence, given)
    since = attributed[0].t
    watched = shared.gap(evidence, job.created, end, "Pod", names.BATCH_JOB)
    if watched or end - since < limits.window - limits.grain:
        why = (
            watched
            or f"it was watched for {end - since:.1f} s, less than the window of {limits.window:.2f} s"
        )
        text = f"{job.gang.title} was held ({wording.short(attributed[-1].message)}), but {why}"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, job.gang, repeat=shared.repeat(job))
    last = attributed[-1]
    text = (
        f"{job.gang.title} stayed suspended for {end - job.created:.1f} s and had no pod; {last.reason}: "
        f"{wording.short(last.message)}"
    )
    return wording.finding(
        Verdict.PASS, REQUIRED, text, job.gang, currency="quota", refusal=_refusal(evidence, job, last),
        repeat=shared.repeat(job), evidence=(job.suspended[0][2], last.key),
        numbers=(Number("pods", 0, "pods", 0, "catalogue"), *_numbers(evidence, job, short)),
    )  # fmt: skip


def _numbers(evidence: Evidence, job: Held, short: list[str]) -> tuple[Number, ...]:
    name = kueue_quota.cluster_queue_of(evidence, job)
    found = kueue_quota.quota(evidence, name, job.gone, most=True)
    reach = {} if found is None else found.reach
    return tuple(
        Number(
            "asked for", float(job.asks[one]), one, float(reach.get(one, 0)), f"quota of ClusterQueue {name}"
        )
        for one in short
    )


def _violated(job: Held, short: list[str]) -> Finding | None:
    """Return the violation: admitted, seen unsuspended, or pods that exist."""
    pods, loose, reserved = job.gang.pods, job.loose, job.reserved
    if not pods and loose is None and not reserved:
        return None
    parts, keys = [], []
    if reserved:
        parts.append(f"{reserved[0].queue} reserved quota for it at t={reserved[0].start:.2f} s")
        keys.append(reserved[0].key)
    if loose is not None:
        parts.append(f"it was seen with suspend false at t={loose[0]:.2f} s")
        keys.append(loose[2])
    if pods:
        ran = [pod for pod in pods if pod.running is not None]
        first, last = min(pod.created for pod in pods), max(kueue_quota.leaves(pod) for pod in pods)
        until = f"until t={last:.2f} s" if last < float("inf") else "to the end"
        parts.append(
            f"{wording.count(len(pods), 'pod')} of it existed from t={first:.2f} s {until}, {len(ran)} of them ran"
        )
        keys += [pod.keys.get("running") or pod.keys["created"] for pod in (ran or pods)[:6]]
    causes = (OVERRUN,) if reserved else (shared.NO_WEBHOOK, shared.NOT_MANAGED)
    return wording.finding(
        Verdict.FAIL,
        REQUIRED,
        f"{job.gang.title} asks for more {wording.listed(short, 3)} than its queue can give, yet {'; '.join(parts)}",
        job.gang,
        violation=True,
        causes=causes,
        evidence=tuple(keys),
        repeat=shared.repeat(job),
        currency="quota",
        numbers=(Number("pods", len(pods), "pods", 0, "catalogue"),),
    )


def _unattributed(evidence: Evidence, job: Held, short: list[str], said: list[Said]) -> Finding:
    """Return what it means that no reason names the resource: another reason, or none at all."""
    expired = subjects.timed_out(evidence, job.created)
    text = f"{job.gang.title} was held, but nothing names {wording.listed(short, 3)}: {shared.refusals(job)}"
    verdict = Verdict.FAIL if not said and expired is not None else Verdict.INCONCLUSIVE
    return wording.finding(
        verdict, REQUIRED, text, job.gang, causes=shared.silence(job), repeat=shared.repeat(job),
        evidence=tuple(one.key for one in said[-2:]), currency="quota",
    )  # fmt: skip


def _refusal(evidence: Evidence, job: Held, said: Said) -> Refusal:
    """Return who refused: by the event that says the same, else by the Workload's condition."""
    events = [
        one
        for w in job.workloads
        for one in kueue_workloads.events_about(evidence, w)
        if one.message == said.message
    ]
    reporter = events[0].reporter if events else said.reporter
    return Refusal("kueue", reporter, said.obj, said.reason, "enqueue", said.message)
