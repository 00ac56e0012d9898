"""GANG-002: all or nothing, where there is room for a part of the gang only."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling import capacity, gates
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.gang import half_placement
from pytest_gpucluster.measure import samples
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

EPSILON = subjects.EPSILON

REQUIRED = (
    "while only part of the gang fits, no member is bound for the window; when room appears, all are bound"
)


NOT_TAKEN_UP = Cause(
    "the scheduler did not use the room that appeared",
    "look at the scheduler's log and the queue's state for the time after the room appeared",
)


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One attempt of a gang with what its gates said."""

    gang: Gang
    gen: Generation
    reading: gates.Reading


def attempts(evidence: Evidence, gangs: Sequence[Gang]) -> list[Attempt]:
    """Return every attempt of these gangs with its reading."""
    return [Attempt(gang, gen, gates.read(evidence, gang, gen)) for gang in gangs for gen in gang.generations]


def part_would_fit(evidence: Evidence, attempt: Attempt) -> tuple[str, ...]:
    """Return keys of the lines that show that some members had a place while the gang was held.

    Either the scheduler marks a member as one that would fit, or our own scarcity left slots free for one, or the
    nodes had room for one: slots are ours alone, so that all that holds them is in the evidence. (A Volcano with the
    action preempt marks no member: it tries the gang again after allocate, and says of each that room must be freed.)
    """
    held = attempt.reading.held
    if held is None:
        return ()
    noted: list[str] = []
    for note in evidence.notes("scarce"):
        resource = str(note.data.get("resource") or "")
        asked = [fields.requested(pod.last, resource) for pod in attempt.gen.members]
        if note.t > held.end or not any(asked):
            continue
        free = _free(evidence, note)
        if free is None:
            return ()  # the driver did something else than it says, so what follows is no trial
        if min(filter(None, asked)) <= free:
            noted.append(note.key)
    return held.would_fit or tuple(noted[:1]) or _room_for_one(evidence, attempt, held)


def _free(evidence: Evidence, note: Line) -> float | None:
    """Return how many slots the driver left free; None where its note contradicts itself, or the nodes."""
    free, total = samples.number(note.data.get("free")), samples.number(note.data.get("total"))
    if free is None or total is None or not 0 <= free <= total:
        return None
    resource = str(note.data.get("resource") or "")
    if not resource.startswith(names.SLOT_PREFIX):
        return free
    # Watches may be a little behind: the note counts if it is right at one of the moments before the driver goes on.
    seen = (line.t for line in (*evidence.of_kind("Node"), *evidence.of_kind("Pod")))
    until = min(
        (made.t for made in evidence.notes("room-made") if made.t > note.t),
        default=note.t + 2 * subjects.LATE,
    )
    moments = dict.fromkeys(
        [note.t, *(t for t in seen if note.t < t < min(until, note.t + 2 * subjects.LATE))]
    )
    return free if any(_agrees(capacity.rooms(evidence, resource, t), free, total) for t in moments) else None


def _agrees(rooms: Sequence[capacity.Room], free: float, total: float) -> bool:
    """Report whether nodes have as much as the driver says; a queue's quota may be less than they have."""
    there, size = sum(room.free for room in rooms), sum(room.allocatable for room in rooms)
    return not size or (total == size and there == free) or (total < size and there >= free)


def _room_for_one(evidence: Evidence, attempt: Attempt, held: gates.Held) -> tuple[str, ...]:
    seen = [end for _, end in subjects.windows(evidence) if held.start <= end <= held.end]
    when = seen[0] if seen else (held.start + held.end) / 2
    for pod in attempt.gen.members:
        for resource in fields.scarce_resources(pod.last):
            asked = fields.requested(pod.last, resource)
            free = [room.free for room in capacity.rooms(evidence, resource, when)]
            if resource.startswith(names.SLOT_PREFIX) and any(0 < asked <= one for one in free):
                return (pod.keys["created"],)
    return ()


