"""Read what kubectl prints: watch events of `-w --output-watch-events -o json`, lists and single objects.

kubectl prints no clock. The time of a line is the newest time stamp inside the object, in whole seconds, never
earlier than what came before it in the same kind. Such evidence carries `clock: object` in its header.
"""

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.errors import EvidenceError
from pytest_gpucluster.evidence.log.model import WATCH_TYPES, Evidence, Line, Span, with_uid
from pytest_gpucluster.evidence.log.shaping import shaped
from pytest_gpucluster.plain import names, times

_SPACE = re.compile(r"\s*")
YAML = re.compile(r"\s*(?:---\s|#|[A-Za-z][\w.-]*:(?:\s|$)|- \w+:)")
"""How a text begins that kubectl printed with `-o yaml`."""
_DECODER = json.JSONDecoder()
EXPECTED = (
    "expected the output of `kubectl get KIND -w --output-watch-events -o json` or `kubectl get -o json`"
)


@dataclasses.dataclass(frozen=True)
class Printed:
    """What one file of kubectl output holds: (type, object) in order, and whether it was a watch."""

    path: Path
    events: tuple[tuple[str, Mapping[str, Any]], ...]
    watched: bool
    note: str


def parse(path: Path, text: str) -> Printed:
    """Parse concatenated JSON objects, pretty-printed or not.

    Raises:
        EvidenceError: when something else stands in the file; a cut last object is left out and noted.
    """
    events: list[tuple[str, Mapping[str, Any]]] = []
    seen: set[str] = set()
    watched = False
    note = ""
    at = _SPACE.match(text, 0).end()  # type: ignore[union-attr]
    while at < len(text):
        try:
            obj, end = _DECODER.raw_decode(text, at)
        except RecursionError:
            raise EvidenceError(
                f"{path}:{_line(text, at)}: brackets are nested too deep; {EXPECTED}"
            ) from None
        except ValueError as error:
            if not isinstance(error, json.JSONDecodeError):
                raise EvidenceError(
                    f"{path}:{_line(text, at)}: a number has too many digits; {EXPECTED}"
                ) from None
            if events and "\n{" not in text[at + 1 :]:
                note = f"{path.name}: the last object (line {_line(text, at)}) is cut off and was left out"
                break
            raise EvidenceError(
                f"{path}:{_line(text, error.pos)}: {_wrong(text, error)}; {EXPECTED}"
            ) from None
        watched |= isinstance(obj, dict) and "object" in obj
        events += _unfold(path, text, at, obj, seen)
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    return Printed(path, tuple(events), watched, note)


def _wrong(text: str, error: json.JSONDecodeError) -> str:
    """Return what is wrong with a text that is not JSON: cut off, YAML, or another mistake."""
    if YAML.match(text):
        return "this is YAML, not JSON"
    if not text[error.pos :].strip() or error.msg.startswith("Unterminated"):
        return "not JSON: cut off, the file ends in the middle of an object"
    return f"not JSON ({error.msg})"


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _unfold(
    path: Path, text: str, at: int, obj: object, seen: set[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (type, object) of one printed JSON value: a watch event, a list, or an object."""
    if isinstance(obj, dict) and "object" in obj and "type" in obj:
        if str(obj["type"]) in WATCH_TYPES and isinstance(obj["object"], dict):
            yield str(obj["type"]), shaped(obj["object"])
        elif str(obj["type"]) not in ("BOOKMARK", "ERROR"):
            raise EvidenceError(
                f"{path}:{_line(text, at)}: unknown watch event type {obj['type']!r}; {EXPECTED}"
            )
    elif isinstance(obj, dict) and isinstance(obj.get("items"), list) and "kind" in obj:
        for item in obj["items"]:
            if isinstance(item, dict):
                yield "ADDED", shaped(item)
    elif isinstance(obj, dict) and "kind" in obj and "apiVersion" in obj:
        uid = fields.text(obj, "metadata", "uid")
        yield ("MODIFIED" if uid and uid in seen else "ADDED"), shaped(obj)
        seen.add(uid)
    else:
        raise EvidenceError(f"{path}:{_line(text, at)}: no Kubernetes object; {EXPECTED}")


def stamp(obj: Mapping[str, Any]) -> datetime | None:
    """Return the newest time stamp inside an object that says when it came to be as it is."""
    found: list[datetime] = []

    def add(value: object) -> None:
        if isinstance(value, str) and value:
            try:
                found.append(times.parse_time(value))
            except ValueError:
                return

    metadata, status = fields.sub(obj, "metadata"), fields.sub(obj, "status")
    add(metadata.get("creationTimestamp"))
    for condition in fields.items(status, "conditions"):
        add(condition.get("lastTransitionTime"))
    for key in ("startTime", "completionTime"):
        add(status.get(key))
    add(fields.sub(status, "state").get("lastTransitionTime"))
    for part in ("initContainerStatuses", "containerStatuses"):
        for container in fields.items(status, part):
            add(fields.sub(container, "state", "running").get("startedAt"))
            add(fields.sub(container, "state", "terminated").get("finishedAt"))
    for key in ("lastTimestamp", "eventTime", "firstTimestamp"):
        add(obj.get(key))
    add(fields.sub(obj, "series").get("lastObservedTime"))
    return max(found, default=None)


def _version(obj: Mapping[str, Any]) -> int:
    return fields.number(obj, "metadata", "resourceVersion") or -1


def evidence(printed: Sequence[Printed]) -> Evidence:
    """Merge kubectl files to one evidence on the clock of the objects."""
    by_kind: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    watched: set[str] = set()
    for one in printed:
        for kind, obj in one.events:
            key = names.kind_key_of(dict(obj))
            by_kind.setdefault(key, []).append((kind, obj))
            if one.watched:
                watched.add(key)
    stamped: list[tuple[datetime | None, str, str, Mapping[str, Any]]] = []
    for key, events in by_kind.items():
        if all(_version(obj) >= 0 for _, obj in events):
            events.sort(key=lambda event: _version(event[1]))
        newest: datetime | None = None
        for kind, obj in events:
            mine = stamp(obj)
            newest = max((t for t in (newest, mine) if t is not None), default=None)
            stamped.append((newest, kind, key, obj))
    known = [t for t, *_ in stamped if t is not None]
    if not stamped:
        raise EvidenceError(f"{printed[0].path}: no object; {EXPECTED}")
    base = min(known) if known else None
    timed = [
        ((t - base).total_seconds() // 1 if t and base else 0.0, kind, key, obj)
        for t, kind, key, obj in stamped
    ]
    timed.sort(key=lambda item: item[0])
    lines = [Line(t, kind, key, with_uid(obj), {}, index) for index, (t, kind, key, obj) in enumerate(timed)]
    header: dict[str, Any] = {"clock": "object"}
    notes = [one.note for one in printed if one.note]
    if notes:
        header["reading"] = notes
    spans = [Span(key, 0.0, math.inf, "kubectl -w") for key in sorted(watched)]
    return Evidence(lines, header=header, spans=spans)
