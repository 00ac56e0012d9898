"""Defects of the job plugins and of names."""

from collections.abc import Mapping

_MEMBERS_FAIL: Mapping[str, str] = dict.fromkeys(
    ("GANG-007", "PLG-001", "PLG-004", "PLG-006", "PLG-007"), "inconclusive"
)
"""The members of the healthy gang give up, with another code than 0: no row passes on what they said before."""

_NO_NAMES: Mapping[str, str] = {
    **_MEMBERS_FAIL,
    "PLG-003": "fail",
    "PLG-010": "environment",
    "PLG-011": "environment",
    "GANG-001": "environment",
    "LIFE-001": "inconclusive",
    "RDZV-004": "inconclusive",
    "LIFE-008": "inconclusive",
}
"""The master's name does not resolve: PLG-003 says so, what stands on it names the prerequisite."""

_NO_DNS: Mapping[str, str] = {
    **_NO_NAMES,
    "RDZV-001": "fail",
    "RDZV-002": "fail",
    "RDZV-003": "fail",
    "RDZV-005": "fail",
    "RDZV-006": "environment",
    "RDZV-007": "environment",
    "RDZV-008": "environment",
    "RDZV-010": "environment",
    "FAB-013": "environment",
}
"""No name resolves, whoever asks."""

FLIPS: Mapping[str, Mapping[str, str]] = {
    "plugins.rank-off-by-one": {"PLG-001": "fail"},
    "plugins.no-pytorch-env": {
        "PLG-001": "fail",
        "PLG-002": "fail",
        "PLG-004": "inconclusive",
        "PLG-005": "inconclusive",
        "PLG-010": "fail",
        "PLG-013": "fail",
        "RDZV-004": "inconclusive",
    },
    "plugins.injects-unasked": {"PLG-005": "inconclusive", "PLG-009": "inconclusive"},
    "plugins.opens-keys": {"PLG-008": "fail", "PLG-012": "fail"},
    "plugins.svc-without-service": _NO_NAMES,
    "plugins.ignores-port": {"PLG-002": "fail"},
    "plugins.no-wait-master": {"PLG-010": "fail", "PLG-013": "fail"},
    "plugins.waits-too-long": {"PLG-013": "fail"},
    "plugins.no-hosts-files": {"PLG-006": "fail"},
    "plugins.no-index-label": {"PLG-007": "fail"},
    "node.keeps-references": {
        "PLG-004": "fail",
        "RDZV-001": "fail",
        "RDZV-005": "fail",
        "RDZV-006": "environment",
    },
    "network.dns-down": _NO_DNS,
    "network.dns-silent": _NO_DNS,
    "network.blocks-rendezvous-port": {
        **_MEMBERS_FAIL,
        "PLG-002": "inconclusive",
        "PLG-003": "inconclusive",
        "PLG-010": "fail",
        "PLG-011": "fail",
        "PLG-013": "fail",
        "GANG-001": "environment",
        "LIFE-001": "inconclusive",
        "LIFE-008": "inconclusive",
    },
}
