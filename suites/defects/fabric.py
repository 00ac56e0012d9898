"""Defects of the traffic between ranks."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "fabric.another-interface": {"FAB-013": "fail"},
    "fabric.wrong-sum": {"FAB-013": "fail"},
    "fabric.unseen": {"FAB-013": "inconclusive"},
}
