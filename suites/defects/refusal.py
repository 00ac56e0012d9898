"""Defects of refusals."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "refusal.binds-over-large": {"REF-001": "fail"},
    "refusal.silent": {"REF-001": "inconclusive"},
    "admission.accepts-duplicate-tasks": {"REF-003": "fail"},
}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "refusal.forget-control": {
        "GANG-004": "inconclusive",
        "REF-001": "inconclusive",
        "PLG-005": "inconclusive",
        "RDZV-001": "inconclusive",
        **dict.fromkeys(("LIFE-003", "LIFE-005", "LIFE-006", "LIFE-007"), "inconclusive"),
        **dict.fromkeys(("LIFE-009", "LIFE-010", "LIFE-012"), "inconclusive"),
    },
    "refusal.accept-duplicate-task": {"REF-003": "fail"},
    "refusal.by-permission": {"REF-003": "inconclusive"},
}
