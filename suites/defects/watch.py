"""Defects of the watch itself: they take the ground from every area."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "watch.drop-refusals": {
        "TRN-003": "inconclusive",
        "REF-006": "inconclusive",
        "REF-009": "inconclusive",
        "LIFE-013": "inconclusive",
        "LIFE-014": "inconclusive",
        "GANG-002": "inconclusive",
        "GANG-003": "inconclusive",
        "GANG-004": "inconclusive",
        "GANG-005": "inconclusive",
        "REF-001": "inconclusive",
        "REF-002": "inconclusive",
        "REF-005": "inconclusive",
        "REF-007": "inconclusive",
    },
    "watch.cut": {
        "REF-003": "inconclusive",
        "REF-004": "inconclusive",
        "TRN-003": "inconclusive",
        **dict.fromkeys(("KUE-002", "KUE-003", "KUE-005", "KUE-008"), "inconclusive"),
        "REF-006": "inconclusive",
        "REF-009": "inconclusive",
        "LIFE-013": "inconclusive",
        "GANG-002": "inconclusive",
        "GANG-003": "inconclusive",
        "GANG-004": "inconclusive",
        "GANG-005": "inconclusive",
        "GANG-008": "inconclusive",
        "GANG-010": "inconclusive",
        "REF-001": "inconclusive",
        "REF-002": "inconclusive",
        "REF-005": "inconclusive",
        "REF-007": "inconclusive",
        "REF-008": "inconclusive",
        "LIFE-002": "inconclusive",
        **dict.fromkeys(("LIFE-004", "LIFE-005", "LIFE-006", "LIFE-007", "LIFE-009"), "inconclusive"),
        **dict.fromkeys(("LIFE-010", "LIFE-011", "LIFE-012", "NUMA-002"), "inconclusive"),
    },
    "scheduler.default": {
        "GANG-002": "inconclusive",
        "GANG-003": "inconclusive",
        "GANG-004": "inconclusive",
        "GANG-005": "inconclusive",
        "GANG-011": "inconclusive",
    },
}
