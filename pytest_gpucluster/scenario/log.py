"""The session's log: all that was seen and done, stamped at receipt; the present state; the waking of waiters."""

import contextlib
import json
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from pytest_gpucluster.evidence.log.model import SCHEMA, Span
from pytest_gpucluster.kube import clock as clocks
from pytest_gpucluster.kube import coverage as coverages
from pytest_gpucluster.kube import errors
from pytest_gpucluster.plain import names, private, redact, secret_logs, texts
from pytest_gpucluster.scenario import live, strangers
from pytest_gpucluster.scenario.entry import Entry

Obj = dict[str, Any]

NOISE = "feature.node.kubernetes.io/cpu-cpuid."
"""Labels of feature discovery, dozens per node, one for each CPU feature: the label of the model says as much."""

OUTAGE = 20.0
"""Seconds without any watch in sync after which a wait gives up: the API server is gone, not the gang."""


class SessionLog:
    """Receives from all watch threads, writes `session-<worker>.jsonl`, keeps the live state, wakes waiters.

    The time of a line is the time of its receipt, taken by the watch before parsing. A line is written in one write
    and flushed, so that it outlives a kill; those of a list are flushed together. The spans, which only proofs make,
    are written when it is closed: of a session that was killed nothing counts as watched.

    Attributes:
        condition: held while the state changes; notified with each line.
        state: the present state.
        problems: kinds that cannot be watched, and why.
        unwritable: why the file takes no more lines, None while it does.
        listeners: called with each watch line (change, kind key, object) after the state has it; the lock is held,
            so they must be quick.
    """

    def __init__(
        self, path: pathlib.Path, clock: clocks.Clock, *, scenario_label: str, lent: str | None = None
    ) -> None:
        """Open the file for appending; time zero is now.

        Args:
            path: the file.
            clock: the clock of the watches.
            scenario_label: label by which objects say of which scenario they are.
            lent: a namespace in which others have objects too; lines about those stay out of the file.
        """
        self._strangers = strangers.Strangers(lent) if lent else None
        self.path = path
        self.condition = threading.Condition()
        self.state = live.State()
        self.problems: dict[str, errors.GpuClusterError] = {}
        self.unwritable: OSError | None = None
        self.listeners: list[Callable[[str, str, Obj], None]] = []
        self._clock = clock
        self._label = scenario_label
        self._entries: list[Entry] = []
        self._logs: dict[tuple[str, str], secret_logs.Lines] = {}
        self._coverages: dict[str, coverages.Coverage] = {}
        self._up: set[str] = set()
        self._down: dict[str, tuple[float, str]] = {}
        self._listing: set[str] = set()
        self._origin = clock.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] | None = private.opened(path, "a")
        self._write(
            json.dumps({"type": "HEADER", "schema": SCHEMA, "clock": "receipt"}, separators=(",", ":"))
        )

    @property
    def origin(self) -> float:
        """Return when the session began, on the clock of the watches."""
        return self._origin

    def now(self) -> float:
        """Return seconds since the session began."""
        return self._clock.monotonic() - self._origin

    def close(self) -> None:
        """Write what was covered and close the file; later lines are dropped."""
        with self.condition:
            for span in self.spans():
                self._write(span_line(span))
            if self._strangers is not None and self._strangers.counts():
                note = {"type": "NOTE", "t": round(self.now(), 6), **self._strangers.note()}
                self._write(json.dumps(note, separators=(",", ":")))
            self._coverages.clear()
            if self._file is not None:
                with self._noting_full():
                    self._file.close()
                self._file = None

    def expect(self, kind: str) -> None:
        """Say that the list of a kind is coming, perhaps of thousands of objects.

        Until it is whole nobody can decide by it: `in_sync` wakes and writes out once for all its lines.
        """
        with self.condition:
            self._listing.add(kind)

    def covers(self, kind: str, coverage: coverages.Coverage) -> None:
        """Let the spans of a kind be what one watch covers."""
        with self.condition:
            self._coverages[kind] = coverage

    # -- what watches say (kube.watch.Sink); `t` is the clock's monotonic time ---------------------------------------

    def line(self, change: str, kind: str, obj: Obj, t: float) -> None:
        """Take a watch line; what nobody needs was taken from the object before, or is now (`lean`)."""
        if kind == "Secret" or "managedFields" in (obj.get("metadata") or {}):
            obj = lean(kind, obj)
        at = t - self._origin
        # Cleaned where it is written down; what waits and cleanup look at stays whole.
        data = {"type": change, "t": round(at, 6), "kind": kind, "object": _REDACTOR.clean(obj)}
        text = json.dumps(data, separators=(",", ":"))
        metadata = obj.get("metadata") or {}
        entry = Entry(
            t=at,
            type=change,
            kind=kind,
            uid=live.uid_of(obj),
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata.get("name") or ""),
            refs=live.owners_of(obj),
            about=_about(kind, obj),
            node=str((obj.get("spec") or {}).get("nodeName") or "") if kind == "Pod" else "",
            scenario=str((metadata.get("labels") or {}).get(self._label) or ""),
            text=text,
        )
        with self.condition:
            if not live.is_marker(obj):  # nobody waits for it, and it is nothing of a scenario's
                self.state.apply(change, kind, obj)
                for listener in self.listeners:
                    listener(change, kind, obj)
            labelled = names.LABEL_RUN in (metadata.get("labels") or {})
            self._keep(entry, quiet=kind in self._listing, labelled=labelled)

    def in_sync(self, kind: str, t: float, how: str) -> None:
        """Note that a kind is in sync."""
        del t, how
        with self.condition:
            self._down.pop(kind, None)
            self._listing.discard(kind)
            self._up.add(kind)
            if self._file is not None:
                with self._noting_full():
                    self._file.flush()
            self.condition.notify_all()

    def out_of_sync(self, kind: str, t: float, why: str) -> None:
        """Note that a kind is out of sync, and why."""
        del t
        with self.condition:
            self._up.discard(kind)
            self._down[kind] = (self.now(), why)
            self._listing.add(kind)
            self.condition.notify_all()

    def ended(self, kind: str, error: errors.GpuClusterError) -> None:
        """Remember that a kind cannot be watched."""
        with self.condition:
            self._up.discard(kind)
            self.problems[kind] = error
            self._listing.discard(kind)
            self._down.pop(kind, None)
            self.condition.notify_all()

    # -- what the driver says ----------------------------------------------------------------------------------------

    def add(self, type_: str, scenario: str, fields: Mapping[str, Any]) -> float:
        """Append a NOTE, RESPONSE or LOG line of a scenario, without secrets, and return its time."""
        cleaned = {**fields, "line": self._said(fields)} if type_ == "LOG" else _REDACTOR.clean(fields)
        with self.condition:
            at = self.now()
            data = {"type": type_, "t": round(at, 6), "scenario": scenario, **cleaned}
            text = json.dumps(data, separators=(",", ":"), default=str)
            self._keep(Entry(at, type_, "", "", "", "", (), "", "", scenario, text))
            return at

    def _said(self, fields: Mapping[str, Any]) -> str:
        """Return a line of a log without secrets, which may go on from one line to the next."""
        source = (str(fields.get("uid")), str(fields.get("container")))
        return self._logs.setdefault(source, secret_logs.Lines()).clean(str(fields.get("line")))

    # -- what is asked of it -----------------------------------------------------------------------------------------

    def mark(self) -> int:
        """Return how many lines there are: where a scenario begins."""
        with self.condition:
            return len(self._entries)

    def entries(self) -> list[Entry]:
        """Return the lines so far."""
        with self.condition:
            return list(self._entries)

    def spans(self) -> list[Span]:
        """Return for which time each kind is proven to have been told whole and in time."""
        with self.condition:
            return [
                Span(kind, one.start - self._origin, one.end - self._origin, one.how)
                for kind, coverage in self._coverages.items()
                for one in coverage.stretches()
            ]

    def until(self, check: Callable[[], bool], seconds: float) -> bool:
        """Wait until `check` holds, at most `seconds`; it runs with the lock held, after each change.

        From the receipt of a line to the return is one notification and one check: nothing polls.
        """
        deadline = self._clock.monotonic() + seconds
        with self.condition:
            while not check():
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return False
                self._clock.wait(self.condition, min(left, OUTAGE))
            return True

    def in_sync_now(self, kinds: tuple[str, ...]) -> bool:
        """Report whether each kind is in sync or cannot be watched at all."""
        with self.condition:
            return all(kind in self._up or kind in self.problems for kind in kinds)

    def outage(self) -> str | None:
        """Return why no kind is in sync for `OUTAGE` seconds, None when one is or was more lately."""
        with self.condition:
            if self._up or not self._down:
                return None
            if self.now() - max(t for t, _ in self._down.values()) < OUTAGE:
                return None
            return next(iter(self._down.values()))[1]

    def trouble(self, kinds: tuple[str, ...]) -> str:
        """Return what keeps kinds from being in sync, one line."""
        with self.condition:
            return "; ".join(
                f"{k}: {self._down[k][1] if k in self._down else 'not listed yet'}"
                for k in kinds
                if k not in self._up and k not in self.problems
            )

    def _keep(self, entry: Entry, *, quiet: bool = False, labelled: bool = False) -> None:
        self._entries.append(entry)
        known = [entry] if self._strangers is None else self._strangers.known(entry, labelled=labelled)
        for one in known:
            self._write(one.text, flush=not quiet)
        if not quiet:
            self.condition.notify_all()

    @contextlib.contextmanager
    def _noting_full(self) -> Iterator[None]:
        """Remember that the file takes no more, which ends the session's work: a lost line could be the violation."""
        try:
            yield
        except OSError as error:
            self.unwritable = self.unwritable or OSError(error.errno, error.strerror, str(self.path))

    def _write(self, text: str, *, flush: bool = True) -> None:
        if self._file is None:
            return
        with self._noting_full():
            self._file.write(text + "\n")
            if flush:
                self._file.flush()


