"""Soundness: what evidence must be like for its spans to count, and what is left of them where it is not.

A file may have been cut, merged, put in another order, or lost its proofs; a clock may have jumped. A judge who asks
whether something *never* happened must then hear of a gap. Evidence of schema 1 and foreign recordings have no proofs,
and their spans are what they say; all else that can be seen in them is asked of them, too.
"""

import dataclasses
import datetime as dt
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.log import fields, identities
from pytest_gpucluster.evidence.log.model import PROVEN, WATCH_TYPES, Line, Span

LATE = 4.0
"""Seconds from what an object says of its own time to its receipt, beyond the least of the evidence, above which it was
held back: object times are whole seconds, and some may pass on the way from a server that is busy."""
ROUNDING = 1e-3
"""Seconds by which times of one moment may differ in a file."""
BACKWARDS = 0.5
"""Seconds by which a line may be older than the one before it: threads write what they took down side by side."""


_OF_PROOFS = frozenset({"proven", "unproven"})


@dataclasses.dataclass(frozen=True)
class Sound:
    """What counts of the spans of an evidence.

    Attributes:
        spans: the spans that count.
        damage: why the evidence as a whole is not to be trusted, "" where it is; then no span counts.
    """

    spans: tuple[Span, ...]
    damage: str = ""


def check(header: Mapping[str, Any], lines: Sequence[Line], spans: Sequence[Span], order: str = "") -> Sound:
    """Return what counts of the spans.

    Args:
        header: the header, with its `schema`.
        lines: all lines, in order of time.
        spans: the spans as they are written.
        order: what is wrong with the order of the file, "" for nothing.
    """
    damage = (
        order
        or _overlap(spans)
        or _nameless(lines)
        or _disguised(header, lines)
        or _cut(header, lines, spans)
        or _disorder(lines)
        or identities.contradiction(lines, spans if proven(header) else ())
    )
    if damage:
        return Sound((), damage)
    clipped = list(spans)
    if proven(header):
        last = _last_proofs(lines)
        clipped = [
            dataclasses.replace(span, end=min(span.end, last.get(span.kind, span.start))) for span in spans
        ]
    # Foreign evidence whose times are those of its objects says nothing of its receipt.
    late = _late(lines, spans) if proven(header) or header.get("clock") != "object" else {}
    return Sound(tuple(part for span in clipped for part in _without(span, late.get(span.kind, ()))))


def proven(header: Mapping[str, Any]) -> bool:
    """Report whether the spans of an evidence need proofs."""
    schema = header.get("schema")
    return isinstance(schema, int) and schema >= PROVEN


def relied(lines: Iterable[Line]) -> frozenset[str]:
    """Return the kinds whose watches had to show that they were current, whether they did or not."""
    notes = [line.data for line in lines if line.type == "NOTE"]
    shown = [kinds for note in notes if isinstance(kinds := note.get("kinds"), list)]
    doubtful = [str(note.get("kind")) for note in notes if note.get("note") == "unproven"]
    return frozenset({*(str(kind) for kinds in shown for kind in kinds), *doubtful})


def _disguised(header: Mapping[str, Any], lines: Iterable[Line]) -> str:
    """Return what evidence has that its schema has not: its header was changed, and its spans need their proofs."""
    if proven(header):
        return ""
    notes = {str(line.data.get("note")) for line in lines if line.type == "NOTE"}
    if header.get("horizon") is None and header.get("lines") is None and notes.isdisjoint(_OF_PROOFS):
        return ""
    return f"its header says schema {header.get('schema')}, and it has what schema {PROVEN} began with"


def _nameless(lines: Iterable[Line]) -> str:
    """Return which line of a watch tells of no object: what happened then is not known."""
    for line in lines:
        if line.type in WATCH_TYPES and not fields.text(line.object, "metadata", "name"):
            return f"a line of {line.kind or 'a watch'} at t={line.t:.2f} s tells of no object"
    return ""


def _overlap(spans: Iterable[Span]) -> str:
    """Return where two spans of one kind overlap: two watches, of which nobody knows who told what."""
    by_kind: dict[str, list[Span]] = {}
    for span in spans:
        by_kind.setdefault(span.kind, []).append(span)
    for kind, found in by_kind.items():
        found.sort(key=lambda span: (span.start, span.end))
        for one, other in itertools.pairwise(found):
            if other.start < one.end - ROUNDING:
                return f"two spans of {kind} overlap at t={other.start:.2f} s"
    return ""


