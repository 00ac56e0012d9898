"""What mutants are made of: lines, answers and payload facts exchanged in a copy of an evidence."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence, Line, Span
from pytest_gpucluster.evidence.scheduling import gangs, gates
from pytest_gpucluster.plain.copies import clone

Act = Callable[[Evidence], Evidence]


class Mutant(NamedTuple):
    """One planted departure.

    Attributes:
        what: what it changes, in a few words.
        act: the pure function that does.
        flips: rows that it turns red, each with the verdict it then gets; every other row stays as it is.
    """

    what: str
    act: Act
    flips: Mapping[str, str]


def all_to(verdict: str, rows: str) -> Mapping[str, str]:
    """Return the flips of many rows, parted by blanks, to one verdict."""
    return dict.fromkeys(rows.split(), verdict)


Table = Mapping[str, Mutant]
"""Name of a mutant -> the mutant."""


def with_lines(evidence: Evidence, lines: Iterable[Line], *, spans: Iterable[Span] | None = None) -> Evidence:
    """Return an evidence with other lines, in order of time."""
    ordered = sorted(lines, key=lambda line: line.t)
    fresh = [
        line if line.index == index else dataclasses.replace(line, index=index)
        for index, line in enumerate(ordered)
    ]
    header = dict(evidence.header)
    if "horizon" in header and fresh and fresh[-1].t > max((line.t for line in evidence.lines), default=0.0):
        header["horizon"] = fresh[-1].t  # what was made to happen later is still looked at
    return Evidence(fresh, header=header, spans=evidence.spans if spans is None else spans)


def edited(line: Line, change: Callable[[dict[str, Any]], None]) -> Line:
    """Return a watch line whose object was changed in a copy."""
    obj = clone(dict(line.object))
    change(obj)
    return dataclasses.replace(line, object=obj)


def each(
    evidence: Evidence, chosen: Callable[[Line], bool], change: Callable[[dict[str, Any]], None]
) -> Evidence:
    """Return an evidence in which every chosen watch line was changed."""
    return with_lines(evidence, (edited(line, change) if chosen(line) else line for line in evidence.lines))


def without(evidence: Evidence, chosen: Callable[[Line], bool]) -> Evidence:
    """Return an evidence that lacks the chosen lines."""
    return with_lines(evidence, (line for line in evidence.lines if not chosen(line)))


def later(evidence: Evidence, t: float, by: float) -> Evidence:
    """Let everything after a time happen later; what was watched then is watched later."""
    lines = (dataclasses.replace(line, t=line.t + by) if line.t > t else line for line in evidence.lines)
    spans = (
        dataclasses.replace(
            span,
            start=span.start + by if span.start > t else span.start,
            end=span.end + by if span.end > t else span.end,
        )
        for span in evidence.spans
    )
    told = with_lines(evidence, lines, spans=spans)
    horizon = evidence.header.get("horizon")
    if isinstance(horizon, int | float) and horizon > t:
        return Evidence(told.lines, header={**told.header, "horizon": horizon + by}, spans=told.spans)
    return told


def only(scenario: str, act: Act) -> Act:
    """Return the mutant that changes the evidence of one scenario."""
    return lambda evidence: act(evidence) if evidence.header.get("scenario") == scenario else evidence


Attempt = tuple[gangs.Gang, gangs.Generation, gates.Held]


def all_held(evidence: Evidence) -> list[Attempt]:
    """Return every attempt that was held at its gate and told why; a Job that is held suspended may have no members."""
    return [
        (gang, gen, held)
        for gang in gangs.gangs(evidence)
        for gen in gang.generations
        if gen.members
        and (held := gates.read(evidence, gang, gen).held) is not None
        and held.said is not None
    ]


def held(evidence: Evidence) -> Attempt | None:
    """Return the attempt that was held longest at its gate."""
    return max(all_held(evidence), key=lambda one: one[2].seconds, default=None)


def responses(
    evidence: Evidence, chosen: Callable[[Line], bool], change: Callable[[dict[str, Any]], None]
) -> Evidence:
    """Return an evidence in which every chosen answer of the API server was changed."""

    def answer(line: Line) -> Line:
        data = clone(dict(line.data))
        change(data)
        return dataclasses.replace(line, data=data)

    return with_lines(
        evidence, (answer(ln) if ln.type == "RESPONSE" and chosen(ln) else ln for ln in evidence.lines)
    )


def words(evidence: Evidence, change: Callable[[Line, dict[str, Any]], Mapping[str, Any] | None]) -> Evidence:
    """Rewrite the facts that payloads printed; None drops the line."""
    lines = []
    for line in evidence.lines:
        found, _ = payload_lines.find(str(line.data.get("line") or "")) if line.type == "LOG" else ([], 0)
        if not found:
            lines.append(line)
            continue
        told = change(line, clone(found[0]))
        if told == found[0]:
            # A fact that was left alone stays as it was printed, so that it shows that nothing was changed.
            lines.append(line)
        elif told is not None:
            text = f"{payload_lines.MARKER} {json.dumps(told)}"
            lines.append(dataclasses.replace(line, data={**line.data, "line": text}))
    return with_lines(evidence, lines)


def _last_to_say(evidence: Evidence, event: str) -> str:
    """Return the pod with the last name among those that printed a fact, so that a mutant spoils the same one."""
    return max((word.pod for word in payload_lines.words(evidence).of(event)), default="")


def on(event: str, change: Callable[[dict[str, Any]], None], *, alone: bool = False) -> Act:
    """Return the mutant that changes a fact of the payloads: of all pods, or of one `alone`."""

    def mutant(evidence: Evidence) -> Evidence:
        pod = _last_to_say(evidence, event)

        def act(line: Line, told: dict[str, Any]) -> dict[str, Any]:
            if told.get("event") == event and (not alone or line.data.get("pod") == pod):
                change(told)
            return told

        return words(evidence, act)

    return mutant


def drop(event: str, *, alone: bool = False) -> Act:
    """Return the mutant that takes a fact of the payloads away: from all pods, or from one `alone`."""

    def mutant(evidence: Evidence) -> Evidence:
        pod = _last_to_say(evidence, event)

        def act(line: Line, told: dict[str, Any]) -> dict[str, Any] | None:
            gone = told.get("event") == event and (not alone or line.data.get("pod") == pod)
            return None if gone else told

        return words(evidence, act)

    return mutant
