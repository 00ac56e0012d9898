"""Departures of the watch itself, and of who schedules: they concern every area."""

from typing import Any

from pytest_gpucluster.evidence.log.model import EVERY_KIND, Evidence, Span
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names


def drop_refusals(evidence: Evidence) -> Evidence:
    """Take away every reason that a scheduler gave: its events, and the conditions of PodGroups and waiting pods."""

    def silence(obj: dict[str, Any]) -> None:
        status = obj.get("status")
        if isinstance(status, dict):
            status.pop("conditions", None)

    quiet = base.without(evidence, lambda line: line.kind == "Event")
    return base.each(
        quiet, lambda line: line.kind in {names.POD_GROUP, names.NATIVE_POD_GROUP, "Pod"}, silence
    )


def cut_watch(evidence: Evidence) -> Evidence:
    """Put a gap into the coverage of every kind; no line is lost.

    It lies over the windows that the driver noted, else over the middle third.
    """
    first = evidence.lines[0].t if evidence.lines else 0.0
    begins = [note.t for note in evidence.notes("window-begin")]
    ends = [note.t for note in evidence.notes("window-end")]
    third = (evidence.end - first) / 3
    start, stop = min(begins, default=first + third), max(ends, default=evidence.end - third)
    spans = [Span(EVERY_KIND, first, start, "cut"), Span(EVERY_KIND, stop, evidence.end, "cut")]
    return base.with_lines(evidence, evidence.lines, spans=spans)


def under_default_scheduler(evidence: Evidence) -> Evidence:
    """Let every pod carry schedulerName default-scheduler."""
    return base.each(
        evidence,
        lambda line: line.kind == "Pod",
        lambda obj: obj["spec"].update(schedulerName="default-scheduler"),
    )


MUTANTS: base.Table = {
    "watch.drop-refusals": ("no scheduler gave a reason", drop_refusals),
    "watch.cut": ("the watch has a gap", cut_watch),
    "scheduler.default": ("the pods are placed by default-scheduler", under_default_scheduler),
}
