"""The pieces of an evidence: each can be taken away alone, and a row knows which of them it can do without."""

import copy
import dataclasses
import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_gpucluster.evidence import Evidence, Line
from pytest_gpucluster.evidence.log import payload_forms, payload_lines
from pytest_gpucluster.evidence.log.model import Span
from pytest_gpucluster.judge import needs, needs_of_judges
from pytest_gpucluster.mutants import base
from pytest_gpucluster.requirement import Requirement


@dataclasses.dataclass(frozen=True)
class Piece:
    """One piece of an evidence.

    Attributes:
        sort: what it is: span, gap, kind, object, log, fact, figure, answer, dry_run, note, given.
        what: which one, for a reader.
        alike: pieces of one sort that share it are treated alike, so that one of them stands for them in a sample.
        kind: kind of spans and objects, event of facts and figures, word of notes, key of `given`.
        uid: uid of the object, or of the pod that spoke.
        part: path of a figure, pod of a note on its logs.
        without: the evidence that lacks it.
    """

    sort: str
    what: str
    alike: str
    kind: str
    uid: str
    part: str
    without: Callable[[], Evidence]


def pieces(evidence: Evidence) -> Iterator[Piece]:
    """Yield every piece of an evidence."""
    yield from _spans(evidence)
    yield from _objects(evidence)
    yield from _logs(evidence)
    yield from _lines(evidence)
    yield from _given(evidence)


def _spans(evidence: Evidence) -> Iterator[Piece]:
    """Yield the coverage of each kind: all of it, and what lies over each window, or over the middle."""
    first, third = evidence.spans[0].start, (evidence.end - evidence.spans[0].start) / 3
    begins, ends = evidence.notes("window-begin"), evidence.notes("window-end")
    windows = [(a.t, b.t) for a, b in zip(begins, ends, strict=True)] or [(first + third, first + 2 * third)]
    for kind in sorted({span.kind for span in evidence.spans}):
        rest = [span for span in evidence.spans if span.kind != kind]
        act = functools.partial(base.with_lines, evidence, evidence.lines, spans=rest)
        yield Piece("span", kind, kind, kind, "", "", act)
        for start, end in windows:
            cut = [
                *rest,
                *(each for span in evidence.spans if span.kind == kind for each in _cut(span, start, end)),
            ]
            act = functools.partial(base.with_lines, evidence, evidence.lines, spans=cut)
            yield Piece("gap", f"{kind} {start:.2f} to {end:.2f}", kind, kind, "", "", act)


def _cut(span: Span, start: float, end: float) -> Iterator[Span]:
    for a, b in ((span.start, min(span.end, start)), (max(span.start, end), span.end)):
        if a < b:
            yield dataclasses.replace(span, start=a, end=b)


def _without(evidence: Evidence, chosen: Callable[[Line], bool]) -> Callable[[], Evidence]:
    return lambda: base.without(evidence, chosen)


def _objects(evidence: Evidence) -> Iterator[Piece]:
    """Yield each kind, and each object with all that was seen of it."""
    for kind in sorted(evidence.kinds):
        yield Piece("kind", kind, kind, kind, "", "", _without(evidence, functools.partial(_of, kind)))
        for uid in evidence.uids(kind):
            name = evidence.history(uid)[0].name
            act = _without(evidence, lambda line, uid=uid: line.uid == uid)
            yield Piece("object", f"{kind}/{name}", uid, kind, uid, "", act)


def _of(kind: str, line: Line) -> bool:
    return line.kind == kind


def _logs(evidence: Evidence) -> Iterator[Piece]:
    """Yield all that one container wrote."""
    for uid, pod, name in dict.fromkeys(_place(line) for line in evidence.logs()):
        act = _without(evidence, lambda line, at=(uid, pod, name): line.type == "LOG" and _place(line) == at)
        yield Piece("log", f"{pod}/{name}", f"{pod}/{name}", "", uid, "", act)


def _place(line: Line) -> tuple[str, str, str]:
    return tuple(str(line.data.get(key) or "") for key in ("uid", "pod", "container"))  # type: ignore[return-value]


def _lines(evidence: Evidence) -> Iterator[Piece]:
    """Yield each note, answer and fact, and each figure of a fact."""
    for line in evidence.lines:
        act = _without(evidence, lambda other, line=line: other is line)
        if line.type == "NOTE":
            word, role = str(line.data.get("note")), str(line.data.get("role") or "")
            yield Piece("note", line.key, f"{word} {role}", word, "", str(line.data.get("pod") or ""), act)
        elif line.type == "RESPONSE":
            asked = str(line.data.get("request"))
            sort = "dry_run" if line.data.get("dry_run") else "answer"
            yield Piece(sort, f"{asked} {line.data.get('code')}", asked, asked, "", "", act)
        elif line.type == "LOG":
            yield from _facts(evidence, line, act)


