"""Departures in time alone: the tables of `evidence.mutate.moved`."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "gang.last-starts-late": {"GANG-007": "fail", "LIFE-001": "fail"},
    "gang.reported-late": {"GANG-009": "fail"},
    "gang.healed-late-unsaid": {"GANG-009": "fail", "GANG-010": "fail"},
    "plugins.worker-starts-first": {"PLG-010": "fail"},
    "plugins.gives-up-late": {"PLG-013": "fail"},
    "lifecycle.completes-late": {"LIFE-001": "fail"},
    "numa.others-end-late": {"NUMA-008": "fail"},
    "rendezvous.stall-ends-late": {"RDZV-009": "fail"},
}
