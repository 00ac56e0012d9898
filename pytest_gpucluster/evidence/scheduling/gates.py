"""Which gate held a gang back, from what the schedulers said about it while it was held."""

import dataclasses
import math

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.scheduling import gangs, kueue, kueue_workloads, schedulers


@dataclasses.dataclass(frozen=True)
class Held:
    """A span in which a gang was held at the gate that holds gangs whole, with nothing bound.

    Attributes:
        start: when the last needed member was made; at the quota gate, where there are none, when it first refused.
        said: the first reason that the placing scheduler gave in the span, None if it gave none.
        reasons: all reasons it gave in the span.
        end: the first bind, or the end of the attempt or evidence.
        bound_after: the span ended with a bind.
        would_fit: keys of the conditions that say that a member would have had a place.
    """

    start: float
    end: float
    bound_after: bool
    reasons: tuple[Said, ...]
    would_fit: tuple[str, ...]
    gate: str = schedulers.PLACEMENT

    @property
    def said(self) -> Said | None:
        """Return the first reason given in the span."""
        return self.reasons[0] if self.reasons else None

    @property
    def seconds(self) -> float:
        """Return how long the gang was held after the scheduler first said so, 0 if it never did."""
        return self.end - self.reasons[0].t if self.reasons else 0.0


@dataclasses.dataclass(frozen=True)
class Reading:
    """What the gates did to one attempt of a gang.

    Attributes:
        scheduler: how the placing scheduler is read.
        enqueue: refusals at enqueue, in order: no pod existed.
        held: the span at the placement gate, None where members were never all made and unbound; of a Job behind Kueue
            the span at the quota gate, None where quota was never refused.
        unseen: seconds for which a PodGroup existed without any phase; None where a phase came or there is no group.
    """

    scheduler: schedulers.Scheduler
    enqueue: tuple[Said, ...]
    held: Held | None
    unseen: float | None

    @property
    def refusals(self) -> tuple[Said, ...]:
        """Return every refusal, in order."""
        return tuple(sorted((*self.enqueue, *(self.held.reasons if self.held else ())), key=lambda s: s.t))


def read(evidence: Evidence, gang: gangs.Gang, gen: gangs.Generation) -> Reading:
    """Read the gates for one attempt of a gang."""
    group = gen.group
    job = kueue.job_of(evidence, gang)
    if job is not None and job.queue:
        return Reading(schedulers.KUEUE, (), _refused_quota(job, gen, min(gen.end, evidence.end)), None)
    placing = schedulers.placing(
        gang.scheduler,
        native_gang=bool(group and group.native and group.minimum),
        volcano_group=bool(group and not group.native),
    )
    stop = min(gen.end, evidence.end)
    enqueue = _enqueue(evidence, gang, gen) if group and not group.native else ()
    unseen = None
    if group and not group.native and not group.phases:
        unseen = min(stop, group.deleted if group.deleted is not None else math.inf) - group.created
    return Reading(placing, enqueue, _held(gen, placing, stop), unseen)


def _enqueue(evidence: Evidence, gang: gangs.Gang, gen: gangs.Generation) -> tuple[Said, ...]:
    """Return the refusals at enqueue: they come from Volcano, whatever schedulerName the pods will carry."""
    group = gen.group
    if group is None:
        return ()
    first_pod = min((pod.created for pod in gen.members), default=math.inf)
    reporters = {"volcano", gang.scheduler} - {schedulers.DEFAULT_NAME}
    return tuple(
        said
        for said in owners.said_about(evidence, "PodGroup", group.namespace, group.name, group.uid)
        if gen.start <= said.t < min(gen.end, first_pod)
        and said.reporter in reporters
        and schedulers.VOLCANO.refuses(schedulers.ENQUEUE, "event", "PodGroup", said)
    )


def _refused_quota(job: kueue.Held, gen: gangs.Generation, stop: float) -> Held | None:
    """Return the span in which a Job behind Kueue was suspended, without a pod, because quota was refused."""
    bound = gen.first_bind
    first = min((pod.created for pod in gen.members), default=math.inf)
    # The watches of Jobs and Workloads are not in step: the refusal may be seen before the Job is.
    begin = -math.inf if gen.number == 1 else gen.start
    reasons = [
        said
        for workload in job.workloads
        for said in workload.refusals
        if begin <= said.t < min(first, stop)
        and schedulers.KUEUE.refuses(schedulers.QUOTA, "condition", kueue_workloads.WORKLOAD, said)
    ]
    if not reasons:
        return None
    let_go = [one.start for one in job.reserved if one.start > reasons[0].t]
    end = min([stop, first, job.gone, *let_go])
    reasons = [said for said in reasons if said.t <= end]
    return Held(reasons[0].t, end, bound is not None and bound >= end, tuple(reasons), (), schedulers.QUOTA)


def _held(gen: gangs.Generation, placing: schedulers.Scheduler, stop: float) -> Held | None:
    if gen.made is None:
        return None
    bound = gen.first_bind
    if bound is not None and bound <= gen.made:
        return None
    gone = [t for pod in gen.members for t in (pod.deleting, pod.deleted) if t is not None]
    end = min([stop, *gone, *([bound] if bound is not None else [])])
    reasons: list[Said] = []
    fits: list[str] = []
    if gen.group is not None:
        reasons += [
            said
            for said in gen.group.conditions
            if gen.made <= said.t <= end
            and placing.refuses(schedulers.PLACEMENT, "condition", "PodGroup", said)
        ]
    for pod in gen.members:
        for waiting in pod.waiting:
            said = Said(
                waiting.t, placing.name, f"Pod/{pod.name}", "PodScheduled=False", waiting.reason, waiting.message,
                waiting.key,
            )  # fmt: skip
            if waiting.t > end or not placing.refuses(schedulers.PLACEMENT, "condition", "Pod", said):
                continue
            reasons.append(said)
            if placing.would_fit(waiting.reason, waiting.message):
                fits.append(waiting.key)
    reasons = [
        dataclasses.replace(said, reporter=said.reporter or placing.name)
        for said in reasons
        if said.t >= gen.made
    ]
    reasons.sort(key=lambda said: said.t)
    return Held(gen.made, end, bound is not None and bound <= end, tuple(reasons), tuple(fits))
