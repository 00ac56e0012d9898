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


_BY_VOLCANO = (
    "INV-001", "GANG-001", "GANG-002", "GANG-003", "GANG-004", "GANG-005", "GANG-006", "GANG-007",
    "GANG-009", "GANG-010", "GANG-011", "REF-001", "REF-002", "REF-004", "REF-005", "REF-006",
    "REF-007", "REF-008", "REF-009", "PLG-001", "PLG-002", "PLG-003", "PLG-004", "PLG-005", "PLG-006",
    "PLG-007", "PLG-008", "PLG-009", "PLG-010", "PLG-011", "PLG-012", "PLG-013", "LIFE-001",
    "LIFE-002", "LIFE-003", "LIFE-004",
    "LIFE-005", "LIFE-006", "LIFE-007", "LIFE-008", "LIFE-009", "LIFE-010", "LIFE-012", "LIFE-013",
    "LIFE-014", "RDZV-001", "RDZV-004", "RDZV-005", "RDZV-006", "RDZV-009", "NUMA-008", "FAB-001",
    "FAB-002", "FAB-003", "FAB-004", "FAB-005", "FAB-006", "FAB-010", "FAB-011", "FAB-012", "FAB-014",
    "FAB-015", "FAB-016", "FAB-017", "FAB-018",
    "FAB-019", "FAB-020", "FAB-021", "MFU-001", "MFU-002", "MFU-003", "MFU-004", "MFU-006",
    "CKPT-001", "CKPT-002", "CKPT-003", "CKPT-004", "CKPT-005", "CKPT-006", "TRN-003",
)  # fmt: skip
"""Rows whose pods a Job of Volcano makes: who places them is not known if they name another scheduler than it does."""


MUTANTS: base.Table = {
    "watch.drop-refusals": base.Mutant(
        "no scheduler gave a reason",
        drop_refusals,
        base.all_to(
            "inconclusive",
            "GANG-002 GANG-003 GANG-004 GANG-005 REF-001 REF-002 REF-005 REF-006 REF-007 REF-009 "
            "GANG-012 LIFE-013 LIFE-014 TRN-003 TRN-006",
        ),
    ),
    "watch.cut": base.Mutant(
        "the watch has a gap",
        cut_watch,
        base.all_to(
            "inconclusive",
            "INV-001 INV-002 INV-003 INV-004 INV-005 INV-006 INV-007 INV-008 INV-011 HLT-005 "
            "ELA-001 ELA-002 ELA-003 ELA-004 ELA-005 ELA-006 ELA-007 ELA-008 ELA-009 "
            "GANG-001 GANG-002 GANG-003 GANG-004 GANG-005 GANG-006 GANG-007 GANG-008 GANG-009 "
            "GANG-010 GANG-012 REF-001 REF-002 REF-003 REF-004 REF-005 REF-006 REF-007 REF-008 REF-009 "
            "PLG-001 PLG-003 PLG-004 PLG-006 PLG-007 PLG-008 PLG-009 PLG-011 PLG-012 "
            "LIFE-001 LIFE-002 LIFE-003 LIFE-004 LIFE-005 LIFE-006 LIFE-007 LIFE-008 LIFE-009 "
            "LIFE-010 LIFE-011 LIFE-012 LIFE-013 LIFE-014 "
            "RDZV-001 RDZV-002 RDZV-003 RDZV-005 RDZV-006 RDZV-007 RDZV-008 RDZV-010 "
            "KUE-001 KUE-002 KUE-003 KUE-004 KUE-005 KUE-007 KUE-008 KUE-009 "
            "NUMA-001 NUMA-002 NUMA-003 NUMA-004 NUMA-005 NUMA-006 NUMA-007 NUMA-008 "
            "FAB-019 FAB-020 FAB-021 FAB-001 FAB-002 FAB-003 FAB-004 FAB-005 FAB-006 FAB-010 FAB-011 FAB-012 "
            "FAB-013 FAB-014 FAB-015 FAB-016 FAB-017 FAB-018 MFU-002 MFU-003 MFU-006 "
            "CKPT-001 CKPT-002 CKPT-003 CKPT-004 CKPT-006 HLT-002 HLT-003 FAB-007 HLT-004 "
            "TRN-003 TRN-004 TRN-005 TRN-006",
        ),
    ),
    "scheduler.default": base.Mutant(
        "the pods are placed by default-scheduler",
        under_default_scheduler,
        dict.fromkeys(_BY_VOLCANO, "inconclusive"),
    ),
}
