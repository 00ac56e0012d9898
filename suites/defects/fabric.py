"""Defects of the traffic between ranks."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "fabric.another-interface": {"FAB-013": "fail"},
    "fabric.wrong-sum": {"FAB-013": "fail"},
    "fabric.two-ranks-on-one-gpu": {"FAB-014": "fail"},
    "fabric.a-node-is-missing": {"FAB-014": "fail"},
    "fabric.ranks-unheard": {"FAB-014": "inconclusive"},
    "fabric.floor-without-shape": {"FAB-015": "inconclusive"},
    "fabric.floor-above-the-wires": {"FAB-015": "inconclusive"},
    "fabric.unseen": {"FAB-013": "inconclusive"},
}
