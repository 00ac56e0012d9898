"""Judges of the refusal family: what cannot run is refused, by the component that must refuse."""

import dataclasses

from pytest_gpucluster.evidence import fields, gates, schedulers
from pytest_gpucluster.evidence.gangs import Gang, Generation
from pytest_gpucluster.evidence.model import Evidence
from pytest_gpucluster.evidence.owners import Said
from pytest_gpucluster.evidence.pods import pods
from pytest_gpucluster.judge import say, terms
from pytest_gpucluster.judge.rejected import invalid_rejected
from pytest_gpucluster.judge.scarce import EPSILON
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

__all__ = ["control_of", "invalid_rejected", "over_large_refused"]

REQUIRED = (
    "a gang larger than the cluster stays Pending: nothing bound for the window, and the reason comes from the gang "
    "scheduler; a fitting gang on the same queue runs after it"
)
BLOCKED = Cause(
    "an enqueued gang that cannot be placed keeps its share reserved (overcommit), and blocks others",
    "delete the refused gang before the control is started, or let the control ask for no more than 1.2 x the total "
    "less what is reserved",
)


@dataclasses.dataclass(frozen=True)
class _Refused:
    """A gang that was refused for good: for as long as it existed, or to the end of the evidence."""

    gang: Gang
    gen: Generation
    gate: str
    said: tuple[Said, ...]
    start: float
    end: float
    component: str


def over_large_refused(evidence: Evidence, given: terms.Given) -> Finding:
    """Judge REF-001."""
    named = terms.cast(evidence, given, "subject")
    gangs = named if named is not None else terms.everyone(evidence)
    if not gangs:
        return say.finding(Verdict.INCONCLUSIVE, REQUIRED, terms.nothing(evidence))
    held = _something_bound(evidence, given, gangs, arranged=named is not None)
    if held is not None:
        return held
    refused = [found for gang in gangs if (found := _refused(evidence, gang)) is not None]
    findings = [_judge(evidence, given, one) for one in refused]
    order = [Verdict.FAIL, Verdict.PASS, Verdict.INCONCLUSIVE]
    if findings:
        return min(findings, key=lambda finding: order.index(finding.verdict))
    return _not_refused(evidence, given, gangs)


def _something_bound(
    evidence: Evidence, given: terms.Given, gangs: tuple[Gang, ...], *, arranged: bool
) -> Finding | None:
    """Return the violation: members of a gang that cannot be whole are bound.

    In a recording nothing says that a gang is too large; there it is taken to be when it never became whole although
    nothing else of the evidence held a place and a member was refused for want of a resource.
    """
    for gang in gangs:
        gen = gang.generations[-1]
        if gang.whole is not None or gen.most_held == 0 or gen.minimum <= 1:
            continue
        if not arranged:
            others = [p for p in pods(evidence) if p.bound is not None and p not in gang.pods]
            short = any(schedulers.CAPACITY_CLASS.search(w.message) for p in gang.pods for w in p.waiting)
            lasting = evidence.end - gen.steps[0].t > terms.of(evidence, given).tolerance
            if others or not short or not lasting:
                continue
        causes = (say.NO_GANG_PLUGIN,) if terms.gang_scheduler(gang) else (say.WRONG_SCHEDULER,)
        return say.finding(
            Verdict.FAIL,
            REQUIRED,
            f"{gang.title} holds places although it can never be whole: "
            f"{say.part(gen.most_held, gen.minimum)} members bound",
            gang,
            violation=True,
            causes=causes,
            evidence=tuple(step.key for step in gen.steps[:4]),
            numbers=(Number("members bound", gen.most_held, "pods", 0, "catalogue"),),
            currency=terms.currency(evidence, given, gang),
        )
    return None


def _refused(evidence: Evidence, gang: Gang) -> _Refused | None:
    gen = gang.generations[-1]
    if gang.whole is not None or gen.first_bind is not None:
        return None
    reading = gates.read(evidence, gang, gen)
    ends = [evidence.end]
    ends += [
        t
        for t in (gang.job.deleted if gang.job else None, gen.group.deleted if gen.group else None)
        if t is not None
    ]
    if reading.held is not None and reading.held.reasons:
        said, gate = reading.held.reasons, schedulers.PLACEMENT
        component = reading.scheduler.name
        ends.append(reading.held.end)
    elif reading.enqueue:
        said, gate, component = reading.enqueue, schedulers.ENQUEUE, reading.enqueue[0].reporter
    else:
        return None
    return _Refused(gang, gen, gate, said, said[0].t, min(ends), component)


def _window(evidence: Evidence, one: _Refused) -> tuple[float, float]:
    """Return the window that the driver noted, else the time from the first reason to the gang's end."""
    noted = [
        (begin, end) for begin, end in terms.windows(evidence) if begin >= one.gen.start and end <= one.end
    ]
    return noted[0] if noted else (one.start, one.end)


