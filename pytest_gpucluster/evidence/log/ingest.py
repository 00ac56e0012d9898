"""Read evidence from files: frozen slices, recorded streams, and what kubectl prints."""

import contextlib
import dataclasses
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeGuard

from pytest_gpucluster.evidence.log import kubectl, soundness, vocabulary
from pytest_gpucluster.evidence.log.errors import EvidenceError
from pytest_gpucluster.evidence.log.model import (
    EVERY_KIND,
    SCHEMA,
    WATCH_TYPES,
    Evidence,
    Line,
    Span,
    with_uid,
)
from pytest_gpucluster.plain import collector, names, texts

TYPES = frozenset(vocabulary.LINES)
SIBLINGS = {"events.jsonl": "responses.jsonl"}
_CREATED = re.compile(r"^create \S+/(?P<name>\S+) -> (?P<code>\d+)")


@dataclasses.dataclass
class _Read:
    """What was read of one or more files so far."""

    lines: list[tuple[float | None, str, Mapping[str, Any]]] = dataclasses.field(default_factory=list)
    header: dict[str, Any] = dataclasses.field(default_factory=dict)
    spans: list[Span] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    frozen: bool = False
    headers: int = 0
    last: float = -math.inf
    order: str = ""
    ours: bool = False


def read(paths: str | Path | Iterable[str | Path]) -> Evidence:
    """Read one evidence from files.

    Accepts frozen slices, recorded streams (a `responses.jsonl` beside an `events.jsonl` is read with it; a folder
    stands for both), the output of `kubectl get KIND -w --output-watch-events -o json` (one file a kind; all are
    merged) and of `kubectl get ... -o json`.

    Raises:
        EvidenceError: one line that says which file and line, what is wrong and what is expected.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise EvidenceError("no evidence file named; expected at least one path")
    with collector.paused():
        return _read_all(_with_siblings([Path(p) for p in given]))


def _read_all(paths: Sequence[Path]) -> Evidence:
    jsonl = _Read()
    printed: list[kubectl.Printed] = []
    for path in paths:
        with _opened(path) as file:
            lines = enumerate(file, start=1)
            number, first = next(
                (n, one) for n, one in itertools.chain(lines, [(0, "")]) if one.strip() or not n
            )
            if not number:
                raise EvidenceError(f"{path}: empty; expected JSON lines or kubectl output")
            if _is_line(first.strip()):
                _read_lines(path, itertools.chain([(number, first)], lines), jsonl)
            else:
                printed.append(kubectl.parse(path, "\n" * (number - 1) + first + file.read()))
    if printed and jsonl.lines:
        raise EvidenceError(
            f"{printed[0].path}: kubectl output cannot be merged with a recorded stream: they have different clocks"
        )
    if printed:
        return kubectl.evidence(printed)
    return _evidence(jsonl)


def of_lines(lines: Iterable[str], name: str) -> Evidence:
    """Read one evidence from the lines of a frozen slice that is in memory.

    Args:
        lines: one JSON object each, header and spans first.
        name: what errors call it.

    Raises:
        EvidenceError: as `read`.
    """
    found = _Read()
    _read_lines(Path(name), iter(enumerate(lines, start=1)), found)
    return _evidence(found)


def _with_siblings(paths: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            here = [path / name for name in ("events.jsonl", "responses.jsonl") if (path / name).is_file()]
            if not here:
                raise EvidenceError(f"{path}: no events.jsonl or responses.jsonl in this folder")
            found += here
            continue
        found.append(path)
        sibling = path.with_name(SIBLINGS[path.name]) if path.name in SIBLINGS else None
        if sibling is not None and sibling.is_file():
            found.append(sibling)
    return list(dict.fromkeys(found))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """Open a file for reading; what goes wrong meanwhile is said in one line."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            yield file
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise EvidenceError(
            f"{path}: not UTF-8 text (byte {error.start}); expected JSON lines or kubectl output"
            + (" (PowerShell writes UTF-16: add `| Out-File -Encoding utf8`)" if error.start == 0 else "")
        ) from None


