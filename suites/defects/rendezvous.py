"""Defects of the world that the ranks form."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "node.hostname-loopback": {"RDZV-001": "fail"},
    "access.nodes-hidden": {"RDZV-007": "fail"},
    "network.second-without-route": {"RDZV-010": "fail"},
    "node.init-not-awaited": dict.fromkeys(("PLG-010", "RDZV-003", "RDZV-007", "RDZV-008"), "fail"),
}