def watched(evidence: Evidence, held: gates.Held) -> float:
    """Return for how many seconds a gang was watched at the gate: from its first reason, or over a noted window."""
    noted = [
        end - begin
        for begin, end in subjects.windows(evidence)
        if held.start <= begin and end <= held.end and held.said is not None and held.said.t <= end
    ]
    return max([held.seconds, *noted])


def gang_gate_reached(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether some gang was held at the gang gate: all members made, unbound, and the gang scheduler said why."""
    name = "the gang gate was reached"
    refused = ""
    limits = subjects.of(evidence, given)
    for gang in subjects.of_the_row(evidence, given):
        for gen in gang.generations:
            reading = gates.read(evidence, gang, gen)
            held = reading.held
            tried = held is not None and (held.seconds > limits.period or not held.bound_after)
            if held and held.said and tried and reading.scheduler.whole and gang.minimum > 1:
                text = (
                    f"{gang.name} was held at the gang gate from t={held.said.t:.2f} s ({held.seconds:.1f} s)"
                )
                return wording.presupposed(name, held=True, observed=text, evidence=(held.said.key,))
            if reading.enqueue:
                said = reading.enqueue[0]
                refused = f"{gang.name} was refused before the gang gate: at enqueue, {said.message}"
    return wording.presupposed(name, held=None, observed=refused or "no gang was held at the gang gate")


@subjects.judge
def all_or_nothing(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-002."""
    limits = subjects.of(evidence, given)
    named = subjects.cast(evidence, given, "subject")
    gangs = named if named is not None else subjects.placed(evidence)
    gangs = tuple(gang for gang in gangs if gang.minimum > 1)
    if not gangs:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, subjects.nothing(evidence, "gang of two or more members")
        )
    bad = half_placement.half_placed(evidence, given, gangs, REQUIRED)
    if bad is not None:
        return bad
    tried = [a for a in attempts(evidence, gangs) if a.reading.held is not None and a.reading.scheduler.whole]
    findings = [found for a in tried if (found := _tried(evidence, given, limits, a)) is not None]
    if findings:
        return wording.telling(findings)
    return _not_tried(evidence, given, gangs)


def _tried(evidence: Evidence, given: subjects.Given, limits: subjects.Terms, a: Attempt) -> Finding | None:
    """Return the finding on an attempt that was held at the gang gate, None where it was not held long enough."""
    held = a.reading.held
    if held is None or held.said is None:
        return None
    keys = (held.said.key, *part_would_fit(evidence, a)[:3])
    who = f"{a.gang.title}: 0 of {a.gen.minimum} members bound for {held.seconds:.1f} s at the gang gate"
    number = Number(
        "held with nothing bound", held.seconds, "s", limits.window, "three scheduler periods or the window"
    )
    short = watched(evidence, held) < limits.window - EPSILON
    found = wording.Findings(
        REQUIRED, a.gang, evidence=(*keys, *(step.key for step in a.gen.steps[:1])), numbers=(number,),
        currency=subjects.currency(evidence, given, a.gang),
    )  # fmt: skip

    if short:
        if held.seconds <= limits.period and held.bound_after:
            return None  # One session long: every gang waits so between its pods and its bind.
        return found.inconclusive(f"{who}, shorter than the window of {limits.window:.2f} s")
    gaps = evidence.gaps("Pod", a.gang.created, a.gen.whole if a.gen.whole is not None else held.end)
    if gaps:
        text = f"{who}, but pods were not watched from t={gaps[0][0]:.2f} s to {gaps[0][1]:.2f} s"
        return found.inconclusive(text)
    if not part_would_fit(evidence, a):
        text = f"{who}, but nothing shows that a part would have fitted: weak evidence"
        return found.inconclusive(text)
    if a.gen.whole is None:
        return _never_whole(evidence, given, who, found)
    room = room_before(evidence, a.gen.whole)
    late = 0.0 if room is None else a.gen.whole - room
    if late > subjects.placed_within(given):
        text = f"{who}; room appeared at t={room:.2f} s and the gang was whole only {late:.0f} s later"
        return found.fail(text, NOT_TAKEN_UP)
    text = (
        f"{who}, then {wording.part(a.gen.most_held, a.gen.minimum)} bound within {a.gen.spread or 0.0:.2f} s"
    )
    return found.passed(f"{text} from t={a.gen.first_bind or 0.0:.2f} s")


