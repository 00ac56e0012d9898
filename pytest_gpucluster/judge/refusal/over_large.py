"""Judges of the refusal family: what cannot run is refused, by the component that must refuse."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import pods
from pytest_gpucluster.evidence.scheduling import gates, schedulers
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.refusal import refusals
from pytest_gpucluster.judge.refusal.refusals import BLOCKED, control_of
from pytest_gpucluster.requirement import Finding, Number, Presupposed, Verdict

REQUIRED = (
    "a gang larger than the cluster stays Pending: nothing bound for the window, and the reason comes from the gang "
    "scheduler; a fitting gang on the same queue runs after it"
)


@subjects.judge
def over_large_refused(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge REF-001."""
    named = subjects.cast(evidence, given, "subject")
    gangs = named if named is not None else subjects.placed(evidence)
    if not gangs:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, subjects.nothing(evidence))
    held = _something_bound(evidence, given, gangs, arranged=named is not None)
    if held is not None:
        return held
    findings = [
        refusals.decide(evidence, given, one, REQUIRED, _others_limit(evidence, one.gang))
        for gang in gangs
        if (one := refusals.for_good(evidence, gang)) is not None
    ]
    if findings:
        return wording.telling(findings)
    return _not_refused(evidence, given, gangs)


def _others_limit(evidence: Evidence, gang: Gang) -> str:
    """Return why a gang was refused by another limit than the cluster's, "" where it was not."""
    excess = refusals.excess_of(evidence, gang)
    return "" if excess is None else f"{excess.text}: that is the queue's limit, not the cluster's"


def _something_bound(
    evidence: Evidence, given: subjects.Given, gangs: tuple[Gang, ...], *, arranged: bool
) -> Finding | None:
    """Return the violation: members of a gang that cannot be whole are bound.

    In a recording nothing says that a gang is too large; there it is taken to be when it never became whole although
    nothing else of the evidence held a place and a member was refused for want of a resource.
    """
    for gang in gangs:
        gen = max(gang.generations, key=lambda one: one.most_held)
        if gen.most_held == 0 or gen.minimum <= 1 or (gang.whole is not None and not arranged):
            continue
        if not arranged:
            others = [p for p in pods(evidence) if p.bound is not None and p not in gang.pods]
            short = any(schedulers.CAPACITY_CLASS.search(w.message) for p in gang.pods for w in p.waiting)
            lasting = evidence.end - gen.steps[0].t > subjects.of(evidence, given).tolerance
            if others or not short or not lasting:
                continue
        causes = (wording.cause_of_one_by_one(gang, subjects.of(evidence, given).scheduler),)
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            f"{gang.title} {_holds(gang, gen)} although it can never be whole: "
            f"{wording.part(gen.most_held, gen.minimum)} members bound from t={gen.steps[0].t:.2f} s",
            gang,
            violation=True,
            causes=causes,
            evidence=tuple(step.key for step in gen.steps[:4]),
            numbers=(Number("members bound", gen.most_held, "pods", 0, "catalogue"),),
            currency=subjects.currency(evidence, given, gang),
        )
    return None


def _holds(gang: Gang, gen: Generation) -> str:
    attempts = f" in attempt {gen.number} of {len(gang.generations)}" if len(gang.generations) > 1 else ""
    return f"{'held' if attempts else 'holds'} places{attempts}"


def _not_refused(evidence: Evidence, given: subjects.Given, gangs: tuple[Gang, ...]) -> Finding:
    for gang in gangs:
        start, reading = gang.generations[-1].start, gates.read(evidence, gang, gang.generations[-1])
        if reading.unseen is not None and subjects.silent(evidence, given, start, start + reading.unseen):
            return wording.finding(
                Verdict.INCONCLUSIVE,
                REQUIRED,
                f"{gang.title} is Pending, but its PodGroup had no phase for {reading.unseen:.1f} s: the "
                "scheduler did not handle it, which is not a refusal",
                gang,
                causes=(wording.SCHEDULER_SILENT,),
            )
    whole = [gang.name for gang in gangs if gang.whole is not None]
    if whole:
        text = f"no gang stayed refused: {wording.listed(whole, 4)} became whole"
    else:
        text = f"{wording.listed([gang.name for gang in gangs], 4)}: no scheduler gave a reason"
    return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gangs[0])


def control_ran(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether a fitting control ran on the same queue as the refused gang."""
    name = "a fitting control ran"
    named = subjects.cast(evidence, given, "subject")
    gangs = named if named is not None else [g for g in subjects.everyone(evidence) if g.whole is None]
    if not gangs:
        return wording.presupposed(name, held=None, observed="no refused gang in the evidence")
    held, why = control_of(evidence, given, gangs[0])
    return wording.presupposed(name, held=held, observed=why, causes=(BLOCKED,) if held is False else ())
