"""Defects of the traffic between ranks."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "fabric.another-interface": {"FAB-013": "fail"},
    "fabric.wrong-sum": {"FAB-013": "fail"},
    "fabric.two-ranks-on-one-gpu": {"FAB-006": "environment", "FAB-012": "environment", "FAB-014": "fail"},
    "fabric.a-node-is-missing": {"FAB-006": "environment", "FAB-012": "environment", "FAB-014": "fail"},
    "fabric.ranks-unheard": {"FAB-006": "inconclusive", "FAB-012": "inconclusive", "FAB-014": "inconclusive"},
    "fabric.wrong-element": {"FAB-006": "fail"},
    "fabric.below-the-floor": {"FAB-006": "fail"},
    "fabric.not-a-number": {"FAB-006": "inconclusive", "FAB-012": "inconclusive"},
    "fabric.not-switched-off": {"FAB-016": "inconclusive"},
    "fabric.slow-link": {"FAB-012": "fail"},
    "fabric.floor-without-shape": {"FAB-006": "inconclusive", "FAB-015": "inconclusive"},
    "fabric.floor-above-the-wires": {"FAB-006": "inconclusive", "FAB-015": "inconclusive"},
    "fabric.unseen": {"FAB-013": "inconclusive"},
}
