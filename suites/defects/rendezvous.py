"""Defects of the world that the ranks form."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "node.hostname-loopback": {"RDZV-001": "fail"},
}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "rendezvous.index-twice": {"RDZV-002": "fail"},
    "rendezvous.another-host-name": {"RDZV-002": "fail"},
    "rendezvous.ddp-differs": {"RDZV-002": "fail"},
    "rendezvous.names-unanswered": {"RDZV-002": "fail", "RDZV-003": "fail", "FAB-013": "environment"},
    "rendezvous.wait-unbounded": {"RDZV-003": "fail"},
    "rendezvous.wait-unexplained": {"RDZV-003": "fail"},
    "rendezvous.nobody-waits": {"RDZV-003": "inconclusive"},
    "rendezvous.hangs": {"RDZV-004": "fail"},
    "rendezvous.unexplained": {"RDZV-004": "fail"},
    "rendezvous.stall-unbounded": {"RDZV-009": "fail"},
    "rendezvous.stall-unnamed": {"RDZV-009": "fail"},
    "rendezvous.drop-a-rank": {"RDZV-001": "inconclusive"},
    "rendezvous.rank-twice": {"RDZV-001": "fail"},
    "rendezvous.wrong-sum": {"RDZV-001": "fail"},
    "rendezvous.two-worlds": {"RDZV-001": "fail"},
}
