"""REF-006: preemption and reclaim take a whole gang, or only what it has above minAvailable."""

import dataclasses

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import evictions, gates
from pytest_gpucluster.evidence.scheduling.evictions import Taken
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.gang import all_or_nothing
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = "a gang that is preempted or reclaimed keeps minAvailable members, or loses all members"

NO_VOTE = Cause(
    "the gang plugin has no say in preemption: `enablePreemptable: false`, as shipped",
    "remove that line from the gang plugin's entry in volcano-scheduler.conf (kubectl -n volcano-system edit "
    "configmap volcano-scheduler-configmap), or mark pods that must stay with the annotation volcano.sh/preemptable: "
    '"false"',
)
OVERRULED = Cause(
    "the gang plugin is overruled: if it spares every pod in its tier, that tier is skipped, and proportion in a "
    "later tier gives the members away (Volcano v1.14)",
    "put gang and proportion into one tier of volcano-scheduler.conf, or set `reclaimable: false` on the queue",
)
FORGOTTEN = Cause(
    "the gang plugin is ignored: if it and a plugin before it agree on no pod, the next plugin of their tier (by "
    "default conformance) decides as if it were the first (Volcano v1.14)",
    "list gang after conformance and priority in its tier of volcano-scheduler.conf",
)
REFUSED_BEFORE = Cause(
    "the gang that needed the room was refused at enqueue, before preemption is considered: proportion counts "
    "what the queue's gangs hold up to minAvailable, and overcommit allows 1.2 x the cluster",
    "give the gang that yields that many members above minAvailable (spec.minAvailable below its replicas)",
)


@dataclasses.dataclass(frozen=True)
class Left:
    """A gang that was left with fewer members than it needs, and not with none.

    Attributes:
        start: when the gang first had too few.
        seconds: for how long.
        rest: the members that stayed.
        taken: who was evicted before.
        gap: the watch of pods was not in sync then.
        open: it lasted until the evidence ends.
    """

    gang: Gang
    generation: Generation
    start: float
    seconds: float
    rest: tuple[PodStory, ...]
    taken: tuple[Taken, ...]
    gap: bool
    open: bool


