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
    "default-scheduler.gang-aware": {"KUE-009": "inconclusive", "GANG-008": "inconclusive"},
}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "gang.bind-one-early": {
        "TRN-003": "fail",
        "REF-006": "inconclusive",
        "GANG-002": "fail",
        "GANG-003": "fail",
        "GANG-004": "fail",
        "GANG-005": "fail",
        "REF-007": "inconclusive",
    },
    "gang.never-bound": {
        "TRN-003": "inconclusive",
        "KUE-003": "inconclusive",
        "REF-009": "fail",
        "LIFE-014": "inconclusive",
        "GANG-002": "inconclusive",
        "GANG-003": "inconclusive",
        "GANG-004": "inconclusive",
        "GANG-005": "inconclusive",
    },
    "gang.short-min-member": {"GANG-001": "fail", "GANG-006": "fail"},
    "gang.binds-apart": {
        "TRN-003": "fail",
        "KUE-004": "fail",
        "GANG-001": "fail",
        "GANG-002": "fail",
        "GANG-003": "fail",
        "GANG-004": "fail",
        "GANG-005": "fail",
        "GANG-007": "fail",
    },
    "gang.starts-apart": {"KUE-004": "fail", "GANG-007": "fail"},
    "gang.schedulers-agree": {"GANG-011": "inconclusive"},
    "gang.pods-renamed": {"GANG-011": "fail"},
    "gang.short-unsaid": {"GANG-009": "fail"},
    "gang.not-healed-unsaid": {"GANG-010": "fail"},
    "gang.role-starts-alone": {"GANG-005": "fail"},
    "gang.minimum-not-defaulted": {
        "REF-006": "fail",
        "GANG-006": "fail",
        **dict.fromkeys(("GANG-003", "GANG-005", "REF-009"), "inconclusive"),
    },
    "gang.drop-a-barrier-line": {"GANG-001": "inconclusive", "RDZV-004": "fail"},
    "gang.barrier-of-fewer": {"GANG-001": "fail"},
}
