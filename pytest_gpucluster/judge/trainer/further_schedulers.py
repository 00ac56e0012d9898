"""TRN-003: the gang rows hold for every further scheduler that the profile declares.

The judges are those of the gang rows. Each scheduler's part of the evidence is judged by itself: what happened from the
note that names it to the next one.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence, Span
from pytest_gpucluster.evidence.scheduling import gates
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.gang import all_or_nothing, barrier, two_gangs
from pytest_gpucluster.judge.trainer import jobset_cases
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "for each further scheduler: a gang that fits runs whole; while only part of a gang fits, no member is "
    "bound, and when room appears, all are; if two gangs compete for the room of one, the first runs whole, then "
    "the other"
)
RUNS = "a gang that fits runs whole"

NO_PODS = Cause(
    "nobody made the pods of the Jobs: their controller does not act, or may not create pods",
    "look at kube-controller-manager, and at the Jobs' events (kubectl describe job)",
)
UNLOOKED = Cause(
    "the scheduler that the pods name does not look at them, or keeps its reason to itself",
    "look at its log, and at schedulerName and the events of the pods (kubectl describe pod)",
)

Judge = Callable[[Evidence, subjects.Given], Finding]


@dataclasses.dataclass(frozen=True)
class Part:
    """What was tried with the gangs of one scheduler."""

    scheduler: str
    evidence: Evidence
    given: Mapping[str, Any]


@subjects.judge
def further_hold(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge TRN-003."""
    tried = list(_parts(evidence, given))
    # What has no roles, in evidence that tells roles, has no gang either: it would be judged by those of others.
    parts = [part for part in tried if part.given["roles"] or not subjects.roles(evidence, given)]
    lacking = _lacking(given, tried, parts)
    if not parts:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, "no gang of a further scheduler was tried")
    found = [
        (part, word, judge(part.evidence, part.given)) for part in parts for word, judge in JUDGES.items()
    ]
    worst = wording.gravest(finding for _, _, finding in found)
    told = "; ".join(
        f"{part.scheduler}: {_told([(word, one) for whose, word, one in found if whose is part])}"
        for part in parts
    )
    numbers = tuple(
        dataclasses.replace(number, name=f"{part.scheduler}: {number.name}")
        for part, _, finding in found
        for number in finding.numbers[:1]
    )
    if worst.verdict is not Verdict.PASS:
        part, word = next((part, word) for part, word, one in found if one is worst)
        text = f"{part.scheduler}, {word}: {worst.observed}"
        others = "; ".join(
            f"{each.scheduler}: {_told([(w, one) for whose, w, one in found if whose is each])}"
            for each in parts
            if each is not part
        )
        return dataclasses.replace(
            worst,
            required=REQUIRED,
            observed=f"{text}; {others}" if others else text,
            numbers=numbers or worst.numbers,
        )
    if lacking:
        text = f"no gang of {wording.listed(lacking)} was tried; else: {told}"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, numbers=numbers)
    keys = tuple(key for _, _, finding in found for key in finding.evidence[:2])
    return wording.finding(
        Verdict.PASS, REQUIRED, told, numbers=numbers, evidence=keys,
        where=tuple(dict.fromkeys(place for _, _, one in found for place in one.where[:2])),
        repeat=tuple(dict.fromkeys(line for _, _, one in found for line in one.repeat[:2])),
        currency=next((one.currency for _, _, one in found if one.currency), None),
    )  # fmt: skip


def _lacking(given: subjects.Given, tried: Sequence[Part], parts: Sequence[Part]) -> list[str]:
    """Return the declared ways to write a gang of which none is in the evidence."""
    declared: object = given.get("schedulers")
    listed = (
        [str(name) for name in declared]
        if isinstance(declared, Sequence) and not isinstance(declared, str)
        else []
    )
    shown = {part.scheduler for part in parts}
    return [
        name for name in dict.fromkeys((*listed, *(part.scheduler for part in tried))) if name not in shown
    ]


