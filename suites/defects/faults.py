"""Defects of what the programs of the suite stand on: hardware, kubelets, phases, quota, and what is declared."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "admission.accepts-any-queue": {"REF-004": "fail"},
    "admission.only-warns": {"REF-003": "fail", "REF-004": "fail"},
    "admission.other-task-names": {"INV-010": "fail"},
    "admission.other-retries": {"INV-010": "fail"},
    "queue.promises-too-much": {"INV-005": "fail"},
    "lifecycle.completes-by-terminating": {"LIFE-008": "fail"},
    "node.never-restarts": {"LIFE-012": "inconclusive"},
    # Whoever waits for an end with another code than 0 waits in vain, or goes on with what is not there.
    "node.keeps-exit-zero": {
        **dict.fromkeys(("PLG-013", "RDZV-003", "RDZV-004", "RDZV-008", "RDZV-009"), "fail"),
        **dict.fromkeys(("ELA-003", "ELA-004", "ELA-007"), "fail"),
        **dict.fromkeys(("LIFE-004", "LIFE-007", "LIFE-012"), "inconclusive"),
    },
    "node.shares-a-device": {"FAB-014": "fail", "HLT-002": "inconclusive"},
    "node.corrupts-collectives": {
        **dict.fromkeys(("FAB-006", "FAB-013", "MFU-002", "MFU-004"), "fail"),
        **dict.fromkeys(("RDZV-001", "RDZV-006", "RDZV-010"), "fail"),
        # Ranks whose data is wrong end with another code than 0.
        **dict.fromkeys(("FAB-014", "FAB-015", "RDZV-002"), "inconclusive"),
    },
    "node.corrupts-products": {"MFU-001": "fail", "MFU-003": "fail"},
    "profile.floor-in-gbits": {"FAB-015": "inconclusive"},
}
