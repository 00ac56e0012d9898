"""Evidence as a recording: what differs from run to run and what is nobody's business is masked or numbered.

The same run recorded twice gives the same text but for times and the order of what happens at once.
"""

import dataclasses
import datetime as dt
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pytest_gpucluster.evidence.log.model import WATCH_TYPES
from pytest_gpucluster.plain import redact

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
"""When every recording begins."""

RUN = "recorded"
"""What stands in place of the run."""

_UID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)"
_ADDRESS = r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"
_NANOSECONDS = r"(?<=\.)1[0-9a-f]{15}\b"
"""What the name of an event ends with."""

_MACHINE = frozenset({"machineID", "systemUUID", "bootID"})
_DROPPED = frozenset(
    {"managedFields", "kubectl.kubernetes.io/last-applied-configuration", "gpucluster.dev/kubelet-socket"}
)
_NODE_KEYS = frozenset({"nodeName", "node", "host", "hostname", "kubernetes.io/hostname", "name"})
_TELLING = re.compile(r"[-.\d]")
"""A name with one of these is no word of a sentence."""
_SERVER_MADE = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "selfLink",
        "deletionTimestamp",
        "managedFields",
    }
)

Obj = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Recording:
    """One recorded scenario.

    Attributes:
        events: lines of `events.jsonl`: header, watch lines, notes, spans, container lines.
        responses: lines of `responses.jsonl`: what the API server answered.
        manifest: what was created, in its order.
    """

    events: list[Obj]
    responses: list[Obj]
    manifest: list[Obj]


def normalised(lines: Iterable[Mapping[str, Any]]) -> Recording:
    """Return frozen evidence, line by line as in its file, as a recording."""
    plain = [_without(_sized(dict(line))) for line in lines]
    mask = _Mask(plain)
    clean = [redact.clean(mask.whole(line)) for line in plain]
    events: list[Obj] = []
    responses: list[Obj] = []
    manifest: list[Obj] = []
    for line in clean:
        if line.get("type") != "RESPONSE":
            events.append(line)
            continue
        responses.append({key: value for key, value in line.items() if key not in ("type", "object")})
        if line.get("dry_run"):
            continue
        events.append({"type": "NOTE", "t": line["t"], "text": f"{line['request']} -> {line['code']}"})
        if str(line["request"]).startswith("create ") and isinstance(line.get("object"), dict):
            manifest.append(_as_asked(line["object"]))
    for line in events:
        if line.get("type") == "HEADER" and "lines" in line:
            line["lines"] = sum(one.get("type") != "HEADER" for one in events) + len(responses)
    return Recording(events, responses, manifest)


def _as_asked(obj: Mapping[str, Any]) -> Obj:
    """Return an object as it could be created again."""
    meta = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _SERVER_MADE}
    rest = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": meta}


def _sized(line: Obj) -> Obj:
    """Replace what a Secret holds by how much it holds."""
    obj = line.get("object")
    if not isinstance(obj, dict) or obj.get("kind") != "Secret":
        return line
    sized = dict(obj)
    for part, unit in (("data", "base64 bytes"), ("stringData", "bytes")):
        if isinstance(obj.get(part), dict):
            sized[part] = {key: f"<{len(str(value))} {unit}>" for key, value in obj[part].items()}
    return {**line, "object": sized}


def _without(value: Any) -> Any:
    """Drop what only servers read, and a node's list of images."""
    if isinstance(value, list):
        return [_without(each) for each in value]
    if not isinstance(value, dict):
        return value
    out: Obj = {}
    for key, each in value.items():
        if key in _DROPPED or (key == "images" and "nodeInfo" in value):
            continue
        out[key] = "masked" if key in _MACHINE and each else _without(each)
    return out


