"""Departures that are there besides: the tables of `evidence.mutate.added`."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "refusal.stored-all-the-same": {"REF-003": "fail", "REF-004": "fail"},
    "refusal.one-of-many-bound": {"REF-001": "fail"},
    "lifecycle.runs-again": {"LIFE-008": "fail"},
    "lifecycle.policy-after-all": {"LIFE-002": "inconclusive"},
    "rendezvous.others-accused": {"RDZV-009": "fail"},
    "fabric.a-floor-more": {"FAB-006": "inconclusive", "FAB-015": "inconclusive"},
}
