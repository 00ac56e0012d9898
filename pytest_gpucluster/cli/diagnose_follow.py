"""`gpucluster diagnose --follow`: look again whenever something happens, until the job ends."""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster import diagnose
from pytest_gpucluster.cli import job_snapshot, tellable
from pytest_gpucluster.diagnose.situation import FINAL, Situation
from pytest_gpucluster.evidence import Evidence, Span
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.kube import errors, watch
from pytest_gpucluster.plain import redact

QUIET = 0.5
"""Seconds without a change after which what came is looked at: a gang's pods change together."""
AGAIN = 5.0
"""Seconds after which it is looked at again without a change: silence is a symptom too."""
FRESH = 15.0
"""Seconds after which logs, nodes and queues are read again."""

Show = Callable[[diagnose.Diagnosis], None]


def evidence_of(collected: job_snapshot.Collected) -> Evidence:
    """Return what was read as evidence with a history."""
    return diagnose.unfold(
        collected.objects, now=collected.now, logs=collected.logs, extra=collected.extra,
        header={"looked": collected.looked},
    )  # fmt: skip


def look(
    collector: job_snapshot.Collector, collected: job_snapshot.Collected, judges: Mapping[str, diagnose.Judge]
) -> list[diagnose.Diagnosis]:
    """Return the diagnoses of what was read: more than one if the subject stands for several jobs."""
    return [diagnose.diagnose(one, judges) for one in _subjects(evidence_of(collected), collector)]


def _subjects(evidence: Evidence, collector: job_snapshot.Collector) -> tuple[Situation, ...]:
    found = diagnose.subjects(evidence, collector.name, collector.namespace, collector.kind)
    if not any(one.pods for one in found):
        # What stands above an owner of pods has none of its own: the jobs below it are looked at.
        below = tuple(
            one for one in diagnose.subjects(evidence, "", collector.namespace)
            if one.gang is not None and one.pods and collector.is_subject([p.uid for p in one.gang.pods])
        )  # fmt: skip
        found = below or found
    return found or (Situation(evidence, None),)


class _Changes:
    """Takes what the watches say; a watch may say it from its own thread."""

    def __init__(self, collector: job_snapshot.Collector, known: Mapping[str, str]) -> None:
        self.collector = collector
        self._known = dict(known)
        self.condition = threading.Condition()
        self.lines: list[tuple[float, str, str, Mapping[str, Any]]] = []
        self.ended_kinds: dict[str, str] = {}
        self.last = 0.0

    def line(self, change: str, kind: str, obj: dict[str, Any], t: float) -> None:
        metadata = obj.get("metadata") or {}
        uid, version = str(metadata.get("uid")), str(metadata.get("resourceVersion"))
        if kind == "Event" and not self.collector.about(obj):
            return
        with self.condition:
            if change == "ADDED" and self._known.get(uid) == version:
                return
            word = "MODIFIED" if change == "ADDED" and uid in self._known else change
            self._known[uid] = version
            self.lines.append((t, word, kind, redact.clean(obj)))
            self.last = t
            self.condition.notify_all()

    def in_sync(self, kind: str, t: float, how: str) -> None:
        """Nothing: what came between the list that was read and this one comes as a change."""

    def out_of_sync(self, kind: str, t: float, why: str) -> None:
        """Nothing: the watch resumes by itself."""

    def ended(self, kind: str, error: errors.GpuClusterError) -> None:
        with self.condition:
            self.ended_kinds[kind] = str(error)
            self.condition.notify_all()

    def wait(self) -> int:
        """Wait for a change and until it is quiet again, or for the time to look again; return how many there were."""
        with self.condition:
            before = len(self.lines)
            self.condition.wait_for(lambda: len(self.lines) > before, timeout=AGAIN)
            while len(self.lines) > before:
                before = len(self.lines)
                self.condition.wait(timeout=QUIET)
            return len(self.lines)


def follow(
    collector: job_snapshot.Collector,
    collected: job_snapshot.Collected,
    judges: Mapping[str, diagnose.Judge],
    show: Show,
) -> tuple[diagnose.Diagnosis, job_snapshot.Collected]:
    """Show the diagnosis whenever it changes; return the last one when the job has ended, or at Ctrl-C."""
    known = {
        str(o["metadata"].get("uid")): str(o["metadata"].get("resourceVersion")) for o in collected.objects
    }
    changes = _Changes(collector, known)
    begun = time.monotonic()
    api = collector.api
    watches = [
        watch.KindWatch(api, watch.Target(info, collector.namespace), changes) for info in collector.watched
    ]
    shown: tuple[Any, ...] = ()
    first, fresh = collected, begun
    found = look(collector, first, judges)[0]
    try:
        for one in watches:
            one.start()
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                if _mark(found) != shown:
                    shown = _mark(found)
                    show(found)
                if _ended(found):
                    return found, collected
                changes.wait()
                now = time.monotonic()
                if now - fresh > FRESH:
                    collected, fresh = tellable.of(collector.collect(), collector), now
                evidence = _merged(first, collected, changes, begun)
                found = diagnose.diagnose(_subjects(evidence, collector)[0], judges)
    finally:
        for one in watches:
            one.stop()
        for one in watches:
            one.join()
    return found, collected


def _mark(found: diagnose.Diagnosis) -> tuple[Any, ...]:
    """Return what makes a diagnosis another one: not how many seconds it has lasted."""
    causes = tuple((one.code, one.where) for one in found.suspects)
    return (found.state, found.phase, causes, tuple(one.code for one in found.notes))


def _ended(found: diagnose.Diagnosis) -> bool:
    return found.state is diagnose.State.GONE or found.phase in FINAL


def _merged(
    first: job_snapshot.Collected, fresh: job_snapshot.Collected, changes: _Changes, begun: float
) -> Evidence:
    """Return the history that the first look told of, what the watches saw since, and what was read last beside it."""
    watched = {info.key for info in changes.collector.watched}
    base = evidence_of(first)
    zero = base.end
    lines = [line for line in base.lines if line.kind in watched]
    newest = evidence_of(fresh)
    beside = [line for line in newest.lines if line.kind and line.kind not in watched]
    rest = [line for line in newest.lines if not line.kind]
    with changes.condition:
        told = [
            ingest.make_line(zero + max(0.0, t - begun), change, {"object": obj}, 0)
            for t, change, _, obj in changes.lines
        ]
    end = zero + time.monotonic() - begun
    at_end = [type(line)(end, line.type, line.kind, line.object, line.data, 0) for line in rest]
    every = sorted([*lines, *beside, *told], key=lambda line: line.t) + at_end
    made = [
        type(line)(min(line.t, end), line.type, line.kind, line.object, line.data, index)
        for index, line in enumerate(every)
    ]
    spans = [Span(kind, zero, end, "watch") for kind in watched if kind not in changes.ended_kinds]
    return Evidence(made, header=newest.header, spans=spans)
