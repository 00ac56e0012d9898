"""A history made of a snapshot: what the time stamps inside objects tell of how they came to be as they are.

Judges and detectors read lives of objects. A snapshot has only their present; but a pod says when it was made, got its
node, started and ended, a Volcano Job says when it last entered each phase, and events carry their times. All of it is
in whole seconds, so that the evidence has the clock `object`. There is no span: "never" stays undecided.
"""

import dataclasses
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_gpucluster.evidence import Evidence, Line
from pytest_gpucluster.evidence.log import fields, ingest, kubectl
from pytest_gpucluster.evidence.log.model import WATCH_TYPES, with_uid
from pytest_gpucluster.plain import names, times

ASSUMED = 60.0
"""Seconds that a state is taken to have lasted where a dump does not say when it was made: people dump what hangs."""

ALIKE = 12
"""How many events of one reason about one object are worth reading."""

NO_MATCHES = "no matches for kind"
"""What kubectl says where the API does not serve a kind."""

Object = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Log:
    """What one container wrote, in its present run or the one before."""

    pod: str
    uid: str
    container: str
    text: str
    previous: bool = False


def when(value: object) -> datetime | None:
    """Return a time stamp, None for what is none."""
    if not isinstance(value, str) or not value:
        return None
    try:
        return times.parse_time(value)
    except ValueError:
        return None


def _first(*values: object) -> datetime | None:
    return next((t for value in values if (t := when(value)) is not None), None)


def _pod(obj: Object) -> Iterator[tuple[datetime | None, Object]]:
    """Yield the states that a pod went through, as its time stamps tell."""
    created = when(fields.text(obj, "metadata", "creationTimestamp"))
    status, spec = fields.sub(obj, "status"), fields.sub(obj, "spec")
    metadata = {k: v for k, v in fields.sub(obj, "metadata").items() if k != "deletionTimestamp"}
    bare = {**obj, "metadata": metadata, "spec": {k: v for k, v in spec.items() if k != "nodeName"}}
    yield created, {**bare, "status": {"phase": "Pending"}}
    last = created
    if spec.get("nodeName"):
        scheduled = fields.condition(obj, "PodScheduled")
        told = scheduled.get("lastTransitionTime") if scheduled.get("status") == "True" else None
        last = _first(told, status.get("startTime"), fields.text(obj, "metadata", "creationTimestamp"))
        yield last, {**obj, "metadata": metadata, "status": {"phase": "Pending"}}
    statuses = fields.items(status, "containerStatuses")
    begun = [
        t for st in statuses for state in ("running", "terminated")
        if (t := when(fields.text(st, "state", state, "startedAt"))) is not None
    ]  # fmt: skip
    if begun and status.get("phase") != "Pending":
        last = min(begun)
        yield last, {**obj, "metadata": metadata, "status": {**status, "phase": "Running"}}
    ended = [
        t for st in statuses if (t := when(fields.text(st, "state", "terminated", "finishedAt"))) is not None
    ]
    deleted = when(fields.text(obj, "metadata", "deletionTimestamp"))
    if status.get("phase") in ("Succeeded", "Failed"):
        yield max(ended) if ended else last, obj
    elif deleted is not None:
        grace = fields.number(obj, "metadata", "deletionGracePeriodSeconds") or 0
        asked = datetime.fromtimestamp(deleted.timestamp() - grace, tz=deleted.tzinfo)
        yield asked, obj
    else:
        waits = fields.condition(obj, "PodScheduled")
        told = when(waits.get("lastTransitionTime")) if waits.get("status") == "False" else None
        yield told or last, obj


def _vcjob(obj: Object) -> Iterator[tuple[datetime | None, Object]]:
    """Yield the phases that a Volcano Job went through."""
    created = when(fields.text(obj, "metadata", "creationTimestamp"))
    yield created, {**obj, "status": {}}
    told = [
        (t, str(c.get("status")))
        for c in fields.items(obj, "status", "conditions")
        if (t := when(c.get("lastTransitionTime"))) is not None
    ]
    phase = fields.text(obj, "status", "state", "phase")
    last = max((t for t, name in told if name == phase), default=created)
    for t, name in sorted(told):
        if name != phase:
            yield t, {**obj, "status": {"state": {"phase": name}}}
    yield last, obj


