"""KUE-005: what Workloads say and what pods do agree."""

import math
from collections.abc import Iterator
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields, order
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import kueue, kueue_quota, kueue_workloads, volcano_jobs
from pytest_gpucluster.evidence.scheduling.kueue import SKEW, Held
from pytest_gpucluster.evidence.scheduling.kueue_workloads import Workload
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.kueue import shared, started
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "a Workload that is evicted gives its quota back once its pods are gone; pods hold places only while quota "
    "is held for them; neither all pods nor all Workloads together hold more than the quota"
)

GRACE = 5.0
"""Seconds for which Evicted and Admitted may both be True (recorded: 0.2 to 0.5 s)."""

KEPT = Cause(
    "the Workload is marked as evicted, but its quota is kept",
    "check whether the Job is suspended and its pods are gone; delete the Workload to free the quota, and update "
    "Kueue (kueue #14811)",
)
ORPHAN = Cause(
    "a Workload whose Job is gone still holds quota",
    "delete the Workload; update Kueue (kueue #10407)",
)
OUTSIDE = Cause(
    "pods hold places although no quota is held for them: nothing held their Job back, or it was not stopped",
    "check Kueue's webhooks and its log; until then the quota does not limit what runs",
)
TOO_MUCH = Cause(
    "more than the quota is admitted: usage is under-counted",
    "compare ClusterQueue.status.flavorsUsage with the requests of the pods; update Kueue (kueue #14609)",
)