class _Mask:
    """Replaces identities by numbers in the order in which they appear, and moves times to one beginning."""

    def __init__(self, lines: list[Obj]) -> None:
        """Find the run, its namespaces, its nodes and its beginning."""
        self._begin = min((float(line["t"]) for line in lines if "t" in line), default=0.0)
        self._numbers: dict[str, Iterator[int]] = {}
        self._given: dict[tuple[str, str], str] = {}
        self._masked: dict[str, str] = {}
        header = next((line for line in lines if line.get("type") == "HEADER"), {})
        self._run = _run_words(header)
        names = sorted({name for line in lines for name in _node_names(line)})
        self._nodes = {name: f"node-{number}" for number, name in enumerate(names, start=1)}
        self._offset = BEGIN - min(_times(lines), default=BEGIN).replace(microsecond=0)
        self._tokens = re.compile(
            "|".join(
                (
                    f"(?P<uid>{_UID})",
                    f"(?P<time>{_TIME})",
                    f"(?P<address>{_ADDRESS})",
                    f"(?P<nanoseconds>{_NANOSECONDS})",
                    f"(?P<node>{_either(name for name in names if _TELLING.search(name))})",
                    f"(?P<run>{_either(self._run)})",
                )
            )
        )
        self._replace: dict[str, Callable[[str], str]] = {
            "uid": lambda text: self._numbered("uid", text, "00000000-0000-4000-8000-{:012d}"),
            "address": self._address,
            "nanoseconds": lambda text: self._numbered("nanoseconds", text, "1{:015x}"),
            "node": lambda text: self._nodes[text],
            "run": lambda text: self._run[text],
            "time": self._moved,
        }

    def whole(self, line: Obj) -> Obj:
        """Return a line with everything masked."""
        out: Obj = self._value(line, "")
        for key in ("t", "start", "end", "horizon", "since"):
            if isinstance(out.get(key), int | float):
                out[key] = round(out[key] - self._begin, 6)
        return out

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {self._text(name): self._value(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self._value(each, key) for each in value]
        if not isinstance(value, str):
            return value
        if key in _NODE_KEYS and value in self._nodes:
            return self._nodes[value]
        return self._text(value)

    def _text(self, text: str) -> str:
        # Most texts are keys and names that come in every line.
        if text not in self._masked:
            self._masked[text] = self._tokens.sub(
                lambda found: self._replace[str(found.lastgroup)](found[0]), text
            )
        return self._masked[text]

    def _numbered(self, what: str, text: str, pattern: str) -> str:
        if (what, text) not in self._given:
            numbers = self._numbers.setdefault(what, itertools.count(1))
            self._given[what, text] = pattern.format(next(numbers))
        return self._given[what, text]

    def _address(self, text: str) -> str:
        if text.startswith(("127.", "0.")):
            return text
        number = self._numbered("address", text, "{}")
        return f"10.0.{int(number) // 256}.{int(number) % 256}"

    def _moved(self, text: str) -> str:
        at = dt.datetime.fromisoformat(text) + self._offset
        digits = len(text.partition(".")[2].rstrip("Z").partition("+")[0])
        fraction = f".{at.microsecond:06d}"[: digits + 1].ljust(digits + 1, "0") if digits else ""
        return f"{at:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _either(words: Iterable[str]) -> str:
    """Return a pattern for any of some words, the longest first, not in the middle of a longer one."""
    listed = sorted(words, key=lambda word: (-len(word), word))
    return rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, listed))})(?![A-Za-z0-9])" if listed else r"(?!)"


def _run_words(header: Mapping[str, Any]) -> dict[str, str]:
    """Return what names the run, with what takes its place."""
    source = header.get("source") or {}
    run = str(source.get("run") or "")
    words = {run: RUN, run.lower(): RUN, run.rpartition("-")[2].lower(): RUN}
    namespace = str(source.get("namespace") or (header.get("given") or {}).get("namespace") or "")
    words[namespace] = f"case-{header.get('scenario') or RUN}"
    return {word: mask for word, mask in words.items() if word}


def _node_names(line: Mapping[str, Any]) -> Iterator[str]:
    obj = line.get("object")
    if isinstance(obj, dict):
        if line.get("kind") == "Node":
            yield str(obj["metadata"]["name"])
        if isinstance(obj.get("spec"), dict) and obj["spec"].get("nodeName"):
            yield str(obj["spec"]["nodeName"])


def _times(lines: Iterable[Mapping[str, Any]]) -> Iterator[dt.datetime]:
    """Yield when the objects that we made were made; those of all objects where none is known."""
    found = [list(_made(line)) for line in lines if line.get("type") == "RESPONSE"]
    if not any(found):
        found = [list(_made(line)) for line in lines if line.get("type") in WATCH_TYPES]
    for each in found:
        yield from each


def _made(line: Mapping[str, Any]) -> Iterator[dt.datetime]:
    made = ((line.get("object") or {}).get("metadata") or {}).get("creationTimestamp")
    if made:
        yield dt.datetime.fromisoformat(str(made))


def as_lines(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return lines as the text of a file."""
    return "".join(f"{json.dumps(line, sort_keys=True, ensure_ascii=False)}\n" for line in lines)