def span_line(span: Span) -> str:
    """Return the line of a span; `end` null means to the end of the file."""
    end = None if span.end == float("inf") else round(span.end, 6)
    data = {"type": "SPAN", "kind": span.kind, "start": round(span.start, 6), "end": end, "how": span.how}
    return json.dumps(data, separators=(",", ":"))


_REDACTOR = redact.Redactor()


def lean(kind: str, obj: Obj) -> Obj:
    """Return an object without what no judge reads and nobody should store: field owners, image lists, secrets.

    Of nodes, of which there may be thousands, all annotations but our own and the labels of CPU features go too, and
    labels that all of them repeat are kept once.
    """
    metadata = obj.get("metadata") or {}
    kept = obj
    if kind == "Node":
        return _lean_node(obj)
    if "managedFields" in metadata:
        kept = {**obj, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}
    if kind == "Secret":
        for part in ("data", "stringData"):
            if part in obj:
                kept = {**kept, part: dict.fromkeys(obj[part] or {}, "<redacted>")}
    return kept


def _lean_node(obj: Obj) -> Obj:
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    labels, annotations = metadata.get("labels"), metadata.pop("annotations", None)
    if isinstance(labels, dict):
        metadata["labels"] = texts.shared({k: v for k, v in labels.items() if not k.startswith(NOISE)})
    ours = {k: v for k, v in (annotations or {}).items() if names.DOMAIN in k}
    if ours:
        metadata["annotations"] = ours
    kept = {**obj, "metadata": metadata}
    if isinstance(obj.get("status"), dict):
        kept["status"] = {k: v for k, v in obj["status"].items() if k != "images"}
    return kept


def _about(kind: str, obj: Mapping[str, Any]) -> str:
    if kind != "Event":
        return ""
    return str((obj.get("involvedObject") or obj.get("regarding") or {}).get("uid") or "")
