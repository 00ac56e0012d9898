"""Defects of the world that the ranks form."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "node.hostname-loopback": {"RDZV-001": "fail"},
}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "rendezvous.hangs": {"RDZV-004": "fail"},
    "rendezvous.unexplained": {"RDZV-004": "fail"},
    "rendezvous.stall-unbounded": {"RDZV-009": "fail"},
    "rendezvous.stall-unnamed": {"RDZV-009": "fail"},
    "rendezvous.drop-a-rank": {"RDZV-001": "inconclusive"},
    "rendezvous.rank-twice": {"RDZV-001": "fail"},
    "rendezvous.wrong-sum": {"RDZV-001": "fail"},
    "rendezvous.two-worlds": {"RDZV-001": "fail"},
}
