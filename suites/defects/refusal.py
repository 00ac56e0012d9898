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
