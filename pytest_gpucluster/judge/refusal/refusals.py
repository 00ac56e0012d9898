"""A gang that was refused for good, and the finding on it: shared by the rows that judge refusals before a bind."""

import dataclasses
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.scheduling import capacity, gates, schedulers
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.judge import controls, subjects, wording
from pytest_gpucluster.judge.gang.all_or_nothing import EPSILON
from pytest_gpucluster.plain import quantities
from pytest_gpucluster.requirement import Cause, Finding, Number

BLOCKED = Cause(
    "an enqueued gang that cannot be placed keeps its share reserved (overcommit), and blocks others",
    "delete the refused gang before the control is started, or make the control ask for no more than 1.2 x the "
    "total minus what is reserved",
)


@dataclasses.dataclass(frozen=True)
class Refused:
    """A gang that was refused for good: for as long as it existed, or to the end of the evidence."""

    gang: Gang
    gen: Generation
    gate: str
    said: tuple[Said, ...]
    start: float
    end: float
    component: str


@dataclasses.dataclass(frozen=True)
class Excess:
    """How a gang's request exceeds what its queue may have."""

    queue: str
    resource: str
    asked: Fraction
    limit: Fraction

    @property
    def text(self) -> str:
        """Return the excess in words."""
        asked, limit = quantities.format_quantity(self.asked), quantities.format_quantity(self.limit)
        return f"it asks for {asked} {self.resource} and queue {self.queue} may have {limit}"


def for_good(evidence: Evidence, gang: Gang) -> Refused | None:
    """Return how a gang was refused for good, None where it was not, or where nobody said so."""
    gen = gang.generations[-1]
    if any(one.first_bind is not None for one in gang.generations):
        return None
    reading = gates.read(evidence, gang, gen)
    ends = [evidence.end]
    ends += [
        t
        for t in (gang.job.deleted if gang.job else None, gen.group.deleted if gen.group else None)
        if t is not None
    ]
    if reading.held is not None and reading.held.reasons:
        said, gate = reading.held.reasons, reading.held.gate
        component = reading.scheduler.name
        ends.append(reading.held.end)
    elif reading.enqueue:
        said, gate, component = reading.enqueue, schedulers.ENQUEUE, reading.enqueue[0].reporter
    else:
        return None
    return Refused(gang, gen, gate, said, said[0].t, min(ends), component)


def window_of(evidence: Evidence, one: Refused) -> tuple[float, float]:
    """Return the window that the driver noted, else the time from the first reason to the gang's end."""
    noted = [
        (begin, end) for begin, end in subjects.windows(evidence) if begin >= one.gen.start and end <= one.end
    ]
    return noted[0] if noted else (one.start, one.end)


def decide(
    evidence: Evidence, given: subjects.Given, one: Refused, required: str, other: str = ""
) -> Finding:
    """Return the finding on a gang that was refused for good, with nothing bound.

    Args:
        evidence: the evidence.
        given: what the judge is told.
        one: the refused gang.
        required: what must hold.
        other: why the refusal is of another kind than the row's; the finding is then inconclusive.
    """
    limits = subjects.of(evidence, given)
    begin, end = window_of(evidence, one)
    # A reason counts from the gang's creation on: schedulers say it once and then only count it up.
    inside = [said for said in one.said if said.t <= end] if begin < end else []
    wait = end - begin
    text = (
        f"{one.gang.name}: 0 of {one.gen.minimum} members bound for {wait:.1f} s, "
        f"refused at {one.gate} by {one.component}"
    )
    last = inside[-1] if inside else one.said[-1]
    if one.gate == schedulers.ENQUEUE:
        text += f" ({last.message}: {schedulers.meaning_of_enqueue(last.message)})"
    else:
        fitting = sum(p.waiting[-1].reason == "Schedulable" for p in one.gen.members if p.waiting)
        text += f" ({wording.short(last.message)})" + (
            f"; {fitting} pods would have fitted alone" if fitting else ""
        )
    found = wording.Findings(
        required, one.gang, start=text, evidence=tuple(s.key for s in (inside or one.said)[-4:]),
        refusal=wording.refusal(one.gate, last, one.component),
        numbers=(Number("nothing bound for", wait, "s", limits.window, "three scheduler periods or the window"),),
        currency=subjects.currency(evidence, given, one.gang),
    )  # fmt: skip

    if other:
        return found.inconclusive(f"; {other}")
    if not inside:
        return found.inconclusive("; no reason was given inside the window")
    if one.gate == schedulers.PLACEMENT and not subjects.gang_scheduler(one.gang):
        more = "; a scheduler without the gang rule would have bound the members that fit"
        return found.inconclusive(more, wording.WRONG_SCHEDULER)
    if wait < limits.window - EPSILON:
        return found.inconclusive(f"; shorter than the window of {limits.window:.2f} s")
    gaps = evidence.gaps("Pod", min(begin, one.gang.created), max(end, one.end))
    if gaps:
        return found.inconclusive(f"; pods were not watched from t={gaps[0][0]:.2f} to {gaps[0][1]:.2f} s")
    ran, why = control_of(evidence, given, one.gang)
    if ran is True:
        return found.passed(f"; {why}")
    causes = (BLOCKED,) if ran is False and one.gate == schedulers.PLACEMENT else ()
    return found.inconclusive(f"; {why}", causes=causes)


