"""Defects of the world that the ranks form."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "node.hostname-loopback": {"RDZV-001": "fail"},
    "network.second-without-route": {"RDZV-010": "fail"},
    "node.init-not-awaited": dict.fromkeys(("PLG-010", "RDZV-003", "RDZV-008"), "fail"),
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
    "rendezvous.launched-early": {"RDZV-008": "fail"},
    "rendezvous.gate-unexplained": {"RDZV-008": "fail"},
    "rendezvous.gate-unbounded": {"RDZV-008": "fail"},
    "rendezvous.peers-silent": {"RDZV-008": "fail"},
    "rendezvous.network-at-once": {"RDZV-008": "inconclusive"},
    "rendezvous.meets-elsewhere": {"RDZV-010": "fail"},
    "rendezvous.reduces-elsewhere": {"RDZV-010": "fail"},
    "rendezvous.not-attached": {"RDZV-010": "fail"},
    "rendezvous.fleet-wrong-sum": {"RDZV-010": "fail"},
    "rendezvous.wire-unseen": {"RDZV-010": "inconclusive"},
    "rendezvous.nobody-asks": {"RDZV-010": "environment"},
    "rendezvous.nonce-of-the-other": {"RDZV-005": "fail"},
    "rendezvous.same-meeting": {"RDZV-005": "fail"},
    "rendezvous.one-after-the-other": {"RDZV-005": "inconclusive"},
    "rendezvous.exchange-unseen": {"RDZV-005": "inconclusive"},
    "rendezvous.loss-not-a-number": {"RDZV-006": "fail"},
    "rendezvous.fsdp-differs": {"RDZV-006": "fail"},
    "rendezvous.not-sharded": {"RDZV-006": "fail"},
    "rendezvous.nothing-moved": {"RDZV-006": "inconclusive"},
    "rendezvous.step-unseen": {"RDZV-006": "inconclusive"},
}