def room_before(evidence: Evidence, before: float) -> float | None:
    """Return when we last made room before a time: when what held it was gone, else when we asked for that."""
    times = [note.t for note in evidence.notes("slots-set") if _more(note.data)]
    for note in evidence.notes("room-made"):
        gone = [
            line.t for line in evidence.history(str(note.data.get("uid") or "")) if line.type == "DELETED"
        ]
        times.append(gone[0] if gone else note.t)
    return max((t for t in times if t <= before), default=None)


def _more(data: Mapping[str, Any]) -> bool:
    return (fields.number(data, "slots") or 0) > (fields.number(data, "was") or 0)


def _never_whole(evidence: Evidence, given: subjects.Given, who: str, found: wording.Findings) -> Finding:
    """Judge a gang that was held and never bound: whether room appeared decides."""
    room = next(iter(evidence.notes("room-made")), None)
    expired = subjects.timed_out(evidence, room.t) if room is not None else None
    if expired is not None and room is not None:
        text = f"{who}; room appeared at t={room.t:.2f} s and it was never bound (waited for {expired[0]})"
        return found.fail(text, NOT_TAKEN_UP)
    if "control" in (given.get("attested") or ()):
        return found.passed(f"{who}; the record attests that it is placed when room appears")
    return found.inconclusive(f"{who}; it was never bound later: no room was seen to appear")


def _not_tried(evidence: Evidence, given: subjects.Given, gangs: Sequence[Gang]) -> Finding:
    """Say why no gang came to the gang gate."""
    readings = attempts(evidence, gangs)
    refused = next((a for a in readings if a.reading.enqueue), None)
    if refused is not None:
        said = refused.reading.enqueue[0]
        return wording.finding(
            Verdict.INCONCLUSIVE,
            REQUIRED,
            f"{refused.gang.title} was refused before the gang gate: at enqueue by {said.reporter} ({said.message})",
            refused.gang,
            evidence=tuple(s.key for s in refused.reading.enqueue[:4]),
            refusal=wording.refusal("enqueue", said, said.reporter),
            causes=(
                Cause(
                    "the queue's requests together exceed the cluster's total, or pods of the same queue hold "
                    "the missing room",
                    "hold the missing room with something other than pods of that queue, or make it missing by "
                    "fragmentation (for example 3 x 5 GPUs on two nodes of 8)",
                ),
            ),
        )
    unseen = next(
        (
            a
            for a in readings
            if a.reading.unseen is not None
            and subjects.silent(evidence, given, a.gen.start, a.gen.start + a.reading.unseen)
        ),
        None,
    )
    if unseen is not None:
        text = f"{unseen.gang.title}: its PodGroup had no phase for {unseen.reading.unseen:.1f} s"
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, f"{text}: not seen by the scheduler", unseen.gang,
            causes=(wording.SCHEDULER_SILENT,),
        )  # fmt: skip
    if not any(a.reading.scheduler.whole for a in readings):
        text = f"never scarce, and the pods of {gangs[0].title} are placed by {readings[0].reading.scheduler.name}"
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text, gangs[0], causes=(wording.WRONG_SCHEDULER,)
        )
    text = f"never scarce: {gangs[0].title} was bound without having been held at the gang gate"
    if all(gang.whole is None for gang in gangs):
        text = f"no gang was held at the gang gate, and none was bound ({gangs[0].title})"
    return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gangs[0])
