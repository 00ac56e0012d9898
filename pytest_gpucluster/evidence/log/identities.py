"""Identities: what no API server says of one object, or of two of one name, however the file came about.

An object keeps its name and its namespace, a pod its scheduler and, once it is bound, its node; what was deleted does
not come back, and a name is free only once its object is gone. Evidence that says otherwise was mixed from two
clusters, or edited, or lines of it are missing: what happened is then not known.
"""

from collections.abc import Callable, Iterable, Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import WATCH_TYPES, Line, Span

Read = Callable[[Line], str]


def _name(line: Line) -> str:
    return "/".join(filter(None, (fields.text(line.object, "metadata", "namespace"), line.name)))


def _scheduler(line: Line) -> str:
    return fields.text(line.object, "spec", "schedulerName") if line.kind == "Pod" else ""


def _node(line: Line) -> str:
    return fields.text(line.object, "spec", "nodeName") if line.kind == "Pod" else ""


FIXED: tuple[tuple[str, Read], ...] = (("name", _name), ("scheduler", _scheduler), ("node", _node))
"""What an object keeps from when it first has it: word, and how it is read."""


def contradiction(lines: Iterable[Line], watched: Sequence[Span]) -> str:
    """Return which line contradicts what came before it, "" where none does.

    Args:
        lines: all lines, in order of time.
        watched: spans in which every change was told; () where lines may be missing between two of one object.
    """
    known: dict[str, dict[str, str]] = {}
    there: dict[tuple[str, str], Line] = {}
    gone: dict[str, Line] = {}
    for line in lines:
        if line.type not in WATCH_TYPES or not line.uid:
            continue
        text = _changed(line, known.setdefault(line.uid, {}), whole=bool(watched))
        if not text and watched:
            text = _risen(line, gone) or _doubled(line, there, watched)
        if text:
            return text
    return ""


def _changed(line: Line, known: dict[str, str], *, whole: bool) -> str:
    """Return what an object has that it cannot have after what it had; whole: what is absent is told to be so."""
    for word, read in FIXED:
        value = read(line)
        before = known.setdefault(word, value) or value
        known[word] = before
        if value != before and (value or (whole and line.type != "DELETED")):
            return f"{line.key} has {word} {value or 'none'}, and had {before}: no object changes it"
    return ""


def _risen(line: Line, gone: dict[str, Line]) -> str:
    """Return whether an object is told of after it was deleted."""
    if line.uid in gone and line.t > gone[line.uid].t:
        return f"{line.key} is told of after it was deleted at t={gone[line.uid].t:.2f} s"
    if line.type == "DELETED":
        gone[line.uid] = line
    return ""


def _doubled(line: Line, there: dict[tuple[str, str], Line], watched: Sequence[Span]) -> str:
    """Return whether two objects have one name at once while their kind was watched."""
    place = (line.kind, _name(line))
    other = there.get(place)
    if other is not None and other.uid != line.uid and _seen_through(line.kind, other.t, line.t, watched):
        return f"{line.key} has uid {line.uid}, and {other.uid} of the same name was not deleted"
    if line.type == "DELETED":
        there.pop(place, None)
    else:
        there[place] = line
    return ""


def _seen_through(kind: str, start: float, end: float, watched: Sequence[Span]) -> bool:
    """Report whether one span of a kind goes from one moment to another."""
    return any(span.kind == kind and span.start <= start and end <= span.end for span in watched)