def _judge(evidence: Evidence, given: terms.Given, one: _Refused) -> Finding:
    limits = terms.of(evidence, given)
    begin, end = _window(evidence, one)
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
        text += f" ({last.message[:140]})" + (f"; {fitting} pods would have fitted alone" if fitting else "")

    def found(verdict: Verdict, more: str = "", **rest: object) -> Finding:
        return say.finding(
            verdict, REQUIRED, text + more, one.gang, evidence=tuple(s.key for s in (inside or one.said)[-4:]),
            refusal=say.refusal(one.gate, last, one.component),
            numbers=(Number("nothing bound for", wait, "s", limits.window, "three scheduler periods or the window"),),
            currency=terms.currency(evidence, given, one.gang), **rest,
        )  # fmt: skip

    capability = _over_capability(evidence, one)
    if capability:
        return found(Verdict.INCONCLUSIVE, f"; {capability}: that is the queue's limit, not the cluster's")
    if not inside:
        return found(Verdict.INCONCLUSIVE, "; no reason was given inside the window")
    if one.gate == schedulers.PLACEMENT and not terms.gang_scheduler(one.gang):
        more = "; that is no gang scheduler, which would have bound the members that fit"
        return found(Verdict.INCONCLUSIVE, more, causes=(say.WRONG_SCHEDULER,))
    if wait < limits.window - EPSILON:
        return found(Verdict.INCONCLUSIVE, f"; shorter than the window of {limits.window:.2f} s")
    gaps = evidence.gaps("Pod", begin, end)
    if gaps:
        return found(
            Verdict.INCONCLUSIVE, f"; pods were not watched from t={gaps[0][0]:.2f} to {gaps[0][1]:.2f} s"
        )
    ran, why = control_of(evidence, given, one.gang)
    if ran is True:
        return found(Verdict.PASS, f"; {why}")
    causes = (BLOCKED,) if ran is False and one.gate == schedulers.PLACEMENT else ()
    return found(Verdict.INCONCLUSIVE, f"; {why}", causes=causes)


def control_of(evidence: Evidence, given: terms.Given, subject: Gang) -> tuple[bool | None, str]:
    """Return whether a fitting control ran on the same queue after a refused gang (None: there was none), and why."""
    if "control" in (given.get("attested") or ()):
        return True, "a fitting control is attested"
    named = terms.cast(evidence, given, "control")
    controls = [
        gang
        for gang in (named or terms.everyone(evidence))
        if gang is not subject and gang.uid != subject.uid and gang.queue == subject.queue
    ]
    later = [gang for gang in controls if gang.created >= subject.created]
    for gang in later:
        # Whole means bound: where pods run, they run from then on; where none run, nothing more can be seen.
        if gang.whole is not None:
            ran = any(pod.running is not None or pod.finished is not None for pod in gang.pods)
            what = "ran" if ran else "was placed whole"
            return (
                True,
                f"the control {gang.name} ({gang.minimum} members) {what} on queue {gang.queue or '-'}",
            )
    if later:
        return False, f"the control {later[0].name} did not run on queue {subject.queue or '-'}"
    return None, f"no fitting control was tried on queue {subject.queue or '-'}"


def _over_capability(evidence: Evidence, one: _Refused) -> str:
    """Return how the gang's request exceeds its queue's capability, "" where it does not."""
    queue = next(
        (line.object for line in reversed(evidence.of_kind("Queue")) if line.name == one.gang.queue), {}
    )
    wanted = fields.sub(one.gen.group.last, "spec", "minResources") if one.gen.group else {}
    for resource, limit in fields.sub(queue, "spec", "capability").items():
        asked = fields.quantity(wanted.get(resource, 0))
        if asked > fields.quantity(limit):
            return f"it asks for {asked} {resource} and queue {one.gang.queue} may have {limit}"
    return ""


def _not_refused(evidence: Evidence, given: terms.Given, gangs: tuple[Gang, ...]) -> Finding:
    for gang in gangs:
        start, reading = gang.generations[-1].start, gates.read(evidence, gang, gang.generations[-1])
        if reading.unseen is not None and terms.silent(evidence, given, start, start + reading.unseen):
            return say.finding(
                Verdict.INCONCLUSIVE,
                REQUIRED,
                f"{gang.title} is Pending, but its PodGroup had no phase for {reading.unseen:.1f} s: the scheduler did "
                "not look at it, which is no refusal",
                gang,
                causes=(say.SCHEDULER_SILENT,),
            )
    whole = [gang.name for gang in gangs if gang.whole is not None]
    if whole:
        text = f"no gang was refused for good: {say.listed(whole, 4)} became whole"
    else:
        text = f"{say.listed([gang.name for gang in gangs], 4)}: no scheduler gave a reason"
    return say.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gangs[0])
