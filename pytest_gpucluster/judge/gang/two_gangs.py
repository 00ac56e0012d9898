"""GANG-004: two gangs that each fit and do not fit together."""

import itertools
import math
from collections.abc import Sequence

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import half_placement
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import controls, subjects, wording
from pytest_gpucluster.judge.gang import all_or_nothing
from pytest_gpucluster.judge.gang.all_or_nothing import Attempt
from pytest_gpucluster.judge.gang.half_placement import half_placed, halves, lasting
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = "one gang runs whole while the other holds nothing; the other runs after it"

NOT_TAKEN_UP = Cause(
    "the second gang was not placed after the first was gone", "look at the scheduler's log for that time"
)
STARVED = Cause(
    "each gang holds what the other needs, and neither releases it",
    "place both through a scheduler with the gang rule (schedulerName volcano, gang plugin in its configuration)",
)


@subjects.judge
def two_gangs(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-004."""
    named = subjects.cast(evidence, given, "left", "right")
    gangs = named if named is not None else subjects.placed(evidence)
    gangs = tuple(gang for gang in gangs if gang.minimum > 1)
    if len(gangs) < 2:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, f"two gangs of two or more members are needed, {len(gangs)} seen"
        )
    starving = _starving(evidence, given, gangs)
    if starving is not None:
        return starving
    bad = half_placed(evidence, given, gangs, REQUIRED)
    if bad is not None:
        return bad
    findings = [
        found
        for one, other in itertools.permutations(all_or_nothing.attempts(evidence, gangs), 2)
        if one.gang is not other.gang and (found := _after(evidence, given, one, other)) is not None
    ]
    if findings:
        return wording.telling(findings)
    return _never_met(evidence, gangs)


def _starving(evidence: Evidence, given: subjects.Given, gangs: Sequence[Gang]) -> Finding | None:
    """Return the finding on two gangs that are half placed at the same time."""
    limits = subjects.of(evidence, given)
    found = lasting(evidence, given, halves(evidence, gangs))
    for one, other in itertools.combinations(found, 2):
        if one.gang is other.gang or min(one.end, other.end) <= max(one.start, other.start):
            continue
        both = min(one.end, other.end) - max(one.start, other.start)
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            f"mutual starvation: {_holds(one)} and {_holds(other)} members for {both:.0f} s, neither gang complete "
            "(a Job phase Running is no evidence)",
            one.gang,
            violation=True,
            where=wording.places((*one.members, *other.members)),
            causes=(STARVED, *wording.causes_of_half(one, limits.scheduler)),
            evidence=(one.key, other.key),
            numbers=(Number("both half placed for", both, "s", limits.tolerance, "two scheduler periods"),),
            repeat=(*wording.repeat(one.gang), *wording.repeat(other.gang)),
            currency=subjects.currency(evidence, given, one.gang),
        )
    return None


def _holds(one: half_placement.Half) -> str:
    return f"{one.gang.name} holds {wording.part(one.held, one.generation.minimum)}"


def _after(evidence: Evidence, given: subjects.Given, winner: Attempt, loser: Attempt) -> Finding | None:
    """Judge a pair of which the first was whole while the second was held at the gang gate; None for other pairs."""
    limits = subjects.of(evidence, given)
    held, whole = loser.reading.held, winner.gen.whole
    if held is None or held.said is None or whole is None or not loser.reading.scheduler.whole:
        return None
    released = _released(winner)
    if not whole <= held.end or held.said.t >= released or held.seconds <= limits.period:
        return None
    text = (
        f"{winner.gang.name} was whole at t={whole:.2f} s, {loser.gang.name} held nothing for {held.seconds:.1f} s "
        f"at the gang gate"
    )
    found = wording.Findings(
        REQUIRED, loser.gang, start=text, where=wording.places((*winner.gen.members, *loser.gen.members)),
        evidence=(held.said.key, *all_or_nothing.part_would_fit(evidence, loser)[:3]),
        numbers=(Number("loser held", held.seconds, "s", limits.window, "three scheduler periods or the window"),),
        currency=subjects.currency(evidence, given, loser.gang),
        repeat=(*wording.repeat(winner.gang), *wording.repeat(loser.gang)),
    )  # fmt: skip

    gaps = evidence.gaps(
        "Pod", loser.gang.created, loser.gen.whole if loser.gen.whole is not None else held.end
    )
    if gaps:
        return found.inconclusive("; the watch of pods has a gap there")
    if all_or_nothing.watched(evidence, held) < limits.window - all_or_nothing.EPSILON:
        return found.inconclusive(f"; shorter than the window of {limits.window:.2f} s")
    if not all_or_nothing.part_would_fit(evidence, loser):
        more = (
            "; nothing shows that part of it would have fitted, so a scheduler without the gang rule could "
            "behave alike: weak evidence"
        )
        return found.inconclusive(more)
    if loser.gen.whole is None:
        expired = subjects.timed_out(evidence, whole)
        if expired is not None:
            return found.fail(f"; it was never bound (waited for {expired[0]})", NOT_TAKEN_UP)
        return found.inconclusive("; it was not seen to run afterwards")
    if loser.gen.whole < released:
        return found.inconclusive(
            f"; it was bound at t={loser.gen.whole:.2f} s beside the first: both fitted"
        )
    for who in (winner, loser):
        if not controls.ran_together(who.gen):
            stuck = next((why for pod in who.gen.members if (why := controls.never_ran(pod))), "")
            more = f"; {who.gang.name} was bound whole, but not seen to run{f' ({stuck})' if stuck else ''}"
            return found.inconclusive(more)
    late = loser.gen.whole - max(_let_go(winner), released)
    if late > subjects.placed_within(given):
        more = f"; it was bound only {late:.0f} s after the first had released its places"
        return found.fail(more, NOT_TAKEN_UP)
    return found.passed(f", and was bound whole at t={loser.gen.whole:.2f} s and ran")


def _released(winner: Attempt) -> float:
    """Return when a member of the winner first let go of its place."""
    ends = [t for pod in winner.gen.bound_members for t in (pod.finished, pod.deleted) if t is not None]
    return min(ends, default=math.inf)


def _let_go(winner: Attempt) -> float:
    """Return when the last member of the winner let go of its place, the end of time where one never did."""
    ends = [
        min((t for t in (pod.finished, pod.deleted) if t is not None), default=0.0)
        for pod in winner.gen.bound_members
    ]
    return max(ends, default=0.0)


def _never_met(evidence: Evidence, gangs: Sequence[Gang]) -> Finding:
    """Say why no pair came to the gang gate together."""
    tried = all_or_nothing.attempts(evidence, gangs)
    refused = next((a for a in tried if a.reading.enqueue), None)
    if refused is not None:
        said = refused.reading.enqueue[0]
        return wording.finding(
            Verdict.INCONCLUSIVE,
            REQUIRED,
            f"{refused.gang.title} was refused before the gang gate: at enqueue by {said.reporter} ({said.message}), "
            "so the two never competed there",
            refused.gang,
            evidence=tuple(s.key for s in refused.reading.enqueue[:4]),
            refusal=wording.refusal("enqueue", said, said.reporter),
            causes=(
                Cause(
                    "both together ask for more than the cluster's total",
                    "choose sizes that stay within the total together but do not fit by their shape (4 x 3 twice on "
                    "three nodes of 8)",
                ),
            ),
        )
    text = f"{wording.listed([gang.title for gang in gangs], 4)} did not compete: none was held while another ran"
    return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gangs[0])
