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