def _cut(header: Mapping[str, Any], lines: Sequence[Line], spans: Sequence[Span]) -> str:
    """Return whether lines are missing: the header counts them, and the last note is written at the horizon."""
    horizon, count = header.get("horizon"), header.get("lines")
    if (horizon is not None or count is not None) and count != len(spans) + len(lines):
        return f"it has {len(spans) + len(lines)} lines, and {count} were written"
    if horizon is None:
        return ""
    if isinstance(horizon, bool) or not isinstance(horizon, int | float):
        return f"the header's horizon is {horizon!r}, not a time in seconds"
    notes = [line.t for line in lines if line.type == "NOTE"]
    if not notes or max(notes) < horizon - ROUNDING:
        return f"the evidence ends before its horizon at t={horizon:.2f} s: it was cut"
    return ""


def _disorder(lines: Iterable[Line]) -> str:
    """Return where the lines of an object are not in the order of its versions: a clock ran backwards."""
    versions: dict[str, tuple[int, str]] = {}
    for line in lines:
        version = fields.text(line.object, "metadata", "resourceVersion") if line.type in WATCH_TYPES else ""
        if not version.isdigit():
            continue
        before, key = versions.get(line.uid, (0, ""))
        if int(version) < before:
            return f"{line.key} is older than {key}, which came before it: a clock ran backwards"
        versions[line.uid] = (int(version), line.key)
    return ""


def _last_proofs(lines: Iterable[Line]) -> dict[str, float]:
    """Return when each kind was last proven to be current."""
    found: dict[str, float] = {}
    for line in lines:
        kinds = line.data.get("kinds") if line.type == "NOTE" and line.data.get("note") == "proven" else None
        if isinstance(kinds, list):
            found.update({str(kind): line.t for kind in kinds})
    return found


def _late(lines: Sequence[Line], spans: Sequence[Span]) -> dict[str, list[tuple[float, float]]]:
    """Return, for each kind, from when to when its watch was held back, by what objects say of their own times."""
    told = [(line, stamp) for line, stamp in _stamps(lines) if not _listed(line, spans)]
    if not told:
        return {}
    least = min(line.t - stamp for line, stamp in told)
    found: dict[str, list[tuple[float, float]]] = {}
    for line, stamp in told:
        if line.t - stamp - least > LATE:
            found.setdefault(line.kind, []).append((stamp + least + 1.0, line.t))
    return found


def _listed(line: Line, spans: Sequence[Span]) -> bool:
    """Report whether a line is of a list, or from before its kind was watched: what it says of itself is old."""
    mine = [span for span in spans if span.kind == line.kind]
    return not any(span.start + ROUNDING < line.t for span in mine) or any(
        abs(span.start - line.t) <= ROUNDING for span in mine
    )


def _stamps(lines: Iterable[Line]) -> Iterator[tuple[Line, float]]:
    """Yield the lines that newly say of an object when the API server wrote it, with that time since the epoch."""
    known: dict[str, set[tuple[str, float]]] = {}
    for line in lines:
        if line.type not in WATCH_TYPES:
            continue
        said = set(_said(line))
        fresh = said - known.get(line.uid, set())
        if (line.type == "ADDED" or line.uid in known) and fresh:
            yield line, max(stamp for _, stamp in fresh)
        known.setdefault(line.uid, set()).update(said)


def _said(line: Line) -> Iterator[tuple[str, float]]:
    """Yield what the API server stamped, with its time: two things of one second are two."""
    metadata = fields.sub(line.object, "metadata")
    made = _seconds(metadata.get("creationTimestamp"))
    if made is not None:
        yield "created", made
    asked, grace = (
        _seconds(metadata.get("deletionTimestamp")),
        metadata.get("deletionGracePeriodSeconds") or 0,
    )
    if asked is not None and isinstance(grace, int | float):
        yield "deleting", asked - grace
    for condition in fields.items(line.object, "status", "conditions") if line.kind == "Pod" else ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            bound = _seconds(condition.get("lastTransitionTime"))
            if bound is not None:
                yield "bound", bound


def _seconds(stamp: object) -> float | None:
    try:
        return dt.datetime.fromisoformat(str(stamp)).timestamp() if stamp else None
    except ValueError:
        return None


def _without(span: Span, gaps: Iterable[tuple[float, float]]) -> Iterator[Span]:
    """Yield what is left of a span without some gaps."""
    at = span.start
    for begin, end in sorted(gaps):
        if begin > at:
            yield dataclasses.replace(span, start=at, end=min(begin, span.end))
        at = max(at, end)
    if at < span.end:
        yield dataclasses.replace(span, start=at)
