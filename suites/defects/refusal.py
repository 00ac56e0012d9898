"""Defects of refusals."""

from collections.abc import Mapping

_NO_JOB = {
    "INV": (1, 10),
    "GANG": range(1, 12),
    "REF": range(1, 10),
    "PLG": (*range(1, 8), 10, 11, 13),
    "LIFE": range(1, 15),
    "RDZV": (3, 4, 7, 8, 9),
    "KUE": (1, 2, 3, 4, 5, 8, 9),
    "NUMA": (8,),
    "TRN": (3,),
}
"""Rows that need a Job of their own, those with torch left out: where nobody may create one, nothing is decided."""

FLIPS: Mapping[str, Mapping[str, str]] = {
    "admission.foreign-policy": {
        f"{area}-{number:03d}": "inconclusive" for area, numbers in _NO_JOB.items() for number in numbers
    },
    "refusal.binds-over-large": {"REF-001": "fail"},
    "refusal.silent": {"REF-001": "inconclusive"},
    "refusal.reserves": {
        "REF-002": "environment",
        "REF-005": "fail",
    },
    "queue.ignores-capability": {"REF-002": "fail", "REF-005": "inconclusive"},
    "queue.forgets-promises": {"REF-007": "inconclusive"},
    "scheduler.serves-any-name": {"REF-008": "fail"},
    "admission.accepts-duplicate-tasks": {"REF-003": "fail"},
}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "refusal.forget-control": {
        **dict.fromkeys(
            (
                "PLG-010",
                "RDZV-006",
            ),
            "inconclusive",
        ),
        "FAB-016": "inconclusive",
        "TRN-003": "inconclusive",
        **dict.fromkeys(("KUE-001", "KUE-002", "KUE-003", "KUE-008"), "inconclusive"),
        **dict.fromkeys(("MFU-002", "MFU-003", "MFU-006"), "inconclusive"),
        "GANG-011": "inconclusive",
        "RDZV-003": "inconclusive",
        "REF-006": "inconclusive",
        "REF-009": "inconclusive",
        "LIFE-013": "inconclusive",
        "LIFE-014": "inconclusive",
        "GANG-004": "inconclusive",
        "REF-001": "inconclusive",
        "REF-002": "inconclusive",
        "REF-005": "inconclusive",
        "REF-007": "inconclusive",
        "REF-008": "inconclusive",
        "PLG-002": "inconclusive",
        "PLG-005": "inconclusive",
        "PLG-013": "inconclusive",
        "RDZV-001": "inconclusive",
        "RDZV-004": "inconclusive",
        "RDZV-005": "inconclusive",
        "RDZV-008": "inconclusive",
        **dict.fromkeys(("LIFE-003", "LIFE-005", "LIFE-006", "LIFE-007"), "inconclusive"),
        **dict.fromkeys(("LIFE-009", "LIFE-010", "LIFE-012"), "inconclusive"),
    },
    "refusal.accept-duplicate-task": {"REF-003": "fail"},
    "refusal.by-permission": {"REF-003": "inconclusive", "REF-004": "inconclusive"},
    "refusal.blames-cluster": {"REF-002": "inconclusive"},
    "refusal.evicts-neighbour": {"REF-005": "fail"},
    "refusal.blocks-neighbour": {"REF-009": "fail", "REF-005": "fail"},
    "refusal.not-blocked": {"LIFE-013": "inconclusive", "REF-007": "inconclusive"},
    "refusal.speaks-for-nobody": {"REF-008": "fail"},
    "queue.accept-unknown": {"REF-004": "fail"},
    "queue.accept-closed": {"REF-004": "fail"},
    "queue.capability-overrun": {"REF-002": "fail"},
}
