"""What the programs in the pods said: marker lines in container logs, and what torch prints of itself.

A payload prints one JSON object a fact behind the marker `GPUCONF1`, in one write. Between its pen and this reader
lie prefixes (time stamps, ranks, `[rank0]:`), interleaved writers and cut lines: the marker may stand anywhere in a
line, two markers may share one, and a line without a whole object is counted as torn.
"""

import dataclasses
import json
from collections.abc import Container, Mapping
from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence, Line

MARKER = "GPUCONF1"
EPOCH = 1e9
"""Seconds since 1970 from which on a number is taken for a time of day."""
MOST_RANKS = 100_000
"""Ranks of the largest world that is believed."""

_DECODER = json.JSONDecoder()


@dataclasses.dataclass(frozen=True)
class Word:
    """One fact that a payload printed."""

    t: float
    uid: str
    pod: str
    container: str
    event: str
    data: Mapping[str, Any]
    key: str

    @property
    def attempt(self) -> int:
        """Return the attempt that the payload was told, 0 for none."""
        value = self.data.get("attempt")
        return value if isinstance(value, int) else 0

    def number(self, name: str) -> int | None:
        """Return a whole number of the fact, None where it is absent or of another type."""
        value = self.data.get(name)
        if isinstance(value, bool):
            return None
        if isinstance(value, str) and value.strip().lstrip("-").isdigit():
            return int(value)
        return value if isinstance(value, int) else None


def find(text: str) -> tuple[list[dict[str, Any]], int]:
    """Return the objects behind the markers of one line, and how many markers had none that could be read."""
    found: list[dict[str, Any]] = []
    torn = 0
    at = text.find(MARKER)
    while at >= 0:
        start = at + len(MARKER)
        while start < len(text) and text[start] in " \t":
            start += 1
        try:
            obj, end = _DECODER.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError):
            obj, end = None, start
        if isinstance(obj, dict):
            found.append(obj)
        else:
            torn += 1
        at = text.find(MARKER, max(end, start))
    return found, torn


@dataclasses.dataclass(frozen=True)
class Words:
    """All that payloads said in one evidence."""

    words: tuple[Word, ...]
    torn: Mapping[str, int]
    """Pod uid -> markers without a readable object."""
    logged: frozenset[str]
    """Uids of pods of which at least one log line was read."""

    def of(self, event: str, uid: str | None = None) -> tuple[Word, ...]:
        """Return the facts of one kind, of all pods or of one."""
        return tuple(w for w in self.words if w.event == event and (uid is None or w.uid == uid))

    def last(self, event: str, uid: str) -> Word | None:
        """Return the newest fact of one kind that a pod printed."""
        return next(reversed(self.of(event, uid)), None)


def read_words(evidence: Evidence) -> Words:
    """Read all log lines of the evidence."""
    words: list[Word] = []
    torn: dict[str, int] = {}
    logged: set[str] = set()
    for line in evidence.lines:
        if line.type != "LOG":
            continue
        uid = str(line.data.get("uid") or line.data.get("pod") or "")
        logged.add(uid)
        found, lost = find(str(line.data.get("line") or ""))
        if lost:
            torn[uid] = torn.get(uid, 0) + lost
        words += [_word(line, uid, obj) for obj in found]
    return Words(tuple(words), torn, frozenset(logged))


def _word(line: Line, uid: str, obj: dict[str, Any]) -> Word:
    pod = str(line.data.get("pod") or obj.get("pod") or "")
    container = str(line.data.get("container") or obj.get("container") or "")
    key = f"LOG:{pod}@{line.t:.3f}"
    return Word(line.t, uid, pod, container, str(obj.get("event") or ""), obj, key)


def absent(world: int, there: Container[object]) -> list[int]:
    """Return the ranks of a world that are not there; a line that names a world beyond all sense costs no memory."""
    return [rank for rank in range(min(world, MOST_RANKS)) if rank not in there]


def words(evidence: Evidence) -> Words:
    """Return what payloads said; read once per evidence."""
    return evidence.derived(read_words)
