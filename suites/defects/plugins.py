"""Defects of the job plugins and of names."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "plugins.rank-off-by-one": {"PLG-001": "fail"},
    "plugins.no-pytorch-env": {"PLG-001": "fail", "PLG-005": "inconclusive"},
    "plugins.injects-unasked": {"PLG-005": "inconclusive"},
    "plugins.svc-without-service": {"PLG-003": "fail", "GANG-001": "environment", "LIFE-001": "inconclusive"},
    "network.dns-silent": {"PLG-003": "fail", "GANG-001": "environment", "LIFE-001": "inconclusive"},
}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "plugins.move-rank": {"PLG-001": "fail"},
    "plugins.drop-env": {"PLG-001": "inconclusive"},
    "plugins.wrong-address": {"PLG-003": "fail"},
    "plugins.unresolved": {"GANG-001": "environment", "PLG-003": "fail"},
    "plugins.no-service": {"PLG-003": "fail"},
    "plugins.inject-unasked": {"PLG-005": "inconclusive"},
}