def _is_line(first: str) -> bool:
    """Report whether the first line of a file is a whole evidence line (not part of a kubectl object)."""
    try:
        obj = json.loads(first)
    except RecursionError:
        return True
    except json.JSONDecodeError:
        return not re.match(r"\{\s*$", first) and kubectl.YAML.match(first) is None
    except ValueError:
        return True  # a number of thousands of digits: said where the line is read
    if not isinstance(obj, dict):
        return True
    return not (
        ("apiVersion" in obj and "kind" in obj)
        or ("object" in obj and "t" not in obj and "request" not in obj)
    ) or str(obj.get("type")) in ("HEADER", "SPAN", "LOG", "RESPONSE")


def _read_lines(path: Path, lines: Iterator[tuple[int, str]], into: _Read) -> None:
    """Read evidence line by line, so that a file of many megabytes is never in memory as text too."""
    case_times: dict[str, float] = _case_times(into)
    into.last = -math.inf
    for number, one in lines:
        if not one.strip():
            continue
        try:
            obj = json.loads(one)
        except RecursionError:
            raise EvidenceError(f"{path}:{number}: brackets are nested too deep") from None
        except ValueError as error:
            if not isinstance(error, json.JSONDecodeError):
                raise EvidenceError(f"{path}:{number}: a number has too many digits") from None
            if number > 1 and not any(rest.strip() for _, rest in lines):
                into.notes.append(f"{path.name}: the last line ({number}) is cut off and was left out")
                return
            raise EvidenceError(
                f"{path}:{number}: not JSON ({error.msg}, column {error.colno}); expected one JSON object a line"
            ) from None
        if not isinstance(obj, dict):
            raise EvidenceError(
                f"{path}:{number}: {type(obj).__name__} found; expected a JSON object with a `type`"
            )
        _take(path, number, obj, into, case_times)


def _case_times(into: _Read) -> dict[str, float]:
    """Return when the driver of a recording created each object, from its free notes."""
    found: dict[str, float] = {}
    for t, kind, obj in into.lines:
        if kind == "NOTE" and t is not None:
            match = _CREATED.match(str(obj.get("text", "")))
            if match:
                found.setdefault(match["name"], t)
    return found


def _take(path: Path, number: int, obj: dict[str, Any], into: _Read, case_times: Mapping[str, float]) -> None:
    kind = obj.get("type")
    if kind is None and "code" in obj and ("request" in obj or "case" in obj):
        kind = "RESPONSE"
    if kind is None:
        raise EvidenceError(
            f"{path}:{number}: a JSON object that is neither a Kubernetes object (apiVersion, kind) nor a line of "
            f"evidence (type: {', '.join(sorted(TYPES))})"
        )
    if not isinstance(kind, str) or kind not in TYPES:
        raise EvidenceError(
            f"{path}:{number}: unknown line type {kind!r}{names.did_you_mean(str(kind), TYPES)}"
        )
    if kind == "HEADER":
        _take_header(path, number, obj, into)
        return
    if kind == "SPAN":
        into.spans.append(_span(path, number, obj))
        return
    if kind in WATCH_TYPES and not isinstance(obj.get("object"), dict):
        raise EvidenceError(f"{path}:{number}: {kind} line without an `object`; expected a Kubernetes object")
    t = obj.get("t")
    if kind == "RESPONSE" and t is None:
        t = case_times.get(str(obj.get("case")))
    elif isinstance(t, bool) or not isinstance(t, int | float) or not math.isfinite(t):
        raise EvidenceError(f"{path}:{number}: `t` is {t!r}; expected seconds as a number")
    if kind == "NOTE" and not isinstance(obj.get("note", ""), str):
        obj = {**obj, "note": str(obj["note"])}
    into.ours = into.ours or "scenario" in obj
    if t is not None:
        if t < into.last - soundness.BACKWARDS and not into.order:
            into.order = (
                f"line {number} of {path.name} is older than the one before it: a clock ran backwards"
            )
        into.last = max(into.last, t)
    into.lines.append((t, str(kind), obj))


