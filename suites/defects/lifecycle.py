"""Defects of how jobs end."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "lifecycle.complete-job-keeps-workers": {"LIFE-001": "fail"},
    "lifecycle.completes-without-policy": {"LIFE-002": "inconclusive"},
}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "lifecycle.no-completion": {"LIFE-001": "fail"},
    "lifecycle.end-with-master": {"LIFE-002": "inconclusive"},
}