@subjects.judge
def whole_or_surplus(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge REF-006."""
    limits = subjects.of(evidence, given)
    seen = evictions.taken(evidence)
    if not seen:
        return _nobody(evidence)
    # Who gives way goes at once: the time over which a gang may be bound says nothing of that, and may be as long as
    # a window.
    settled = subjects.HALF_PERIODS * limits.period + limits.grain
    found = _left(evidence, seen, settled)
    # A gang that is taken whole goes to none; one that got its minimum back had been left half, however short.
    bad = [left for left in found if left.seconds > settled or not (left.open or left.gap)]
    if bad:
        return _halved(evidence, given, settled, max(bad, key=lambda left: left.seconds))
    unsure = next((left for left in found if left.open or left.gap), None)
    if unsure is not None:
        why = "pods were not watched then" if unsure.gap else "the evidence ends too early to decide"
        text = f"{_short(unsure)}; {why}"
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text, unsure.gang, evidence=_keys(unsure.taken)
        )
    gaps = evidence.gaps("Pod", seen[0].t, evidence.end)
    if gaps:
        text = f"{_sum(seen)}; pods were not watched from t={gaps[0][0]:.2f} s to {gaps[0][1]:.2f} s"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, seen[0].gang, evidence=_keys(seen))
    return _kept(evidence, given, limits, seen)


def _left(evidence: Evidence, seen: tuple[Taken, ...], tolerance: float) -> list[Left]:
    """Return the spans in which a gang that lost members to a scheduler had some, but fewer than it needs.

    A span begins when an evicted member is gone, not when it is told to go. Members that were told to go as well do
    not stay: a gang that is taken whole goes one by one.
    """
    found = []
    for mine in evictions.by_attempt(seen):
        gang, gen = mine[0].gang, mine[0].generation
        steps = [(step.t, step.held) for step in gen.steps if step.t >= mine[0].t]
        start: float | None = None
        for t, held in [*steps, (min(gen.end, evidence.end), None)]:
            if held is not None and 0 < held < gen.minimum:
                start = t if start is None else start
                continue
            if start is not None and t > start:
                rest = evictions.staying(gen, min(start + tolerance, t - subjects.EPSILON))
                if rest and len(rest) < gen.minimum:
                    gap = bool(evidence.gaps("Pod", start, t))
                    found.append(Left(gang, gen, start, t - start, rest, mine, gap, held is None))
            start = None
    return found


def _halved(evidence: Evidence, given: subjects.Given, settled: float, left: Left) -> Finding:
    why = left.taken[-1].why or evictions.PREEMPT
    gone = tuple(one.pod for one in left.taken)
    return wording.finding(
        Verdict.FAIL,
        REQUIRED,
        f"{_short(left)}: {wording.listed([pod.where for pod in left.rest], 4)} stayed",
        left.gang,
        violation=True,
        where=wording.places((*left.rest, *gone)),
        causes=(OVERRULED, FORGOTTEN, NO_VOTE)
        if why == evictions.RECLAIM
        else (NO_VOTE, FORGOTTEN, OVERRULED),
        evidence=_keys(left.taken),
        numbers=(
            Number("members left", len(left.rest), "pods", left.generation.minimum, "minAvailable"),
            Number("left so for", left.seconds, "s", settled, "two scheduler periods"),
        ),
        currency=subjects.currency(evidence, given, left.gang),
    )


def _kept(
    evidence: Evidence, given: subjects.Given, limits: subjects.Terms, seen: tuple[Taken, ...]
) -> Finding:
    """Judge gangs that lost only what they could spare: in a scenario of ours more must have been wanted in vain."""
    text = _sum(seen)
    tempted = (
        subjects.cast(evidence, given, "tempted") if "tempted" in subjects.roles(evidence, given) else None
    )
    expired = subjects.timed_out(evidence)
    if tempted is None:
        if expired is not None and limits.arranged:
            text = f"{text}; the wait for {expired[0]} ended in vain, so no gang asked for more"
            return wording.finding(
                Verdict.INCONCLUSIVE, REQUIRED, text, seen[0].gang, evidence=(*_keys(seen), expired[1])
            )
        return wording.finding(Verdict.PASS, REQUIRED, text, seen[0].gang, evidence=_keys(seen))
    for gang in tempted:
        for gen in gang.generations:
            held = gates.read(evidence, gang, gen).held
            if held is None or held.said is None or held.bound_after:
                continue
            seconds = all_or_nothing.watched(evidence, held)
            if seconds >= limits.window - all_or_nothing.EPSILON:
                text = f"{text}; {gang.name} wanted more for {seconds:.1f} s but got none"
                keys = (*_keys(seen), *(said.key for said in held.reasons[:1]))
                return wording.finding(Verdict.PASS, REQUIRED, text, seen[0].gang, evidence=keys)
    text = f"{text}; no gang waited at the gang gate, so taking below minAvailable was not tried"
    return wording.finding(
        Verdict.INCONCLUSIVE, REQUIRED, text, seen[0].gang, evidence=_keys(seen), causes=(REFUSED_BEFORE,)
    )


def _nobody(evidence: Evidence) -> Finding:
    text = "no pod was preempted or reclaimed"
    expired = subjects.timed_out(evidence)
    if expired is not None:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, f"{text} (waited for {expired[0]})", evidence=(expired[1],)
        )
    refused = refused_before(evidence)
    if refused is not None:
        gang, said = refused
        text = f"{text}: {gang.title} was refused at enqueue by {said.reporter} ({said.message})"
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text, gang, causes=(REFUSED_BEFORE,), evidence=(said.key,)
        )
    return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text)


def refused_before(evidence: Evidence) -> tuple[Gang, Said] | None:
    """Return a gang that was refused at enqueue and never placed, with what was said."""
    for gang in subjects.everyone(evidence):
        for gen in gang.generations:
            said = gates.read(evidence, gang, gen).enqueue
            if said and gen.whole is None:
                return gang, said[0]
    return None


def _short(left: Left) -> str:
    actions = " and ".join(sorted({one.why or "eviction" for one in left.taken}))
    return (
        f"{left.gang.title}: {len(left.taken)} members were taken by {actions} from t={left.taken[0].t:.2f} s on, "
        f"{wording.part(len(left.rest), left.generation.minimum)} were left for {left.seconds:.1f} s"
    )


def _sum(seen: tuple[Taken, ...]) -> str:
    """Return who lost how many, and how many each kept at least."""
    parts = []
    for mine in evictions.by_attempt(seen):
        gang, gen = mine[0].gang, mine[0].generation
        ends = [t for t in (gang.job.deleted if gang.job else None, gen.end) if t is not None]
        after = [step.held for step in gen.steps if mine[0].t <= step.t < min(ends)]
        kept = min(after, default=gen.most_held)
        actions = " and ".join(sorted({one.why or "eviction" for one in mine}))
        parts.append(
            f"{gang.name} lost {len(mine)} members to {actions} and kept at least {kept} (minAvailable {gen.minimum})"
        )
    return "; ".join(parts)


def _keys(seen: tuple[Taken, ...]) -> tuple[str, ...]:
    return tuple(one.key for one in seen[:4])