def _facts(evidence: Evidence, line: Line, act: Callable[[], Evidence]) -> Iterator[Piece]:
    found, _ = payload_lines.find(str(line.data.get("line") or ""))
    if len(found) != 1:
        return
    fact, (uid, pod, container) = found[0], _place(line)
    event = str(fact.get("event"))
    yield Piece("fact", f"{event} of {pod}/{container}", f"{event} {container}", event, uid, "", act)
    for path in _paths(fact):
        part = ".".join("[]" if isinstance(key, int) else key for key in path)
        if part != "event":
            less = functools.partial(_less, evidence, line, fact, path)
            yield Piece(
                "figure", f"{event}.{part} of {pod}/{container}", f"{event} {part}", event, uid, part, less
            )


def _paths(value: object, so_far: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each part of a fact that is named."""
    parts = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in parts:
        if isinstance(key, str):
            yield (*so_far, key)
        yield from _paths(inner, (*so_far, key))


def _less(evidence: Evidence, line: Line, fact: Mapping[str, Any], path: tuple[Any, ...]) -> Evidence:
    told = at = copy.deepcopy(dict(fact))
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    other = dataclasses.replace(
        line, data={**line.data, "line": f"{payload_lines.MARKER} {json.dumps(told)}"}
    )
    return base.with_lines(evidence, (other if each is line else each for each in evidence.lines))


def _given(evidence: Evidence) -> Iterator[Piece]:
    for key in evidence.given:
        rest = {name: value for name, value in evidence.given.items() if name != key}
        less = functools.partial(
            Evidence, evidence.lines, header={**evidence.header, "given": rest}, spans=evidence.spans
        )
        yield Piece("given", key, key, key, "", "", less)


class Wanted:
    """Which pieces a row cannot do without, as `judge.needs` says it."""

    def __init__(self, row: Requirement, evidence: Evidence) -> None:
        """Read what the row looks at in its good evidence."""
        self._evidence = evidence
        self._needs = needs_of_judges.of(row.judge)
        self._look = needs.look(evidence, evidence.given, self._needs)
        self._told = (*self._needs.facts, *self._needs.some, *self._needs.told)

    def needs(self, piece: Piece) -> bool:
        """Report whether the row must not pass without a piece."""
        return bool(getattr(self, f"_{piece.sort}")(piece))

    def _span(self, piece: Piece) -> bool:
        return piece.kind in self._look.kinds

    def _gap(self, piece: Piece) -> bool:
        gapped = piece.without()
        begun = self._look.kinds.get(piece.kind)
        return begun is not None and bool(gapped.gaps(piece.kind, begun, self._look.end))

    def _kind(self, piece: Piece) -> bool:
        return (piece.kind in self._needs.seen and piece.kind in self._look.kinds) or any(
            line.uid in self._look.objects for line in self._evidence.of_kind(piece.kind)
        )

    def _object(self, piece: Piece) -> bool:
        """Report whether it is one of those that the row judges: a foreign object, or an Event, is none.

        Of a PodGroup that came and went between two attempts, without a member, nobody can know.
        """
        empty = {
            group.uid
            for gang in self._look.gangs
            for group in gang.groups[1:]
            if not any(group.created <= pod.created < (group.deleted or math.inf) for pod in gang.pods)
        }
        return piece.uid in self._look.objects - empty

    def _log(self, piece: Piece) -> bool:
        return bool(self._told) and piece.uid in self._look.pods

    def _fact(self, piece: Piece) -> bool:
        """Report whether somebody says it; of what one task says alone nobody knows that it lacks."""
        mine = next((gang for gang in self._look.gangs for pod in gang.pods if pod.uid == piece.uid), None)
        tasks = Counter(pod.task for pod in mine.pods) if mine is not None else Counter()
        alone = any(
            tasks[pod.task] == 1 for pod in (mine.pods if mine is not None else ()) if pod.uid == piece.uid
        )
        said = piece.kind in self._needs.facts or (piece.kind in self._needs.some and not alone)
        return said and piece.uid in self._look.pods

    def _figure(self, piece: Piece) -> bool:
        parts = payload_forms.FORMS.get(piece.kind, ())
        said = piece.kind in self._told and piece.uid in self._look.pods
        return said and any(part == piece.part or part.startswith(f"{piece.part}.") for part in parts)

    def _answer(self, piece: Piece) -> bool:
        """Report whether it is the answer to a create call: the driver's word on what it made stands beside it."""
        return piece.kind.startswith("create ")

    def _dry_run(self, piece: Piece) -> bool:
        """A dry run makes nothing; judges ask for those on whose answers they rest."""
        return False

    def _note(self, piece: Piece) -> bool:
        if piece.kind == "logs":
            pods = {self._evidence.history(uid)[0].name for uid in self._look.pods}
            return bool(self._told) and piece.part in pods
        for either in (words.split("|") for words in self._needs.notes):
            if piece.kind in either:
                return sum(len(self._evidence.notes(word)) for word in either) == 1
        return piece.kind in ("submitted", "refused", "window-begin", "window-end", "end")

    def _given(self, piece: Piece) -> bool:
        return piece.kind in needs.DECLARED or piece.kind in self._needs.given