def _told(findings: list[tuple[str, Finding]]) -> str:
    """Return what held and what did not, in a few words."""
    words = {Verdict.PASS: "holds", Verdict.FAIL: "violated", Verdict.INCONCLUSIVE: "not decided"}
    return ", ".join(f"{word} {words.get(one.verdict, str(one.verdict))}" for word, one in findings)


def _parts(evidence: Evidence, given: subjects.Given) -> Iterator[Part]:
    notes = evidence.notes("tries")
    roles = subjects.roles(evidence, given)
    ends = [*(note.t for note in notes[1:]), evidence.end + 1e-9]
    for note, end in zip(notes, ends, strict=False):
        name = str(note.data.get("scheduler") or "")
        mine = {
            role.partition(":")[2]: [
                {"kind": kind, "name": called, "uid": uid} for kind, called, uid in members
            ]
            for role, members in roles.items()
            if role.partition(":")[0] == name and ":" in role
        }
        yield Part(name, _cut(evidence, note.t, end), {**given, "scheduler": name, "roles": mine})


def _cut(evidence: Evidence, start: float, end: float) -> Evidence:
    """Return the evidence of a span: its lines, and what was known of the nodes before."""
    lines = [
        line for line in evidence.lines if start <= line.t < end or (line.t < start and line.kind == "Node")
    ]
    spans = [
        Span(one.kind, max(one.start, start), min(one.end, end), one.how)
        for one in evidence.spans
        if one.start < end and one.end > start
    ]
    return Evidence(lines, header=evidence.header, spans=spans)


def runs(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge whether a gang that was not held ran whole: all its members were Running at once."""
    named = subjects.cast(evidence, given, "left", "right") or ()
    free = [
        (gang, gen)
        for gang, gen in itertools.chain.from_iterable(((g, gen) for gen in g.generations) for g in named)
        if gen.whole is not None
    ]
    if not free:
        expired = subjects.timed_out(evidence)
        verdict = Verdict.FAIL if expired and named else Verdict.INCONCLUSIVE
        text = (
            subjects.nothing(evidence)
            if not named
            else f"neither of {len(named)} gangs that fit was ever whole"
        )
        cause = (_silent(named),) if named and _unsaid(evidence, given) else ()
        return wording.finding(
            verdict, RUNS, f"{text} (waited for {expired[0]})" if expired else text, named[0] if named else None,
            causes=cause,
        )  # fmt: skip
    gang, gen = min(free, key=lambda one: one[1].whole or 0.0)
    met = barrier.met(evidence, given, gang, gen, needed=False)
    text = f"{gang.name}: {wording.part(gen.most_held, gen.minimum)} bound by t={gen.whole or 0.0:.2f} s; {met.text}"
    number = Number("bind spread", gen.spread, "s", origin="first to last needed bind")
    return wording.finding(
        met.verdict, RUNS, text, gang, causes=met.causes, evidence=(gen.steps[0].key, *met.keys), numbers=(number,),
        currency=subjects.currency(evidence, given, gang), violation=met.violation,
    )  # fmt: skip


def _silent(named: Sequence[Gang]) -> Cause:
    """Return who did not act on gangs of which nobody said anything: a scheduler cannot place what has no pods."""
    if not any(gang.pods for gang in named):
        return jobset_cases.SILENT if any(gang.kind == names.JOBSET for gang in named) else NO_PODS
    volcano = any(not group.native for gang in named for group in gang.groups)
    return wording.SCHEDULER_SILENT if volcano else UNLOOKED


def _unsaid(evidence: Evidence, given: subjects.Given) -> bool:
    """Report whether no scheduler said anything of any of the gangs."""
    named = subjects.cast(evidence, given, "left", "right") or ()
    return not any(gates.read(evidence, gang, gen).refusals for gang in named for gen in gang.generations)


JUDGES: Mapping[str, Judge] = {
    "two gangs for the room of one": two_gangs.two_gangs,
    "all or nothing": all_or_nothing.all_or_nothing,
    "runs whole": runs,
}
"""What a scheduler must hold, in words, and who judges it; the first that fails is told in full."""