def _group(obj: Object) -> Iterator[tuple[datetime | None, Object]]:
    created = when(fields.text(obj, "metadata", "creationTimestamp"))
    if fields.sub(obj, "status"):
        yield created, {**obj, "status": {}}
    told = [
        t
        for c in fields.items(obj, "status", "conditions")
        if (t := when(c.get("lastTransitionTime"))) is not None
    ]
    yield max(told, default=created), obj


def states(obj: Object) -> Iterator[tuple[datetime | None, Object]]:
    """Yield (time, object) of the states that an object's own time stamps tell of; the last is the object itself."""
    kind = names.kind_key_of(dict(obj))
    if kind == "Pod":
        yield from _pod(obj)
    elif kind == names.VC_JOB:
        yield from _vcjob(obj)
    elif kind in (names.POD_GROUP, names.NATIVE_POD_GROUP):
        yield from _group(obj)
    elif kind == "Event":
        yield kubectl.stamp(obj), obj
    else:
        yield when(fields.text(obj, "metadata", "creationTimestamp")), obj


def base_of(objects: Sequence[Object]) -> datetime | None:
    """Return the time that counts as 0: when the first Job, PodGroup or pod was made; without one the first object."""
    first = ("Job", "PodGroup", "Pod") if any(o.get("kind") in ("Job", "Pod") for o in objects) else ()
    made = [
        t for obj in objects
        if (obj.get("kind") in first if first else fields.text(obj, "metadata", "namespace"))
        and (t := when(fields.text(obj, "metadata", "creationTimestamp"))) is not None
    ]  # fmt: skip
    return min(made, default=None)


def _heartbeat(objects: Sequence[Object]) -> datetime | None:
    """Return the newest time at which a kubelet said that its node is there: a dump is no older than that."""
    told = [
        t
        for obj in objects
        if obj.get("kind") == "Node"
        for c in fields.items(obj, "status", "conditions")
        if (t := when(c.get("lastHeartbeatTime"))) is not None
    ]
    return max(told, default=None)


def unfold(
    objects: Sequence[Object],
    *,
    now: datetime | None = None,
    logs: Sequence[Log] = (),
    extra: Sequence[Mapping[str, Any]] = (),
    header: Mapping[str, Any] | None = None,
) -> Evidence:
    """Return evidence with the history that a snapshot tells of.

    Args:
        objects: Kubernetes objects.
        now: when the snapshot was made; None: unknown, the state is taken to have lasted.
        logs: what containers wrote.
        extra: further lines (answers of the API server, notes), at the end.
        header: fields of the header.
    """
    base = base_of(objects)
    made: list[tuple[float, int, str, Object]] = []
    newest = 0.0
    for number, obj in enumerate(map(with_uid, objects)):
        at = 0.0
        for n, (t, state) in enumerate(states(obj)):
            at = max(at, (t - base).total_seconds() if t and base else 0.0)
            made.append((at, number, "MODIFIED" if n else "ADDED", state))
        newest = max(newest, at)
    beat = _heartbeat(objects) if base is not None else None
    proven = newest if beat is None or base is None else max(newest, (beat - base).total_seconds())
    unknown = now is None or base is None
    end = (
        max(newest + ASSUMED, proven)
        if now is None or base is None
        else max(newest, (now - base).total_seconds())
    )
    made.sort(key=lambda one: (one[0], one[1]))
    lines = [
        ingest.make_line(t, kind, {"object": obj}, index) for index, (t, _, kind, obj) in enumerate(made)
    ]
    lines += _log_lines(logs, end, len(lines))
    for one in (*extra, {"type": "NOTE", "note": "end"}):
        lines.append(ingest.make_line(end, str(one["type"]), dict(one), len(lines)))
    told = {"clock": "object", **(header or {})}
    return Evidence(lines, header=told | ({"assumed": True, "proven": proven} if unknown else {}))


def _log_lines(logs: Sequence[Log], end: float, index: int) -> list[Line]:
    """Return log lines just before the end, in order: containers do not say when they wrote."""
    flat = [
        (log, text)
        for log in sorted(logs, key=lambda one: not one.previous)
        for text in log.text.splitlines()
    ]
    step = min(1.0, end) / (len(flat) + 1)
    return [
        Line(
            end - step * (len(flat) - n), "LOG", "", {},
            {"pod": log.pod, "uid": log.uid, "container": log.container, "line": text, "previous": log.previous},
            index + n,
        )
        for n, (log, text) in enumerate(flat)
    ]  # fmt: skip


