"""Evidence: everything that was seen of one scenario, timed, and the spans in which we were looking.

One format serves the session log, a frozen slice and a recorded stream: JSON lines, each with a `type`.

`vocabulary.LINES` has the types and their fields, `vocabulary.NOTES` what the driver says of what it did.

A live watch counts as in sync only up to its last proof (`kube.coverage`), which a note `proven` tells: the header's
schema is 2 then, and a span without such notes is cut off where they end. Recordings of schema 1, and streams of others
without header, have no proofs; their spans are what they say.

`t` is in seconds on a monotonic clock that starts with the session or recording.
"""

import bisect
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar, cast

from pytest_gpucluster.evidence.log.shaping import shaped

SCHEMA = 2
"""What this version writes. In evidence of schema 1 spans are what they say; from 2 on one counts to its last proof."""
PROVEN = 2
"""The first schema whose spans are proven."""

WATCH_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED"})

Clock = Literal["receipt", "object"]

T = TypeVar("T")

EVERY_KIND = "*"
"""Kind of a span that covers all kinds: a recording watched whatever it shows, and what it does not show."""


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of evidence.

    Attributes:
        t: seconds since the start.
        type: see the module's table.
        kind: kind key for watch lines, else "".
        object: the Kubernetes object for watch lines, else an empty mapping.
        data: all other fields.
        index: position in the evidence, which breaks ties of `t`.
    """

    t: float
    type: str
    kind: str
    object: Mapping[str, Any]
    data: Mapping[str, Any]
    index: int

    @property
    def name(self) -> str:
        """Return the object's name, or ""."""
        return str(self.object.get("metadata", {}).get("name", ""))

    @property
    def uid(self) -> str:
        """Return the object's uid, or ""."""
        return str(self.object.get("metadata", {}).get("uid", ""))

    @property
    def key(self) -> str:
        """Return the key by which findings refer to this line, such as `Pod/x@12.345`."""
        if self.kind:
            return f"{self.kind}/{self.name}@{self.t:.3f}"
        said = next((self.data[k] for k in ("note", "case", "request", "pod") if self.data.get(k)), "")
        return f"{self.type}:{said}@{self.t:.3f}"


@dataclasses.dataclass(frozen=True)
class Span:
    """A span in which the watch of a kind was in sync, in seconds; `end` infinite means to the end."""

    kind: str
    start: float
    end: float
    how: str = ""


