"""Defects of the gang rule."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "gang.binds-partially": {
        "GANG-002": "fail",
        "GANG-003": "fail",
        "GANG-004": "fail",
        "GANG-005": "fail",
        "REF-007": "inconclusive",
    },
    "gang.ignores-task-minimum": {"GANG-005": "fail"},
    "gang.never-reports-short": {"GANG-009": "fail"},
    "gang.starves-loser": {
        "REF-006": "inconclusive",
        "REF-009": "fail",
        "LIFE-013": "inconclusive",
        "LIFE-014": "inconclusive",
        "GANG-004": "fail",
    },
    "gang.forgets-room": {"GANG-002": "fail"},
    "gang.min-member-short": {
        "REF-006": "fail",
        "REF-007": "inconclusive",
        "GANG-001": "fail",
        "GANG-002": "fail",
        "GANG-003": "fail",
        "GANG-005": "fail",
        "GANG-006": "fail",
        "GANG-009": "fail",
    },
    "admission.overwrites-scheduler": {"GANG-011": "inconclusive"},
    "admission.no-default-minimum": {
        "INV-001": "fail",
        "GANG-003": "fail",
        "GANG-005": "fail",
        "GANG-006": "fail",
    },
    "default-scheduler.gang-aware": {
        "KUE-009": "inconclusive",
        "GANG-008": "inconclusive",
        "GANG-012": "fail",
    },
}