def control_of(evidence: Evidence, given: subjects.Given, subject: Gang) -> tuple[bool | None, str]:
    """Return whether a fitting control ran on the same queue after a refused gang (None: there was none), and why."""
    if "control" in (given.get("attested") or ()):
        return True, "the record attests a fitting control"
    named = subjects.cast(evidence, given, "control")
    beside = [
        gang
        for gang in (named or subjects.everyone(evidence))
        if gang is not subject and gang.uid != subject.uid and gang.queue == subject.queue
    ]
    later = [gang for gang in beside if gang.created >= subject.created]
    why = ""
    for gang in later:
        ran, what = controls.ran(evidence, given, gang)
        members = f" ({gang.minimum} members)" if ran else ""
        text = f"the control {gang.name}{members} {what} on queue {gang.queue or '-'}"
        # A gang refused before its pods exist holds nothing back; one that waits for a place does until it is gone.
        free = max(gang.created, _over(subject)) if subject.pods else gang.created
        late = (gang.whole or 0.0) - free
        if ran and late > subjects.placed_within(given, "enqueue", "bind"):
            ran, text = False, f"{text}, but only {late:.0f} s after it could have"
        if ran:
            return True, text
        why = why or text
    if later:
        return False, why
    return None, f"no fitting control was tried on queue {subject.queue or '-'}"


def _over(gang: Gang) -> float:
    """Return when a gang was gone, 0 where it stayed: what it kept back was free from then on."""
    gone = [gang.job.deleted] if gang.job is not None else [group.deleted for group in gang.groups[-1:]]
    return next((t for t in gone if t is not None), 0.0)


def asked_by(gang: Gang) -> dict[str, Fraction]:
    """Return what a gang's minimum asks for: minResources of its PodGroup, else its members' equal requests."""
    group = gang.groups[-1] if gang.groups else None
    stated = fields.sub(group.last, "spec", "minResources") if group is not None else {}
    if stated:
        return {str(name): fields.quantity(amount) for name, amount in stated.items()}
    each = capacity.member_request(gang)
    return {each[0]: each[1] * gang.minimum} if each is not None else {}


def _members(gang: Gang) -> list[fields.Object]:
    """Return the pods of the current attempt, or the templates that they are made of where there are too few."""
    pods = [pod.last for pod in gang.generations[-1].members]
    if len(pods) >= gang.minimum or gang.job is None:
        return pods
    return [
        fields.sub(task, "template")
        for task in gang.job.tasks
        for _ in range(fields.number(task, "replicas") or 0)
    ] or pods


def queue_object(evidence: Evidence, name: str, t: float | None = None) -> fields.Object:
    """Return a Queue as it was last seen (up to a time), empty where it was not."""
    lines = [line for line in evidence.of_kind("Queue") if line.name == name and (t is None or line.t <= t)]
    return lines[-1].object if lines else {}


def excess_of(evidence: Evidence, gang: Gang) -> Excess | None:
    """Return how the gang's request exceeds its queue's capability, None where it does not or cannot be told.

    What a template states under limits alone is not in minResources, and its pods ask for it all the same.
    """
    asked = asked_by(gang)
    for resource, least in capacity.asked_by(_members(gang), gang.minimum).items():
        asked[resource] = max(least, asked.get(resource, Fraction(0)))
    limits = fields.sub(queue_object(evidence, gang.queue), "spec", "capability")
    for resource, stated in limits.items():
        limit = fields.quantity(stated)
        if asked.get(str(resource), Fraction(0)) > limit:
            return Excess(gang.queue, str(resource), asked[str(resource)], limit)
    return None
