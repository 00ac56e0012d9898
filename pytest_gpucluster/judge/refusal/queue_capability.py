"""REF-002: what is above a queue's capability is refused, and what a queue holds stays within it."""

import dataclasses
from collections.abc import Iterable, Mapping
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.evidence.scheduling import capacity, schedulers
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.gang.all_or_nothing import EPSILON
from pytest_gpucluster.judge.refusal import no_scheduler, refusals
from pytest_gpucluster.plain import quantities
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "a gang that asks for more than its queue's capability stays Pending: nothing bound for the window, refused for "
    "the queue's share; a fitting gang on the same queue runs"
)
QUEUE_NAME = "volcano.sh/queue-name"

IGNORED = Cause(
    "the scheduler does not enforce the queue's capability",
    "put the plugin proportion (or capacity) into volcano-scheduler.conf, and check that the Job names the queue "
    "(spec.queue) and the capability the resource (kubectl get queue QUEUE -o yaml)",
)
QUOTA = Cause(
    "the namespace's ResourceQuota also counts waiting pods, so it is used up before the queue is",
    "make the ResourceQuota of the namespace larger than the queue's capability plus what may wait",
)
UNLIKE = Cause(
    "the refusal names the cluster's total (overcommit), not the queue's share",
    "repeat when the cluster is emptier, or ask for less than 1.2 x the total minus what is in use",
)


@dataclasses.dataclass(frozen=True)
class Use:
    """What the pods of a queue held of one resource, from a time on."""

    t: float
    queue: str
    resource: str
    held: Fraction
    limit: Fraction
    key: str