class Evidence:
    """The evidence of one scenario: header, lines in order, coverage.

    Attributes:
        header: scenario, clock, given, source.
        lines: every line but header and spans, ordered by receipt (`t`, then file order).
        spans: coverage.
    """

    def __init__(
        self, lines: Iterable[Line], *, header: Mapping[str, Any] | None = None, spans: Iterable[Span] = ()
    ) -> None:
        """Take lines as they are; `evidence.ingest` reads files."""
        self.header: Mapping[str, Any] = dict(header or {})
        self.lines: tuple[Line, ...] = tuple(lines)
        self.spans: tuple[Span, ...] = tuple(spans)
        self._answers: dict[Callable[[Evidence], Any], Any] = {}

    def derived(self, question: Callable[["Evidence"], T]) -> T:
        """Return what a pure question answers on this evidence; asked once, then remembered."""
        if question not in self._answers:
            self._answers[question] = question(self)
        return cast("T", self._answers[question])

    @property
    def given(self) -> Mapping[str, Any]:
        """Return what a judge is told: windows, N, roles, budgets, floors."""
        given = self.header.get("given", {})
        return given if isinstance(given, Mapping) else {}

    @property
    def clock(self) -> Clock:
        """Return `receipt` (a monotonic clock at receipt) or `object` (only whole seconds of objects)."""
        return "object" if self.header.get("clock") == "object" else "receipt"

    @property
    def end(self) -> float:
        """Return to when the evidence tells, in seconds: the header's `horizon`, else the last line, 0 without any.

        What comes after the horizon (clearing the stage, logs that arrive late) is told by chance.
        """
        horizon = self.header.get("horizon")
        if isinstance(horizon, int | float) and not isinstance(horizon, bool):
            return float(horizon)
        return self.lines[-1].t if self.lines else 0.0

    @functools.cached_property
    def _by_kind(self) -> Mapping[str, tuple[Line, ...]]:
        found: dict[str, list[Line]] = {}
        for line in self.lines:
            if line.type in WATCH_TYPES:
                found.setdefault(line.kind, []).append(line)
        return {kind: tuple(lines) for kind, lines in found.items()}

    @functools.cached_property
    def _by_uid(self) -> Mapping[str, tuple[Line, ...]]:
        found: dict[str, list[Line]] = {}
        for line in self.lines:
            if line.type in WATCH_TYPES and line.uid:
                found.setdefault(line.uid, []).append(line)
        return {uid: tuple(lines) for uid, lines in found.items()}

    @functools.cached_property
    def _by_type(self) -> Mapping[str, tuple[Line, ...]]:
        found: dict[str, list[Line]] = {"NOTE": [], "RESPONSE": [], "LOG": []}
        for line in self.lines:
            if line.type in found:
                found[line.type].append(line)
        return {kind: tuple(lines) for kind, lines in found.items()}

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of which at least one line was seen."""
        return frozenset(self._by_kind)

    def of_kind(self, kind: str) -> tuple[Line, ...]:
        """Return the watch lines of a kind, in order."""
        return self._by_kind.get(kind, ())

    def history(self, uid: str) -> tuple[Line, ...]:
        """Return the watch lines of one object, in order."""
        return self._by_uid.get(uid, ())

    def uids(self, kind: str) -> tuple[str, ...]:
        """Return the uids of a kind in order of first appearance."""
        return tuple(dict.fromkeys(line.uid for line in self.of_kind(kind)))

    def at(self, uid: str, t: float) -> Mapping[str, Any] | None:
        """Return the object as it was at time `t`, None before its first line and after its deletion."""
        lines = self.history(uid)
        place = bisect.bisect_right([line.t for line in lines], t)
        if place == 0 or lines[place - 1].type == "DELETED":
            return None
        return lines[place - 1].object

    def notes(self, note: str | None = None) -> tuple[Line, ...]:
        """Return the notes, all or those of one word of the vocabulary."""
        lines = self._by_type["NOTE"]
        return lines if note is None else tuple(line for line in lines if line.data.get("note") == note)

    def responses(self) -> tuple[Line, ...]:
        """Return the recorded answers of the API server."""
        return self._by_type["RESPONSE"]

    def logs(self, uid: str | None = None) -> tuple[Line, ...]:
        """Return log lines, all or those of one pod uid."""
        lines = self._by_type["LOG"]
        return lines if uid is None else tuple(line for line in lines if line.data.get("uid") == uid)

    def gaps(self, kind: str, start: float, end: float) -> tuple[tuple[float, float], ...]:
        """Return the parts of [start, end] in which the watch of a kind was not in sync, in seconds.

        "Never" over a gap is inconclusive. A kind without any span was never watched: one gap, the whole.
        """
        at = start
        missing: list[tuple[float, float]] = []
        for span in sorted((s for s in self.spans if s.kind in (kind, EVERY_KIND)), key=lambda s: s.start):
            if span.end <= at or span.start >= end:
                continue
            if span.start > at:
                missing.append((at, span.start))
            at = max(at, span.end)
        if at < end:
            missing.append((at, end))
        return tuple(missing)

    def __len__(self) -> int:
        """Return how many lines there are."""
        return len(self.lines)

    def __iter__(self) -> Iterator[Line]:
        """Yield the lines in order."""
        return iter(self.lines)


def with_uid(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object of the form that the API gives it, with a uid: `Kind/namespace/name` if it came without."""
    obj = shaped(obj)
    metadata = obj.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("uid"):
        return obj
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    metadata["uid"] = f"{obj.get('kind')}/{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    return {**obj, "metadata": metadata}