@subjects.judge
def status_and_pods_agree(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge KUE-005."""
    unusable = shared.unusable(evidence, given, REQUIRED)
    if unusable is not None:
        return unusable
    limits = subjects.of(evidence, given)
    for finding in (
        *_outside(evidence, SKEW + limits.grain),
        *_overrun(evidence),
        *_overpromised(evidence),
        *_orphans(evidence, GRACE + limits.grain),
        *_kept(evidence, GRACE + limits.grain),
    ):
        return finding
    idle = started.kept(evidence, GRACE + limits.grain)
    if idle is not None:
        return started.finding_of_kept(evidence, idle, REQUIRED, GRACE)
    idle = started.never_started(evidence, given)
    if idle is not None:
        return started.finding_of_start(idle, REQUIRED)
    return _all_well(evidence)


def _all_well(evidence: Evidence) -> Finding:
    admitted = [job for job in shared.labelled(evidence) if job.reserved]
    if not admitted:
        return shared.nothing(evidence, REQUIRED, "Job for which quota was reserved")
    done = [
        (job, workload, told.t, held.end)
        for job in admitted
        for workload in job.workloads
        for told in workload.when("Evicted")
        if (held := workload.holding(told.t)) is not None and held.end < shared.story_end(evidence, job)
    ]
    if not done:
        names = wording.listed([job.gang.name for job in admitted], 4)
        text = f"{names}: quota and pods agree, but no eviction was seen to its end"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, admitted[0].gang)
    start, end = min(job.created for job in admitted), max(one[3] for one in done)
    unseen = shared.gap(evidence, start, end, "Pod", kueue_workloads.WORKLOAD)
    bare = next((job.gang.title for job, *_ in done if not job.gang.pods), "")
    if bare:
        unseen = unseen or f"no pod of {bare} was seen, so whether pods agree with the status is not known"
    if unseen:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, unseen, done[0][0].gang)
    job, workload, evicted, released = max(done, key=lambda one: one[3] - one[2])
    many = f"{wording.count(len(admitted), 'Job')} held quota, {wording.count(len(done), 'eviction')}"
    text = (
        f"{many}: {workload.name} was evicted at t={evicted:.2f} s and its quota was free {released - evicted:.2f} s "
        "later; no pod held a place without quota"
    )
    return wording.finding(
        Verdict.PASS, REQUIRED, text, job.gang, currency="quota", repeat=shared.repeat(job),
        evidence=(workload.key, *(one.key for one in workload.when("Evicted")[:2])),
        numbers=(Number("quota kept after eviction", released - evicted, "s", GRACE, "recorded: 0.2 to 0.5 s"),),
    )  # fmt: skip


def _kept(evidence: Evidence, grace: float) -> Iterator[Finding]:
    """Yield evictions after which the quota was kept."""
    for job in kueue.held(evidence):
        for workload in job.workloads:
            for told in workload.when("Evicted"):
                held = workload.holding(told.t)
                if held is None:
                    continue
                until = min(held.end, workload.end, evidence.end)
                expired = subjects.timed_out(evidence, told.t, until)
                if until - told.t <= grace and expired is None:
                    continue
                text = (
                    f"{workload.name} is Evicted ({told.reason}) since t={told.t:.2f} s and held its quota for "
                    f"{until - told.t:.1f} s more"
                )
                yield _fail(job, text, KEPT, (told.key, held.key), until - told.t)


def _orphans(evidence: Evidence, grace: float) -> Iterator[Finding]:
    """Yield Workloads that held quota after their Job was gone; what our own cleaning up takes away is left out."""
    stop = volcano_jobs.end_of_story(evidence)
    for job in kueue.held(evidence):
        if job.gone >= stop:
            continue
        for workload in job.workloads:
            held = workload.holding(job.gone)
            until = min(held.end, workload.end, stop) if held is not None else 0.0
            if held is not None and until - job.gone > grace:
                text = f"{workload.name} held quota for {until - job.gone:.1f} s after its Job was gone"
                yield _fail(job, text, ORPHAN, (held.key,), until - job.gone)


def _outside(evidence: Evidence, tolerance: float) -> Iterator[Finding]:
    """Yield Jobs of which pods held places while no quota was held for them."""
    for job in shared.labelled(evidence):
        worst = [
            (seconds, pod)
            for pod in job.gang.pods
            if (seconds := _alone(evidence, job, pod, shared.story_end(evidence, job))) > tolerance
            or _bound_without(job, pod, shared.story_end(evidence, job))
        ]
        if worst:
            seconds = max(one[0] for one in worst)
            pods = [pod for _, pod in worst]
            many = wording.count(len(pods), "pod")
            text = f"{many} of {job.gang.title} held places for up to {seconds:.1f} s without quota"
            keys = tuple(pod.keys["bound"] for pod in pods[:6])
            yield _fail(job, text, OUTSIDE, keys, seconds, where=wording.places(pods))


def _bound_without(job: Held, pod: PodStory, end: float) -> bool:
    """Report whether a pod was bound, or stayed, while no quota was held: however short, by the order of versions.

    One that had ended when it was first seen holds no place, and its Workload may be cleared away.
    """
    if pod.bound is None or pod.bound >= min(end, kueue_quota.leaves(pod)):
        return False
    if job.covered(pod.bound, job.versions.get(pod.keys["bound"])) is False:
        return True
    left = (
        min(
            (t, pod.keys[what])
            for what, t in (("finished", pod.finished), ("deleting", pod.deleting), ("deleted", pod.deleted))
            if t is not None
        )
        if kueue_quota.leaves(pod) < end
        else None
    )
    if left is None:
        return False
    released = [one for one in job.reserved if pod.bound < one.end < min(left[0], end)]
    gone = job.versions.get(left[1])
    return any(order.before(order.exact(one.ended_version, job.versions), gone) for one in released)


def _alone(evidence: Evidence, job: Held, pod: PodStory, end: float) -> float:
    """Return for how long a pod held a place while its Job held no quota; a watch of Workloads may be late."""
    if pod.bound is None:
        return 0.0
    begin, stop = pod.bound, min(kueue_quota.leaves(pod), end)
    longest = 0.0
    for one in sorted(job.reserved, key=lambda r: r.start):
        since = order.no_later(evidence, one.version, one.start)
        longest = max(longest, min(since, stop) - begin)
        begin = max(begin, one.end)
        if begin >= stop:
            break
    return max(longest, stop - begin)


def _overrun(evidence: Evidence) -> Iterator[Finding]:
    """Yield queues whose pods together asked for more than the quota."""
    by_queue: dict[str, list[Held]] = {}
    for job in (one for one in shared.labelled(evidence) if one.gang.pods):
        by_queue.setdefault(kueue_quota.cluster_queue_of(evidence, job), []).append(job)
    for name, mine in by_queue.items():
        pods = [pod for job in mine for pod in job.gang.pods]
        for t in kueue_quota.moments(pods):
            limit = kueue_quota.quota(evidence, name, t, most=True) if name else None
            # A watch of pods may be ahead of itself for a moment where one pod replaces another.
            using = [pod for pod in kueue_quota.uses(pods, t) if kueue_quota.leaves(pod) > t + SKEW]
            for resource, most in (limit.reach if limit else {}).items():
                used = sum((fields.requested(pod.last, resource) for pod in using), Fraction(0))
                if used > most:
                    text = f"pods of ClusterQueue {name} held {float(used):g} {resource} at t={t:.2f} s, its quota is "
                    number = Number(f"held of {resource}", float(used), resource, float(most), "quota")
                    yield wording.finding(
                        Verdict.FAIL, REQUIRED, f"{text}{float(most):g}", mine[-1].gang, violation=True,
                        where=wording.places(using), causes=(TOO_MUCH,), numbers=(number,), currency="quota",
                        evidence=tuple(pod.keys["bound"] for pod in using[-6:]), repeat=shared.repeat(mine[-1]),
                    )  # fmt: skip


def _overpromised(evidence: Evidence) -> Iterator[Finding]:
    """Yield queues whose Workloads together held more than the quota."""
    holders = [(job, w, one) for job in kueue.held(evidence) for w in job.workloads for one in w.reserved]
    for job, _, mine in holders:
        limit = kueue_quota.quota(evidence, mine.queue, mine.start, most=True)
        if limit is None:
            continue
        for resource, most in limit.reach.items():
            sharing = [
                (w, one)
                for _, w, one in holders
                if one.queue == mine.queue and one.start <= mine.start < min(one.end, w.end, _shrinks(w))
            ]
            used = sum((one.amounts.get(resource, Fraction(0)) for _, one in sharing), Fraction(0))
            if used > most:
                text = (
                    f"Workloads of ClusterQueue {mine.queue} hold {float(used):g} {resource} at t={mine.start:.2f} s, "
                    f"its quota is {float(most):g}: {wording.listed([w.name for w, _ in sharing], 4)}"
                )
                number = Number(f"reserved of {resource}", float(used), resource, float(most), "quota")
                yield _fail(job, text, TOO_MUCH, (mine.key,), None, numbers=(number,))


def _shrinks(workload: Workload) -> float:
    """Return when a Workload began to give quota back pod by pod, as those ended; infinite if never."""
    return workload.reclaims if workload.reclaims is not None else math.inf


def _fail(
    job: Held, text: str, cause: Cause, keys: tuple[str, ...], seconds: float | None, **more: object
) -> Finding:
    if seconds is not None:
        more["numbers"] = (Number("disagreed for", seconds, "s", GRACE, "recorded: 0.2 to 0.5 s"),)
    return wording.finding(
        Verdict.FAIL, REQUIRED, text, job.gang, violation=True, causes=(cause,), evidence=keys, currency="quota",
        repeat=shared.repeat(job), **more,
    )  # fmt: skip