def is_snapshot(evidence: Evidence) -> bool:
    """Report whether evidence is a state, not a stream: what `kubectl get -o json` and `diagnose --save` write."""
    return "snapshot" in evidence.header or (evidence.clock == "object" and not evidence.spans)


def thinned(objects: Iterable[Object]) -> list[Object]:
    """Return objects without events that only repeat others: of the same words about the same object the newest few.

    A namespace that has hung for a night has a hundred thousand of them, and the last says what the others said.
    """
    kept: list[Object] = []
    alike: dict[tuple[str, ...], list[tuple[str, Object]]] = {}
    for obj in objects:
        if obj.get("kind") != "Event":
            kept.append(obj)
            continue
        about = fields.sub(obj, "involvedObject") or fields.sub(obj, "regarding")
        told = (
            about.get("kind"),
            about.get("namespace"),
            about.get("name"),
            obj.get("type"),
            obj.get("reason"),
        )
        last = obj.get("lastTimestamp") or obj.get("eventTime") or obj.get("firstTimestamp") or ""
        alike.setdefault(tuple(map(str, told)), []).append((str(last), obj))
    for same in alike.values():
        if len(same) > ALIKE:
            same.sort(key=operator.itemgetter(0))
            same[:] = [same[0], *same[1 - ALIKE :]]
        kept += [obj for _, obj in same]
    return kept


def revive(evidence: Evidence) -> Evidence:
    """Return evidence with the history that it tells of; a stream is returned as it is, with its end marked."""
    if not is_snapshot(evidence):
        return evidence
    newest: dict[str, Object] = {}
    for line in evidence.lines:
        if line.type in WATCH_TYPES:
            if line.type == "DELETED":
                newest.pop(line.uid, None)
            else:
                newest[line.uid] = line.object
    told = fields.sub(evidence.header, "snapshot")
    logs: dict[tuple[str, str, str, bool], list[str]] = {}
    for line in evidence.logs():
        key = tuple(str(line.data.get(k) or "") for k in ("pod", "uid", "container"))
        logs.setdefault((*key, bool(line.data.get("previous"))), []).append(str(line.data.get("line") or ""))  # type: ignore[arg-type]
    extra = [{"type": "RESPONSE", **line.data} for line in evidence.responses()]
    return unfold(
        thinned(newest.values()), now=when(told.get("now")), extra=extra, header=evidence.header,
        logs=tuple(Log(pod, uid, box, "\n".join(text), before) for (pod, uid, box, before), text in logs.items()),
    )  # fmt: skip


def to_lines(
    objects: Sequence[Object],
    now: datetime,
    logs: Sequence[Log],
    extra: Sequence[Mapping[str, Any]],
    **header: Any,
) -> Iterator[str]:
    """Yield the lines of a dump: what was seen, as it was seen; `revive` makes a history of it."""
    told = {
        "type": "HEADER",
        "schema": 1,
        "clock": "object",
        "snapshot": {"now": times.format_time(now)},
        **header,
    }
    yield json.dumps(told)
    for obj in objects:
        yield json.dumps({"t": 0.0, "type": "ADDED", "kind": names.kind_key_of(dict(obj)), "object": obj})
    for log in logs:
        told = {"pod": log.pod, "uid": log.uid, "container": log.container, "previous": log.previous}
        for text in log.text.splitlines():
            yield json.dumps({"t": 0.0, "type": "LOG", **told, "line": text})
    for one in extra:
        yield json.dumps({"t": 0.0, **one})


def said_in_words(files: Sequence[Path]) -> Evidence | None:
    """Return evidence of files that hold an error message of kubectl and no objects; None where they do not."""
    extra = []
    for file in filter(Path.is_file, files):
        for text in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if NO_MATCHES in text:
                status = {"code": 404, "message": text.strip()}
                extra.append({"type": "RESPONSE", "case": "kubectl", "code": 404, "status": status})
    return unfold((), extra=extra) if extra else None
