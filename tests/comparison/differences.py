"""Where two clusters differ, and the reviewed list of differences that are known."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.comparison.streams import Streams

EMBEDDED, REAL = "embedded", "kind"
SIDES = (EMBEDDED, REAL, "either")
WHATS = ("verdict", "state", "event", "order")
KEYS = {"what", "side", "scenarios", "rows", "of", "text", "why", "sometimes", "schedulers"}
UNDECIDED = ("not_applicable", "not_built", "not_run")


class ListError(Exception):
    """An entry of the list that says too little or something unknown; one line."""


@dataclasses.dataclass(frozen=True, order=True)
class Difference:
    """Something that one side has and the other has not.

    Attributes:
        what: `verdict`, `state`, `event` or `order`.
        where: row or scenario.
        side: who has it; for verdicts and orders both have something, and it is `either`.
        of: what it is about.
        text: what it is.
    """

    what: str
    where: str
    side: str
    of: str
    text: str

    def __str__(self) -> str:
        """Return one line."""
        who = "" if self.side == "either" else f"only {self.side}: "
        return f"{self.where}: {self.what} of {self.of}: {who}{self.text}"


@dataclasses.dataclass(frozen=True)
class Known:
    """An entry of the list: what may differ, and why that is right.

    Attributes:
        what: `verdict`, `state`, `event` or `order`.
        side: whose it may be.
        where: patterns of rows or scenarios; empty: any.
        of: pattern of what it is about.
        text: pattern of what it is.
        why: the reason, for a reader who knows neither side.
        sometimes: it depends on milliseconds, so that it need not show in every run.
        schedulers: with which schedulers it can show; empty: any.
    """

    what: str
    side: str
    where: tuple[str, ...]
    of: str
    text: str
    why: str
    sometimes: bool
    schedulers: tuple[str, ...]

    def covers(self, found: Difference) -> bool:
        """Report whether a difference is this one."""
        return (
            self.what == found.what
            and self.side in ("either", found.side)
            and (not self.where or any(re.fullmatch(each, found.where) for each in self.where))
            and re.fullmatch(self.of, found.of) is not None
            and re.fullmatch(self.text, found.text, re.DOTALL) is not None
        )


def load(path: Path) -> list[Known]:
    """Return the list.

    Raises:
        ListError: an entry has a key or value that is not known, or no reason.
    """
    return [
        _entry(number, each) for number, each in enumerate(yaml.safe_load(path.read_text()) or [], start=1)
    ]


def _entry(number: int, entry: Mapping[str, Any]) -> Known:
    where = f"entry {number}"
    unknown = sorted(set(entry) - KEYS)
    if unknown:
        raise ListError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(KEYS))}")
    if entry.get("what") not in WHATS:
        raise ListError(f"{where}: what: {entry.get('what')!r} is none of {', '.join(WHATS)}")
    if entry.get("side", "either") not in SIDES:
        raise ListError(f"{where}: side: {entry.get('side')!r} is none of {', '.join(SIDES)}")
    if len(str(entry.get("why") or "").split()) < 5:
        raise ListError(
            f"{where}: why: a difference that nobody can explain is a defect, not a known difference"
        )
    return Known(
        what=entry["what"],
        side=entry.get("side", "either"),
        where=tuple(entry.get("scenarios") or entry.get("rows") or ()),
        of=entry.get("of", ".*"),
        text=entry.get("text", ".*"),
        why=" ".join(entry["why"].split()),
        sometimes=bool(entry.get("sometimes", False)),
        schedulers=tuple(entry.get("schedulers") or ()),
    )


def of_verdicts(embedded: Mapping[str, str], real: Mapping[str, str]) -> list[Difference]:
    """Return the rows that both decided, differently."""
    both = sorted(
        row for row in embedded.keys() & real.keys() if not {embedded[row], real[row]} & set(UNDECIDED)
    )
    return [
        Difference("verdict", row, "either", row, f"embedded {embedded[row]}, kind {real[row]}")
        for row in both
        if embedded[row] != real[row]
    ]


def of_streams(scenario: str, embedded: Streams, real: Streams) -> list[Difference]:
    """Return what only one of them showed in a scenario that both watched, and what came in another order."""
    both = embedded.watched & real.watched
    embedded, real = embedded.of_kinds(both), real.of_kinds(both)
    found = [
        Difference(each.what, scenario, side, each.of, each.text)
        for side, ours, theirs in ((EMBEDDED, embedded, real), (REAL, real, embedded))
        for each in ours.seen - theirs.seen
    ]
    found += [
        Difference(
            "order", scenario, "either", a.of, f"embedded: {a.text}, then {b.text}; kind: the other way round"
        )
        for a, b in embedded.before
        if (b, a) in real.before
    ]
    return sorted(found)


@dataclasses.dataclass(frozen=True)
class Reviewed:
    """Differences against the list.

    Attributes:
        unknown: differences that no entry covers.
        known: entry -> what it covered.
        stale: entries that cover nothing though they should.
        fleeting: differences that no entry covers, and that were gone when the same was run again.
    """

    unknown: Sequence[Difference]
    known: Mapping[Known, Sequence[Difference]]
    stale: Sequence[Known]
    fleeting: Sequence[Difference] = ()

    @property
    def unsettled(self) -> set[str]:
        """Return the scenarios in which something unknown was seen that may be a matter of milliseconds."""
        return {each.where for each in self.unknown if each.what != "verdict"}

    def beside(self, again: Iterable[Difference], compared: Collection[str]) -> "Reviewed":
        """Return what is left when the same was run again: what shows twice, and every verdict, stays a difference.

        What an object was seen doing between two looks depends on who was faster; what the double does otherwise than
        the real thing shows each time.

        Args:
            again: what differed in the second runs.
            compared: the scenarios that these have on both sides; of another one nothing is gone.
        """
        twice = set(again)
        gone = [
            each
            for each in self.unknown
            if each.what != "verdict" and each.where in compared and each not in twice
        ]
        left = [each for each in self.unknown if each not in gone]
        return dataclasses.replace(self, unknown=left, fleeting=gone)


def review(found: Iterable[Difference], listed: Sequence[Known], scheduler: str) -> Reviewed:
    """Hold differences against the list."""
    unknown: list[Difference] = []
    known: dict[Known, list[Difference]] = {each: [] for each in listed}
    for each in found:
        covering = [entry for entry in listed if entry.covers(each)]
        for entry in covering:
            known[entry].append(each)
        if not covering:
            unknown.append(each)
    stale = [
        entry
        for entry, covered in known.items()
        if not covered and not entry.sometimes and (not entry.schedulers or scheduler in entry.schedulers)
    ]
    return Reviewed(unknown, known, stale)
