"""Defects of the traffic between ranks."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

_LOGGED = ("FAB-001", "FAB-002", "FAB-003", "FAB-004", "FAB-005", "FAB-017", "FAB-018")
"""Rows that are judged by the NCCL logs of the run that users get."""

_UNPLACED = dict.fromkeys(("FAB-006", "FAB-010", "FAB-012"), "environment")
"""Rows that stand on a device of its own for each rank."""

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "fabric.another-interface": {"FAB-013": "fail"},
    "fabric.wrong-sum": {"FAB-013": "fail"},
    "fabric.two-ranks-on-one-gpu": {**_UNPLACED, "FAB-014": "fail"},
    "fabric.a-node-is-missing": {**_UNPLACED, "FAB-014": "fail", "FAB-018": "fail"},
    "fabric.ranks-unheard": {
        **dict.fromkeys((*_UNPLACED, "FAB-011", "FAB-014"), "inconclusive"),
        **dict.fromkeys(
            ("FAB-001", "FAB-002", "FAB-003", "FAB-004", "FAB-005", "FAB-016", "FAB-017", "FAB-018"),
            "inconclusive",
        ),
    },
    "fabric.wrong-element": {"FAB-006": "fail"},
    "fabric.below-the-floor": {"FAB-006": "fail"},
    "fabric.not-a-number": dict.fromkeys(_UNPLACED, "inconclusive"),
    "fabric.forced-network-fails": {"FAB-010": "fail"},
    "fabric.forced-and-ignored": {"FAB-010": "fail"},
    "fabric.force-unseen": {"FAB-010": "inconclusive"},
    "fabric.stall-unbounded": {"FAB-011": "fail"},
    "fabric.stall-unnamed": {"FAB-011": "fail"},
    "fabric.stall-unheard": {"FAB-011": "fail"},
    "fabric.one-rank-on-sockets": dict.fromkeys(("FAB-001", "FAB-002", "FAB-003"), "fail"),
    "fabric.another-network": {"FAB-001": "fail"},
    "fabric.sockets-chosen": {
        "FAB-003": "fail",
        **dict.fromkeys(("FAB-001", "FAB-002", "FAB-004", "FAB-005", "FAB-017", "FAB-018"), "inconclusive"),
    },
    "fabric.no-gdr": {"FAB-002": "fail"},
    "fabric.worlds-apart": {"FAB-004": "fail"},
    "fabric.another-adapter": {"FAB-005": "fail"},
    "fabric.another-setting": {"FAB-017": "fail"},
    "fabric.shared-memory": {"FAB-018": "fail"},
    "fabric.log-cut": dict.fromkeys(_LOGGED, "inconclusive"),
    "fabric.not-switched-off": {"FAB-016": "inconclusive"},
    "fabric.slow-link": {"FAB-012": "fail"},
    "fabric.floor-without-shape": {"FAB-006": "inconclusive", "FAB-015": "inconclusive"},
    "fabric.floor-above-the-wires": {"FAB-006": "inconclusive", "FAB-015": "inconclusive"},
    "fabric.unseen": {"FAB-013": "inconclusive"},
}
