"""KUE-003: two gangs that fit the quota singly and not together take turns."""

import math
from collections.abc import Mapping
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import kueue_quota
from pytest_gpucluster.evidence.scheduling.kueue import Held
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.kueue import shared
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "if two Jobs of two teams fit the quota singly but not together, one runs whole while no pod of the other "
    "exists, and the other runs whole after the first has ended"
)
BOTH = Cause(
    "quota was given twice: to both Jobs at once",
    "check that both LocalQueues lead to the intended quota (ClusterQueue, cohort, borrowingLimit), and update "
    "Kueue: versions before 0.9 admitted two preemptors for one victim",
)
NOT_RELEASED = Cause(
    "the quota of the ended Job was not given to the waiting one",
    "check that the finished Job's Workload is Finished, and look at ClusterQueue.status.flavorsReservation",
)


@subjects.judge
def take_turns(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge KUE-003."""
    unusable = shared.unusable(evidence, given, REQUIRED)
    if unusable is not None:
        return unusable
    named = shared.named(evidence, given, "left", "right")
    pairs = _pairs(evidence, named if named is not None else shared.labelled(evidence))
    if not pairs:
        jobs = named or ()
        text = "no two Jobs share a quota with room for only one of them"
        if len(jobs) == 2:
            text = f"the quota has room for {jobs[0].gang.name} and {jobs[1].gang.name} together, or was not seen"
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text if jobs else subjects.nothing(evidence, text[3:])
        )
    return wording.gravest([_judge(evidence, given, *pair, arranged=named is not None) for pair in pairs])


def _pairs(evidence: Evidence, jobs: tuple[Held, ...]) -> list[tuple[Held, Held]]:
    """Return the pairs of Jobs of one ClusterQueue that fit singly and not together, and were there together."""
    found = []
    for n, one in enumerate(jobs):
        for other in jobs[n + 1 :]:
            name = kueue_quota.cluster_queue_of(evidence, one)
            if (
                not name
                or name != kueue_quota.cluster_queue_of(evidence, other)
                or not _at_a_time(one, other)
            ):
                continue
            limit = kueue_quota.quota(evidence, name, most=True)
            if limit is None or limit.short(one.asks) or limit.short(other.asks):
                continue
            if limit.short(_sum(one.asks, other.asks)):
                found.append((one, other))
    return found


def _sum(one: Mapping[str, Fraction], other: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {r: one.get(r, Fraction(0)) + other.get(r, Fraction(0)) for r in {*one, *other}}


def _at_a_time(one: Held, other: Held) -> bool:
    """Report whether both wanted quota at the same time."""
    return one.created < _over(other) and other.created < _over(one)


def _over(job: Held) -> float:
    return min(job.gone, job.finished if job.finished is not None else math.inf)


def _judge(evidence: Evidence, given: subjects.Given, one: Held, other: Held, *, arranged: bool) -> Finding:
    limits = subjects.of(evidence, given)
    found = kueue_quota.quota(evidence, kueue_quota.cluster_queue_of(evidence, one), most=True)
    overlap = _overlap(one, other, found.reach if found else {}, evidence.end)
    if overlap is not None and overlap[1] - overlap[0] > limits.grain + subjects.EPSILON:
        return _overlapped(one, other, overlap)
    start = min(one.created, other.created)
    unseen = shared.gap(evidence, start, min(evidence.end, max(_over(one), _over(other))), "Pod")
    ran = sorted(
        ((t, job) for job in (one, other) if (t := _whole(job)) is not None), key=lambda found: found[0]
    )
    if len(ran) < 2:
        return _not_both(evidence, one, other, [job for _, job in ran], arranged=arranged)
    (_, first), (start, second) = ran
    if not (first.workloads and second.workloads):
        unseen = (
            unseen
            or f"no Workload of {first.gang.name} or {second.gang.name} was seen: what held them is not known"
        )
    if unseen:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, unseen, first.gang)
    waited = [one for workload in second.workloads for one in workload.refusals if one.t < start]
    keys = tuple(job.reserved[0].key if job.reserved else job.suspended[0][2] for job in (first, second))
    ended = max((kueue_quota.leaves(pod) for pod in first.gang.pods), default=math.inf)
    text = (
        f"{first.gang.name} ran whole and its last pod ended at t={ended:.2f} s; {second.gang.name} waited without a "
        f"pod and ran whole from t={start:.2f} s"
    )
    if waited:
        text += f" ({wording.short(waited[-1].message)})"
    within = subjects.placed_within(given, "enqueue", "bind", "start")
    if start - ended > within:
        late = f"{text}: {start - ended:.0f} s after the quota was free"
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            late,
            second.gang,
            causes=(NOT_RELEASED,),
            currency="quota",
            evidence=keys,
            repeat=shared.repeat(second),
        )
    handover = Number(
        "handed over in", start - ended, "s", origin="last pod of the first to all of the second"
    )
    return wording.finding(
        Verdict.PASS, REQUIRED, text, second.gang, numbers=(handover,), currency="quota",
        repeat=shared.repeat(second), evidence=keys,
        where=wording.places((*first.gang.pods, *second.gang.pods)),
    )  # fmt: skip


def _whole(job: Held) -> float | None:
    """Return since when a Job ran whole: all pods seen Running at once, or all bound and the Job Complete then."""
    span = shared.together(job)
    if span is not None:
        return span[0]
    complete = job.gang.job is not None and job.gang.job.phase == "Complete"
    return job.gang.whole if complete else None


def _overlap(one: Held, other: Held, limit: Mapping[str, Fraction], end: float) -> tuple[float, float] | None:
    """Return the longest span in which both had pods and should not have; None without one.

    A Job of which some pods have ended gives their quota back, so that the rest of it may run beside another Job:
    both must then be whole, ended pods counted, and together within the quota.
    """
    edges = {
        t for job in (one, other) for pod in job.gang.pods for t in (pod.created, kueue_quota.leaves(pod))
    }
    longest: tuple[float, float] | None = None
    begin: float | None = None
    for t in [*sorted(t for t in edges if t < end), end]:
        wrong = t < end and _wrong(one, other, limit, t)
        if wrong and begin is None:
            begin = t
        elif not wrong and begin is not None:
            if longest is None or t - begin > longest[1] - longest[0]:
                longest = (begin, t)
            begin = None
    return longest


def _wrong(one: Held, other: Held, limit: Mapping[str, Fraction], t: float) -> bool:
    mine, others = kueue_quota.there(one.gang.pods, t), kueue_quota.there(other.gang.pods, t)
    if not mine or not others:
        return False
    if any(_places(job, t) < job.gang.size for job in (one, other)):
        return True
    return any(
        sum((fields.requested(pod.last, resource) for pod in (*mine, *others)), Fraction(0)) > most
        for resource, most in limit.items()
    )


def _places(job: Held, t: float) -> int:
    """Return how many places of a Job have a pod at a time, or had one that ended well."""
    there = {pod.slot for pod in kueue_quota.there(job.gang.pods, t)}
    ended = {
        pod.slot
        for pod in job.gang.pods
        if pod.finished is not None and pod.finished <= t and pod.phase == "Succeeded"
    }
    return len(there | ended)


def _overlapped(one: Held, other: Held, overlap: tuple[float, float]) -> Finding:
    middle = (overlap[0] + overlap[1]) / 2
    counts = [
        f"{job.gang.name} {len(kueue_quota.there(job.gang.pods, middle))}, "
        f"{len(kueue_quota.uses(job.gang.pods, middle))} bound"
        for job in (one, other)
    ]
    pods = [pod for job in (one, other) for pod in kueue_quota.there(job.gang.pods, middle)]
    return wording.finding(
        Verdict.FAIL,
        REQUIRED,
        f"pods of both existed for {overlap[1] - overlap[0]:.1f} s from t={overlap[0]:.2f} s: {'; '.join(counts)}",
        one.gang,
        violation=True,
        where=wording.places(pods),
        causes=(BOTH, shared.NO_WEBHOOK),
        evidence=tuple(pod.keys["created"] for pod in pods[:8]),
        repeat=(*shared.repeat(one), *shared.repeat(other)),
        currency="quota",
    )


def _not_both(evidence: Evidence, one: Held, other: Held, ran: list[Held], *, arranged: bool) -> Finding:
    idle = next(job for job in (other, one) if job not in ran)
    expired = subjects.timed_out(evidence, min(one.created, other.created)) if arranged else None
    text = (
        f"{wording.listed([job.gang.name for job in ran]) or 'neither Job'} ran whole; {idle.gang.name} did not: "
        f"{shared.refusals(idle)}"
    )
    verdict = Verdict.INCONCLUSIVE if expired is None else Verdict.FAIL
    if expired is not None:
        text += f"; waited for {expired[0]}"
    return wording.finding(
        verdict, REQUIRED, text, idle.gang, causes=shared.silence(idle) or (NOT_RELEASED,),
        repeat=shared.repeat(idle), currency="quota", evidence=(expired[1],) if expired else (),
    )  # fmt: skip
