"""LIFE-013 and LIFE-014: priority orders the queue, and makes room."""

import dataclasses
import itertools

from pytest_gpucluster.evidence.log import order
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import capacity, evictions, gates
from pytest_gpucluster.evidence.scheduling.evictions import Taken
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.refusal import preemption
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

ORDERED = "if two gangs wait in one queue, the one of higher priority is placed first"
TAKES = "a gang without room takes the room of a lower-priority gang in its queue, and of no other gang"

SESSION = 0.1
"""Part of the scheduler's period that a session is taken to last (recorded: a few hundredths of a second)."""

NO_PRIORITY = Cause(
    "the scheduler ignores priorities",
    "put the priority plugin into the first tier of volcano-scheduler.conf, before gang and drf, and do not start the "
    "scheduler with --priority-class=false",
)
NOT_TAKEN = Cause(
    "the scheduler has the action but takes nothing: the lower gang has nothing above minAvailable, its pods are "
    'marked volcano.sh/preemptable: "false", or the waiting pods set preemptionPolicy: Never',
    "compare minAvailable of the lower gang with its replicas, and look for these marks (kubectl get pod -o yaml)",
)
BEST = {Verdict.FAIL: 0, Verdict.PASS: 1, Verdict.INCONCLUSIVE: 2}


@dataclasses.dataclass(frozen=True)
class Ranked:
    """One attempt of a gang, with its priority."""

    gang: Gang
    gen: Generation
    priority: int

    def waits(self, evidence: Evidence) -> tuple[float, float]:
        """Return from when to when it was there and not yet bound; who is withdrawn does not wait.

        A watch of pods that is late shows a bind later than what came after it.
        """
        gone = [self.gang.job.deleted] if self.gang.job is not None else []
        bound = [order.seen_by(evidence, step.key, step.t) for step in self.gen.steps[:1]]
        ends = [*bound, self.gen.end, evidence.end, *gone]
        return self.gen.start, min(t for t in ends if t is not None)


def _ranked(evidence: Evidence) -> list[Ranked]:
    found = [(gang, evictions.priority(evidence, gang)) for gang in subjects.everyone(evidence)]
    return [Ranked(gang, gen, rank) for gang, rank in found if rank is not None for gen in gang.generations]