def _take_header(path: Path, number: int, obj: dict[str, Any], into: _Read) -> None:
    schema = obj.get("schema", 1)
    if isinstance(schema, bool) or not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
        raise EvidenceError(f"{path}:{number}: evidence schema {schema!r}; this version reads 1 to {SCHEMA}")
    into.frozen = True
    into.headers += 1
    if into.headers > 1:
        into.order = "it has two headers: two evidences have two clocks"
    into.header.update({key: value for key, value in obj.items() if key != "type"})


def _span(path: Path, number: int, obj: Mapping[str, Any]) -> Span:
    start, end = obj.get("start"), obj.get("end")
    if not _is_time(start) or not (end is None or _is_time(end)) or not obj.get("kind"):
        raise EvidenceError(
            f"{path}:{number}: malformed SPAN; expected kind, start in seconds, end in seconds or null"
        )
    if end is not None and end < start:
        raise EvidenceError(
            f"{path}:{number}: a SPAN that ends at {end:g} s, before it begins at {start:g} s"
        )
    return Span(
        str(obj["kind"]), float(start), math.inf if end is None else float(end), str(obj.get("how", ""))
    )


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _evidence(read_: _Read) -> Evidence:
    last = 0.0
    timed: list[tuple[float, str, Mapping[str, Any]]] = []
    for t, kind, obj in read_.lines:
        last = last if t is None else float(t)
        timed.append((last, kind, obj))
    timed.sort(key=lambda item: item[0])
    lines = [make_line(t, kind, obj, index) for index, (t, kind, obj) in enumerate(timed)]
    if not lines and not read_.frozen:
        raise EvidenceError("no whole line of evidence in the files named")
    header = dict(read_.header)
    if read_.notes:
        header["reading"] = list(read_.notes)
    spans = read_.spans
    if not read_.frozen and not spans and not read_.ours:
        # A recording was watched from its first line to its last, for every kind, also those that never came.
        spans = [Span(EVERY_KIND, lines[0].t, lines[-1].t, "recording")]
    sound = soundness.check(header, lines, spans, read_.order)
    damage = sound.damage or ("its header is missing: it was cut" if read_.ours and not read_.frozen else "")
    if damage:
        header["damage"] = damage
    return Evidence(lines, header=header, spans=() if damage else sound.spans)


def make_line(t: float, kind: str, obj: Mapping[str, Any], index: int) -> Line:
    """Return a line of evidence from its JSON object."""
    if kind not in WATCH_TYPES:
        return Line(t, kind, "", {}, {k: v for k, v in obj.items() if k not in ("t", "type")}, index)
    target = with_uid(obj["object"])
    if obj.get("kind") == "Node":
        _share_labels(target)
    key = _key(obj.get("kind"), target)
    data = {k: v for k, v in obj.items() if k not in ("t", "type", "kind", "object")}
    return Line(t, kind, key, target, data, index)


def _key(stated: object, obj: Mapping[str, Any]) -> str:
    """Return the kind key of a watch line: what the object says of itself, else what the line says.

    Recordings name the bare kind where a kind key carries a group.
    """
    if obj.get("apiVersion") and obj.get("kind"):
        return names.kind_key_of(dict(obj))
    return str(stated or obj.get("kind") or "")


def _share_labels(node: Mapping[str, Any]) -> None:
    metadata = node.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("labels"), dict):
        metadata["labels"] = texts.shared(metadata["labels"])


def lines_of(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of an evidence file, header and spans first: what `read` reads back."""
    # Spans that nobody proved stay what they are.
    header = {"type": "HEADER", "schema": 1, **evidence.header}
    yield {**header, "lines": len(evidence.spans) + len(evidence.lines)} if "lines" in header else header
    for span in evidence.spans:
        end = None if math.isinf(span.end) else span.end
        yield {"type": "SPAN", "kind": span.kind, "start": span.start, "end": end, "how": span.how}
    for line in evidence.lines:
        if line.type in WATCH_TYPES:
            yield {"t": line.t, "type": line.type, "kind": line.kind, "object": line.object, **line.data}
        else:
            yield {"t": line.t, "type": line.type, **line.data}
