"""Departures in a value: the tables of `evidence.mutate.exchanged`."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "gang.contrast-by-volcano": {"GANG-008": "inconclusive"},
    "gang.contrast-whole": {"GANG-008": "inconclusive"},
    "plugins.world-counts-more": {"PLG-001": "fail", "PLG-004": "fail", "PLG-005": "inconclusive"},
    "plugins.arguments-empty": {"PLG-004": "fail"},
    "plugins.wrong-master-works": {"PLG-005": "inconclusive"},
    "plugins.index-off-by-one": {"PLG-007": "fail"},
    "plugins.one-index-for-all": {"PLG-007": "fail"},
    "refusal.webhook-unanswered": {"REF-003": "inconclusive", "REF-004": "inconclusive"},
    "lifecycle.policy-for-another-event": {"LIFE-001": "inconclusive"},
    "lifecycle.begins-aborted": {"LIFE-008": "fail", "LIFE-009": "fail"},
    "rendezvous.another-element-wrong": {"RDZV-001": "fail"},
    "rendezvous.stall-ends-with-zero": {"RDZV-009": "fail"},
    "numa.on-no-numa-node": {
        "NUMA-006": "fail",
        **dict.fromkeys(("NUMA-003", "NUMA-005", "NUMA-007"), "inconclusive"),
    },
    "fabric.floor-that-sockets-reach": {"FAB-006": "inconclusive", "FAB-015": "inconclusive"},
    "fabric.sockets-before": {"FAB-016": "inconclusive"},
}
