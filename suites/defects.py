"""Which rows each planted defect turns red: the one reviewed table.

A row that is not named stays `pass` under the defect. `environment` and `inconclusive` are red too: they name the
prerequisite that failed. The matrix test runs the suite under each defect and compares exactly.
"""

from collections.abc import Mapping

_NOTHING_RUNS: Mapping[str, str] = {
    "INV-001": "fail",
    "REF-001": "environment",
    "GANG-001": "inconclusive",
    "GANG-002": "inconclusive",
    "GANG-004": "inconclusive",
    "PLG-001": "inconclusive",
    "PLG-003": "inconclusive",
    "PLG-005": "inconclusive",
    "LIFE-001": "inconclusive",
    "LIFE-002": "inconclusive",
    "RDZV-001": "inconclusive",
}
"""A part of the scheduler is absent: INV-001 says so, the others name the prerequisite that was not met."""

FLIPS: Mapping[str, Mapping[str, str]] = {
    "gang.binds-partially": {"GANG-002": "fail", "GANG-004": "fail"},
    "gang.starves-loser": {"GANG-004": "fail"},
    "gang.forgets-room": {"GANG-002": "fail"},
    "gang.min-member-short": {"GANG-001": "fail", "GANG-002": "fail"},
    "default-scheduler.gang-aware": {"GANG-008": "inconclusive"},
    "refusal.binds-over-large": {"REF-001": "fail"},
    "refusal.silent": {"REF-001": "inconclusive"},
    "admission.down": {
        "INV-001": "fail",
        "REF-003": "fail",
        "PLG-003": "fail",
        "GANG-001": "environment",
        "LIFE-001": "inconclusive",
    },
    "controllers.down": _NOTHING_RUNS,
    "scheduler.down": _NOTHING_RUNS,
    "admission.accepts-duplicate-tasks": {"REF-003": "fail"},
    "plugins.rank-off-by-one": {"PLG-001": "fail"},
    "plugins.no-pytorch-env": {"PLG-001": "fail", "PLG-005": "inconclusive"},
    "plugins.injects-unasked": {"PLG-005": "inconclusive"},
    "plugins.svc-without-service": {"PLG-003": "fail", "GANG-001": "environment", "LIFE-001": "inconclusive"},
    "network.dns-silent": {"PLG-003": "fail", "GANG-001": "environment", "LIFE-001": "inconclusive"},
    "node.hostname-loopback": {"RDZV-001": "fail"},
    "lifecycle.complete-job-keeps-workers": {"LIFE-001": "fail"},
    "lifecycle.completes-without-policy": {"LIFE-002": "inconclusive"},
}
"""Defect -> {requirement id: verdict}."""