@subjects.judge
def above_capability_refused(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge REF-002."""
    over = next((use for use in _uses(evidence, given) if use.held > use.limit), None)
    if over is not None:
        return _overrun(evidence, given, over)
    named = subjects.cast(evidence, given, "subject")
    gangs = named if named is not None else subjects.everyone(evidence)
    above = [(gang, excess) for gang in gangs if (excess := refusals.excess_of(evidence, gang)) is not None]
    findings = [found for gang, excess in above if (found := _judge(evidence, given, gang, excess))]
    if named is None:
        findings += _kept_full(evidence, given)
    if findings:
        return wording.telling(findings)
    return _not_tried(evidence, given, gangs, arranged=named is not None)


def _judge(evidence: Evidence, given: subjects.Given, gang: Gang, excess: refusals.Excess) -> Finding | None:
    """Judge one gang that asks for more than its queue may have."""
    most = max(gang.generations, key=lambda gen: gen.most_held)
    if most.most_held:
        members = f"{wording.part(most.most_held, gang.minimum)} members bound"
        text = f"{gang.title} held places although {excess.text}: {members}"
        return _violated(evidence, given, text, gang, most.steps[0].key)
    one = refusals.for_good(evidence, gang)
    if one is None:
        return None
    total = _total(evidence, given, excess.resource)
    other = ""
    if total is not None and excess.asked > total:
        other = f"{excess.text}, and the cluster has {total}: it is not known which of the two refused it"
    finding = refusals.decide(evidence, given, one, REQUIRED, other)
    spoken = {schedulers.limit_of_enqueue(said.message) for said in one.said}
    if finding.verdict is Verdict.PASS and spoken == {schedulers.OF_CLUSTER}:
        return dataclasses.replace(
            finding, verdict=Verdict.INCONCLUSIVE, causes=(UNLIKE,),
            observed=f"{finding.observed}; no reason named the queue's share",
        )  # fmt: skip
    limit = Number(
        "asked for", float(excess.asked), excess.resource, float(excess.limit), "capability of the queue"
    )
    text = f"{finding.observed}; {excess.text}"
    return dataclasses.replace(finding, observed=text, numbers=(*finding.numbers, limit))


def _total(evidence: Evidence, given: subjects.Given, resource: str) -> Fraction | None:
    """Return how much of a resource the cluster has, None where nobody saw."""
    stated = subjects.count(given, "total")
    if stated is not None:
        return Fraction(stated)
    rooms = capacity.rooms(evidence, resource)
    return sum((room.allocatable for room in rooms), Fraction(0)) if rooms else None


def _queue_of(pod: PodStory, by_group: Mapping[str, str], by_gang: Mapping[str, str]) -> str:
    stated = pod.annotations.get(QUEUE_NAME) or pod.labels.get(QUEUE_NAME)
    return str(
        stated or by_group.get(f"{pod.namespace}/{pod.group_name}") or by_gang.get(pod.uid) or "default"
    )


def _by_queue(evidence: Evidence) -> dict[str, list[PodStory]]:
    """Return the pods of each queue that has a capability; pods of the default scheduler are in no queue."""
    by_group = {f"{group.namespace}/{group.name}": group.queue for group in owners.groups(evidence)}
    by_gang = {pod.uid: gang.queue for gang in subjects.everyone(evidence) for pod in gang.pods}
    found: dict[str, list[PodStory]] = {}
    for pod in pods(evidence):
        if pod.scheduler == schedulers.DEFAULT_NAME:
            continue
        queue = _queue_of(pod, by_group, by_gang)
        if fields.sub(refusals.queue_object(evidence, queue), "spec", "capability"):
            found.setdefault(queue, []).append(pod)
    return found


def _uses(evidence: Evidence, given: subjects.Given) -> Iterable[Use]:
    """Yield how much the pods of each queue held, of each resource that its capability names, after each change.

    A pod that is ending gives its share back at once, as the scheduler counts. With a clock of whole seconds, what
    ended within one second of a bind ended before it.
    """
    grain = subjects.of(evidence, given).grain
    for queue, members in _by_queue(evidence).items():
        moves: list[tuple[float, int, str, PodStory]] = []
        for pod in members:
            if pod.bound is None:
                continue
            moves.append((pod.bound, 1, pod.keys["bound"], pod))
            ends = [t for t in (pod.finished, pod.deleting, pod.deleted) if t is not None]
            if ends:
                moves.append((max(pod.bound, min(ends) - grain), -1, "", pod))
        held: dict[str, Fraction] = {}
        for t, by, key, pod in sorted(moves, key=lambda move: (move[0], move[1])):
            now = refusals.queue_object(evidence, queue, t) or refusals.queue_object(evidence, queue)
            for resource, limit in fields.sub(now, "spec", "capability").items():
                name = str(resource)
                asked = fields.requested(pod.last, name)
                held[name] = held.get(name, Fraction(0)) + by * asked
                if by > 0 and asked > 0:
                    yield Use(t, queue, name, held[name], fields.quantity(limit), key)


def _overrun(evidence: Evidence, given: subjects.Given, over: Use) -> Finding:
    text = (
        f"the pods of queue {over.queue} held {_amount(over.held)} {over.resource} at t={over.t:.2f} s; its capability "
        f"is {_amount(over.limit)}"
    )
    held = [pod for pod in _by_queue(evidence)[over.queue] if pod.bound is not None and pod.bound <= over.t]
    gang = next(
        (g for g in subjects.everyone(evidence) if over.key in {p.keys.get("bound") for p in g.pods}), None
    )
    return _violated(evidence, given, text, gang, over.key, where=wording.places(held), over=over)


def _violated(
    evidence: Evidence, given: subjects.Given, text: str, gang: Gang | None, key: str, *,
    where: tuple[str, ...] = (), over: Use | None = None,
) -> Finding:  # fmt: skip
    numbers = () if over is None else (
        Number("held by the queue", float(over.held), over.resource, float(over.limit), "capability of the queue"),
    )  # fmt: skip
    queue = over.queue if over is not None else gang.queue if gang is not None else ""
    lines = (f"kubectl get queue {queue} -o yaml", *(wording.repeat(gang) if gang is not None else ()))
    return wording.finding(
        Verdict.FAIL, REQUIRED, text, gang, violation=True, causes=(IGNORED,), evidence=(key,), numbers=numbers,
        where=where or wording.places(gang.pods if gang is not None else ()), repeat=lines,
        currency=subjects.currency(evidence, given, gang),
    )  # fmt: skip


def _amount(amount: Fraction) -> str:
    return quantities.format_quantity(amount)


def _kept_full(evidence: Evidence, given: subjects.Given) -> list[Finding]:
    """Return a pass for each queue that is full to its capability while more of its pods wait: nothing goes beyond."""
    limits = subjects.of(evidence, given)
    found = []
    for queue, members in _by_queue(evidence).items():
        waiting = [p for p in members if p.bound is None and p.deleted is None and p.phase == "Pending"]
        since = max((p.bound if p.bound is not None else p.created for p in members), default=0.0)
        seconds = evidence.end - since
        full = next(
            (use for pod in waiting[:1] if (use := _next_is_too_much(evidence, queue, members, pod))), None
        )
        if full is None or seconds < limits.window - EPSILON or evidence.gaps("Pod", since, evidence.end):
            continue
        text = (
            f"queue {queue} binds {_amount(full.held)} of {_amount(full.limit)} {full.resource}, and {len(waiting)} "
            f"more pods wait for {seconds:.1f} s"
        )
        quotas = _stopped_by_quota(evidence)
        if quotas:
            text += f"; further pods were not created: stopped by ResourceQuota {wording.listed(quotas, 4)}"
        number = Number(
            "held by the queue", float(full.held), full.resource, float(full.limit), "capability of the queue"
        )
        found.append(
            wording.finding(
                Verdict.PASS,
                REQUIRED,
                text,
                evidence=(full.key,),
                numbers=(number,),
                where=wording.places(waiting),
                causes=(QUOTA,) if quotas else (),
                repeat=(f"kubectl get queue {queue} -o yaml",),
            )
        )
    return found


def _next_is_too_much(
    evidence: Evidence, queue: str, members: Iterable[PodStory], pod: PodStory
) -> Use | None:
    """Return the resource of which one more pod would exceed the capability at the end, None where none would."""
    for resource, stated in fields.sub(refusals.queue_object(evidence, queue), "spec", "capability").items():
        name, limit = str(resource), fields.quantity(stated)
        held, asked = _held_at_end(members, name), fields.requested(pod.last, name)
        if asked > 0 and held <= limit < held + asked:
            return Use(evidence.end, queue, name, held, limit, pod.keys["created"])
    return None


def _held_at_end(members: Iterable[PodStory], resource: str) -> Fraction:
    return sum(
        (
            fields.requested(pod.last, resource)
            for pod in members
            if pod.bound is not None and pod.finished is None and pod.deleting is None and pod.deleted is None
        ),
        Fraction(0),
    )


def _stopped_by_quota(evidence: Evidence) -> list[str]:
    """Return the ResourceQuotas that an event of a failed creation names."""
    names_ = [line.name for line in evidence.of_kind("ResourceQuota")]
    said = [
        said.message
        for line in evidence.of_kind("Event")
        if (said := owners.event_said(line)).reason == "FailedCreate" and "quota" in said.message
    ]
    return [name for name in dict.fromkeys(names_) if any(name in message for message in said)]


def _not_tried(
    evidence: Evidence, given: subjects.Given, gangs: tuple[Gang, ...], *, arranged: bool
) -> Finding:
    """Say why nothing above a capability was tried; in a recording of another trouble the row does not apply."""
    if not gangs:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, subjects.nothing(evidence))
    for gang in gangs:
        unseen = _not_looked_at(evidence, given, gang)
        if unseen is not None:
            return unseen
        one = refusals.for_good(evidence, gang)
        queue = refusals.queue_object(evidence, gang.queue)
        if (
            one is None
            or one.gate != schedulers.ENQUEUE
            or not queue
            or refusals.excess_of(evidence, gang) is not None
        ):
            continue
        limit = fields.sub(queue, "spec", "capability")
        text = f"{gang.title} was refused at {one.gate} ({wording.short(one.said[-1].message)}), but "
        text += (
            f"asks for no more than its queue {gang.queue} may have"
            if limit
            else f"its queue {gang.queue} declares no capability"
        )
        verdict = Verdict.INCONCLUSIVE if arranged else Verdict.NOT_APPLICABLE
        return wording.finding(verdict, REQUIRED, text, gang, evidence=(one.said[-1].key,))
    whole = [gang.name for gang in gangs if gang.whole is not None]
    text = "no gang that asks for more than its queue's capability was tried"
    if arranged and not whole:
        text = f"{gangs[0].title}: no scheduler gave a reason"
    return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gangs[0])


def _not_looked_at(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding | None:
    why = no_scheduler.silence_of(evidence, given, gang)
    if why is None:
        return None
    text = f"{gang.title}: {why.text}, which is not a refusal"
    return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, causes=why.causes)
