"""Defects of how jobs end."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "lifecycle.complete-job-keeps-workers": {"LIFE-001": "fail"},
    "lifecycle.completes-without-policy": {"LIFE-002": "inconclusive", "RDZV-009": "inconclusive"},
    "lifecycle.eviction-ignored": {"LIFE-003": "fail"},
    "lifecycle.restarts-without-end": {"LIFE-004": "fail", "NUMA-008": "fail"},
    "lifecycle.ttl-ignored": {"LIFE-005": "fail"},
    "lifecycle.min-success-ignored": {"LIFE-006": "fail"},
    "lifecycle.exit-code-ignored": {"LIFE-007": "fail"},
    "lifecycle.resume-ignored": {"LIFE-009": "fail"},
    "lifecycle.job-forgets-finished": {"LIFE-010": "fail"},
    "node.late-plugin": {"LIFE-011": "fail"},
}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "lifecycle.no-completion": {"PLG-002": "inconclusive", "LIFE-001": "fail"},
    "lifecycle.end-with-master": {"LIFE-002": "inconclusive"},
    "lifecycle.only-the-lost-returns": {"LIFE-003": "fail"},
    "lifecycle.restarted-twice": {"LIFE-003": "fail"},
    "lifecycle.one-attempt-too-many": {"LIFE-004": "fail"},
    "lifecycle.failed-leaves-a-worker": {"LIFE-004": "fail", "NUMA-008": "inconclusive"},
    "lifecycle.never-removed": {"LIFE-005": "fail"},
    "lifecycle.pods-outlive-their-job": {"LIFE-005": "fail"},
    "lifecycle.completes-with-too-few": {"LIFE-006": "fail"},
    "lifecycle.failure-ignored": {"LIFE-007": "fail"},
    "lifecycle.another-action": {"LIFE-007": "fail"},
    "lifecycle.undocumented-phase": {"LIFE-008": "fail"},
    "lifecycle.stays-suspended": {"LIFE-009": "fail"},
    "lifecycle.resume-is-free": {"LIFE-009": "fail"},
    "lifecycle.finished-member-returns": {"LIFE-010": "fail"},
    "lifecycle.replacement-rejected": {"LIFE-011": "fail"},
    "lifecycle.replaced-twice-after-restart": {"LIFE-011": "fail"},
    "lifecycle.members-survive-restart": {"LIFE-011": "inconclusive"},
    "lifecycle.no-restart-in-place": {"LIFE-012": "inconclusive"},
}
