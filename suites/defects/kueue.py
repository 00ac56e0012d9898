"""Defects of admission by quota."""

from collections.abc import Mapping

ROWS = ("KUE-001", "KUE-002", "KUE-003", "KUE-004", "KUE-005", "KUE-007", "KUE-008", "KUE-009")

FLIPS: Mapping[str, Mapping[str, str]] = {
    "kueue.absent": dict.fromkeys(ROWS, "fail"),
    "kueue.starts-before-admission": dict.fromkeys(
        ("KUE-001", "KUE-002", "KUE-005", "KUE-007", "KUE-008"), "fail"
    ),
    "kueue.admits-over-quota": {"KUE-002": "fail", "KUE-003": "fail"},
    "kueue.half-admits": {"KUE-001": "fail", "KUE-002": "fail"},
    "kueue.keeps-evicted-quota": {"KUE-004": "fail", "KUE-005": "fail"},
    "kueue.never-evicts": {"KUE-004": "fail"},
    "kueue.unknown-queue-runs": {"KUE-008": "fail"},
    "kueue.silent-unknown-queue": {"KUE-008": "fail"},
    "kueue.silent-refusal": {"KUE-002": "fail", "KUE-007": "fail"},
    "kueue.no-second": {"KUE-003": "fail"},
    "kueue.ignores-topology": {"KUE-007": "fail"},
    "kueue.ignores-stop": {"KUE-005": "inconclusive"},
    "kueue.manages-unlabelled": {"KUE-008": "fail", "LIFE-011": "inconclusive"},
}
