"""Members that fail, are evicted or start again, though the row rests on them: no pass, whatever else was seen.

Rows that are not named here rest on no member that runs, or are about members that are meant to fail.
"""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

_ANY = (
    "GANG-001", "GANG-002", "GANG-004", "GANG-007", "GANG-008", "REF-001", "REF-002", "REF-004", "REF-005",
    "REF-006", "REF-008", "PLG-001", "PLG-002", "PLG-003", "PLG-004", "PLG-005", "PLG-006", "PLG-007",
    "PLG-010", "PLG-011", "PLG-013", "LIFE-001", "LIFE-002", "LIFE-003", "LIFE-005", "LIFE-006", "LIFE-008",
    "LIFE-009", "LIFE-010", "LIFE-013", "LIFE-014", "RDZV-001", "RDZV-002", "RDZV-003", "RDZV-005", "RDZV-006",
    "RDZV-007", "RDZV-008", "RDZV-010", "KUE-001", "KUE-002", "KUE-003", "KUE-004", "KUE-005", "KUE-008",
    "KUE-009", "NUMA-001", "NUMA-002", "NUMA-003", "NUMA-004", "NUMA-005", "NUMA-006", "NUMA-007", "NUMA-008",
    "FAB-001", "FAB-002", "FAB-003", "FAB-004", "FAB-005", "FAB-006", "FAB-010", "FAB-012", "FAB-013",
    "FAB-014", "FAB-015", "FAB-016", "FAB-017", "FAB-018", "MFU-001", "MFU-002", "MFU-003", "MFU-004",
    "MFU-006", "HLT-004", "TRN-003",
)  # fmt: skip
_SAYING_DONE = (
    "GANG-001", "GANG-007", "PLG-001", "PLG-002", "PLG-003", "PLG-004", "PLG-006", "PLG-007", "PLG-010",
    "PLG-011", "PLG-013", "LIFE-001", "LIFE-008", "RDZV-001", "FAB-001", "FAB-002", "FAB-003", "FAB-004",
    "FAB-005", "FAB-006", "FAB-010", "FAB-012", "FAB-014", "FAB-015", "FAB-016", "FAB-017", "FAB-018",
)  # fmt: skip

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "member.failed": {**dict.fromkeys(_ANY, "inconclusive"), "REF-009": "fail"},
    # Which containers of a pod that says nothing are ours is not known: another's may start again.
    "member.started-again": dict.fromkeys(
        (row for row in (*_ANY, "REF-009") if row not in {"GANG-002", "NUMA-008"}), "inconclusive"
    ),
    "member.done-with-1": dict.fromkeys(_SAYING_DONE, "inconclusive"),
}