@subjects.judge
def orders_the_queue(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-013."""
    every = _ranked(evidence)
    if len({one.priority for one in every}) < 2:
        return wording.finding(Verdict.INCONCLUSIVE, ORDERED, _one_rank(evidence))
    findings = [
        found
        for high, low in itertools.permutations(every, 2)
        if high.priority > low.priority
        and high.gang.queue == low.gang.queue
        and (found := _order(evidence, given, high, low)) is not None
    ]
    if findings:
        return min(findings, key=lambda finding: BEST[finding.verdict])
    text = "no two gangs of different priority waited in one queue at the same time"
    return wording.finding(Verdict.INCONCLUSIVE, ORDERED, text)


def _one_rank(evidence: Evidence) -> str:
    if not subjects.everyone(evidence):
        return subjects.nothing(evidence)
    return "no two gangs of known, different priority in the evidence"


def _order(evidence: Evidence, given: subjects.Given, high: Ranked, low: Ranked) -> Finding | None:
    """Judge a pair; None where the two did not wait together."""
    limits = subjects.of(evidence, given)
    (high_from, high_to), (low_from, low_to) = high.waits(evidence), low.waits(evidence)
    both = min(high_to, low_to) - max(high_from, low_from)
    refused = [gates.read(evidence, one.gang, one.gen).refusals for one in (high, low)]
    if both <= limits.period or not all(refused):
        return None
    text = (
        f"{high.gang.name} (priority {high.priority}) and {low.gang.name} ({low.priority}) waited together for "
        f"{both:.1f} s"
    )
    keys = tuple(said.key for said in (refused[0][0], refused[1][0]))
    whole = high.gen.whole
    found = wording.Findings(
        ORDERED, high.gang, start=f"{text}; ",
        where=wording.places((*high.gen.bound_members, *low.gen.bound_members)) or (high.gang.title, low.gang.title),
        evidence=(*keys, *(step.key for one in (high, low) for step in one.gen.steps[:1])),
        repeat=(*wording.repeat(high.gang), *wording.repeat(low.gang)),
        currency=subjects.currency(evidence, given, high.gang),
    )  # fmt: skip

    gaps = evidence.gaps("Pod", max(high_from, low_from), max(high_to, low_to))
    if gaps:
        return found.inconclusive(f"pods were not watched from t={gaps[0][0]:.2f} s on")
    passed_over = low.gen.first_bind is not None and low.gen.first_bind <= high_to
    if low.gen.first_bind is not None and passed_over and (whole is None or low_to < whole - limits.period):
        until = f"{whole - low.gen.first_bind:.1f} s later" if whole is not None else "not at all"
        more = f"{low.gang.name} was bound from t={low.gen.first_bind:.2f} s, {high.gang.name} {until}"
        late = _came_too_late(evidence, limits, high, low)
        if late:
            return found.inconclusive(f"{more}; {late}")
        if not _no_larger(high.gang, low.gang):
            return found.inconclusive(f"{more}, but it asks for more: the room may not have sufficed")
        return found.fail(more, NO_PRIORITY, violation=True)
    if whole is None:
        expired = subjects.timed_out(evidence, max(high_from, low_from))
        return found.inconclusive(f"neither was bound{f' ({expired[0]})' if expired else ''}")
    if low.gen.first_bind is None:
        return found.inconclusive(f"{low.gang.name} was never bound: nothing shows that it could have been")
    if low.gen.first_bind <= whole + limits.period:
        return found.inconclusive("both were bound in one round: there was room for both")
    if high.gen.start < low.gen.start - limits.grain:
        return found.inconclusive(f"{high.gang.name} had also come first, which explains the order too")
    return found.passed(
        f"{high.gang.name} was bound at t={whole:.2f} s, {low.gang.name} {low.gen.first_bind - whole:.1f} s later",
    )


def _came_too_late(evidence: Evidence, limits: subjects.Terms, high: Ranked, low: Ranked) -> str:
    """Return why priority did not choose: the lower gang was let into the queue before the higher one was there.

    A session of the scheduler takes a part of its period: who comes within it is not in its snapshot.
    """
    reading = gates.read(evidence, high.gang, high.gen)
    if reading.held is not None or not reading.enqueue or low.gen.group is None or high.gen.group is None:
        return ""
    let_in = next((t for t, phase, _ in low.gen.group.phases if phase == "Inqueue"), None)
    if let_in is None or let_in > high.gen.group.created + limits.period * SESSION + limits.grain:
        return ""
    said = reading.enqueue[-1]
    return (
        f"{high.gang.name} was refused at enqueue by {said.reporter} ({wording.short(said.message)}): "
        f"{low.gang.name} had been "
        f"let into the queue at t={let_in:.2f} s, in a round that did not know of it"
    )


def _no_larger(one: Gang, other: Gang) -> bool:
    """Report whether a gang needs no more of what is scarce than another; False where it cannot be told."""
    mine, theirs = capacity.member_request(one), capacity.member_request(other)
    if mine is None or theirs is None or mine[0] != theirs[0]:
        return False
    return mine[1] <= theirs[1] and mine[1] * one.minimum <= theirs[1] * other.minimum


@subjects.judge
def makes_room(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge LIFE-014."""
    limits = subjects.of(evidence, given)
    every = _ranked(evidence)
    seen = tuple(one for one in evictions.taken(evidence) if one.why != evictions.RECLAIM)
    findings = [
        found for one in seen if (found := _for_whom(evidence, given, limits, every, one)) is not None
    ]
    if findings:
        return min(findings, key=lambda finding: BEST[finding.verdict])
    bad = _not_taken(evidence, given, limits, every)
    if bad is not None:
        return bad
    refused = preemption.refused_before(evidence)
    if refused is not None:
        gang, said = refused
        text = f"nothing was taken: {gang.title} was refused at enqueue by {said.reporter} ({said.message})"
        return wording.finding(
            Verdict.INCONCLUSIVE, TAKES, text, gang, causes=(preemption.REFUSED_BEFORE,), evidence=(said.key,)
        )
    if len({one.priority for one in every}) < 2:
        return wording.finding(Verdict.INCONCLUSIVE, TAKES, _one_rank(evidence))
    return wording.finding(
        Verdict.INCONCLUSIVE, TAKES, "nothing was taken, and no gang waited for the room of a lower one"
    )


def _for_whom(
    evidence: Evidence, given: subjects.Given, limits: subjects.Terms, every: list[Ranked], one: Taken
) -> Finding | None:
    """Judge one evicted member: for whom was it taken, and did that one get room?"""
    rank = evictions.priority(evidence, one.gang)
    waiting = [
        other
        for other in every
        if other.gang is not one.gang
        and other.gang.queue == one.gang.queue
        and other.waits(evidence)[0] <= one.t <= other.waits(evidence)[1]
    ]
    if rank is None or not waiting:
        return None
    who = f"{one.pod.name} (priority {rank}) was taken at t={one.t:.2f} s"

    def found(gang: Gang) -> wording.Findings:
        currency = subjects.currency(evidence, given, gang)
        return wording.Findings(TAKES, gang, start=who, evidence=(one.key,), currency=currency)

    above = [other for other in waiting if other.priority > rank]
    if not above:
        best = max(waiting, key=lambda other: other.priority)
        more = f" while only {best.gang.name} of priority {best.priority} waited"
        return found(one.gang).fail(more, NO_PRIORITY, violation=True, where=(one.pod.where,))
    placed = [
        other for other in above if other.gen.whole is not None and other.gen.whole >= one.t - limits.grain
    ]
    if not placed:
        return found(above[0].gang).inconclusive(f", and {above[0].gang.name} was not placed after it")
    taker = min(placed, key=lambda other: other.gen.whole or 0.0)
    seconds = (taker.gen.whole or one.t) - taker.gen.start
    number = Number("from submission to placed", seconds, "s", None, "no bound is declared")
    after = (taker.gen.whole or one.t) - one.t
    if after > subjects.placed_within(given, "bind", "delete"):
        more = f", and {taker.gang.name} was placed only {after:.0f} s later: nothing shows that it got this room"
        return found(taker.gang).inconclusive(more, numbers=(number,))
    more = (
        f" for {taker.gang.name} (priority {taker.priority}), which was placed {seconds:.1f} s after it came"
    )
    return found(taker.gang).passed(more, numbers=(number,))


def _not_taken(
    evidence: Evidence, given: subjects.Given, limits: subjects.Terms, every: list[Ranked]
) -> Finding | None:
    """Judge evidence in which nobody was taken: was there anybody to take, and anybody to take it?"""
    for high in sorted(every, key=lambda one: -one.priority):
        below = [
            low
            for low in every
            if low.priority < high.priority
            and low.gang.queue == high.gang.queue
            and low.gen.most_held > low.gen.minimum
            and low.gen.whole is not None
            and low.gen.whole <= high.waits(evidence)[1]
        ]
        held = gates.read(evidence, high.gang, high.gen).held
        if held is not None and held.seconds >= limits.window and not held.bound_after and below:
            text = (
                f"{high.gang.title} (priority {high.priority}) waited for {held.seconds:.1f} s at the gang gate, and "
                f"nothing of {below[0].gang.name} ({below[0].priority}) was taken, which had "
                f"{below[0].gen.most_held - below[0].gen.minimum} members above minAvailable"
            )
            return wording.finding(
                Verdict.FAIL, TAKES, text, high.gang, causes=(NOT_TAKEN,),
                evidence=tuple(said.key for said in held.reasons[:2]),
                currency=subjects.currency(evidence, given, high.gang),
            )  # fmt: skip
    return None
