"""Freezing: the part of the session's log that is one scenario's evidence."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.log.model import SCHEMA, WATCH_TYPES, Span
from pytest_gpucluster.plain import private, redact
from pytest_gpucluster.scenario import log as logs
from pytest_gpucluster.scenario.entry import Entry


@dataclasses.dataclass(frozen=True)
class Slice:
    """One scenario's evidence, ready to be written.

    Attributes:
        header: first line.
        spans: coverage, cut to the scenario's time.
        lines: the lines as JSON, ordered by receipt.
    """

    header: Mapping[str, Any]
    spans: tuple[Span, ...]
    lines: tuple[str, ...]

    def text(self) -> Iterator[str]:
        """Yield the lines of the evidence file: header, spans, lines."""
        # Of a profile, and of an error, anything may stand in a header.
        header = {"type": "HEADER", "schema": SCHEMA, **redact.clean(self.header)}
        yield json.dumps(header, separators=(",", ":"), default=str)
        yield from map(logs.span_line, self.spans)
        yield from self.lines

    def write(self, path: pathlib.Path) -> None:
        """Write the file whole: nobody ever reads a half of it."""
        private.folder(path.parent)
        partial = path.with_suffix(f".{os.getpid()}.tmp")
        with private.opened(partial, "w") as file:
            file.writelines(f"{line}\n" for line in self.text())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)


def cut(
    entries: Sequence[Entry],
    spans: Iterable[Span],
    *,
    scenario: str,
    first: int,
    end: float,
    seeds: Iterable[str],
    context: frozenset[tuple[str, str]],
    header: Mapping[str, Any],
    horizon: float | None = None,
) -> Slice:
    """Return a scenario's slice of the log.

    Taken are: its notes, answers and container logs; the watch lines of the closure over owner uids from `seeds` and
    from objects that carry its label, whether they came before or after their owner; the Events about any of these;
    and the objects of `context` and the nodes of its pods, with their last state from before the scenario.

    Args:
        entries: the log's lines.
        spans: the log's spans.
        scenario: its name.
        first: index of its first line.
        end: its end, in seconds; open spans are cut here.
        seeds: uids of what it submitted.
        context: (kind, name) of cluster-scoped objects around it.
        header: header of the file.
        horizon: to when the watches were current; what they told later is left out, None to leave out nothing.
    """
    own = [entry for entry in entries[first:] if horizon is None or entry.t <= horizon or not entry.kind]
    header = header if horizon is None else {**header, "horizon": round(horizon, 6)}
    members = closure(own, seeds, scenario)
    context |= {("Node", e.node) for e in own if e.node and e.uid in members}
    chosen = [
        *_before(entries[:first], context),
        *(e for e in own if _belongs(e, members, scenario, context)),
    ]
    chosen.sort(key=lambda entry: entry.t)
    start = own[0].t if own else end
    covered = tuple(_clip(spans, start, end))
    header = {**header, "lines": len(covered) + len(chosen)}  # so that a cut shows, wherever it is
    return Slice(header, covered, tuple(entry.text for entry in chosen))


def closure(entries: Iterable[Entry], seeds: Iterable[str], scenario: str) -> frozenset[str]:
    """Return the uids of the seeds, of what carries the scenario's label, and of all that these own."""
    owned: dict[str, set[str]] = {}
    reached = set(seeds)
    for entry in entries:
        if entry.type not in WATCH_TYPES or not entry.uid:
            continue
        if entry.scenario == scenario:
            reached.add(entry.uid)
        for owner in entry.refs:
            owned.setdefault(owner, set()).add(entry.uid)
    frontier = list(reached)
    while frontier:
        for uid in owned.get(frontier.pop(), ()):
            if uid not in reached:
                reached.add(uid)
                frontier.append(uid)
    return frozenset(reached)


def _belongs(
    entry: Entry, members: frozenset[str], scenario: str, context: frozenset[tuple[str, str]]
) -> bool:
    if entry.type not in WATCH_TYPES:
        return entry.scenario == scenario
    return entry.uid in members or entry.about in members or (entry.kind, entry.name) in context


def _before(entries: Sequence[Entry], context: frozenset[tuple[str, str]]) -> list[Entry]:
    """Return the last line of each context object from before the scenario."""
    last: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        if entry.type in WATCH_TYPES and (entry.kind, entry.name) in context:
            last[entry.kind, entry.name] = entry
    return list(last.values())


def _clip(spans: Iterable[Span], start: float, end: float) -> Iterable[Span]:
    for span in spans:
        if span.start < end and span.end > start:
            yield dataclasses.replace(span, start=max(span.start, start), end=min(span.end, end))
