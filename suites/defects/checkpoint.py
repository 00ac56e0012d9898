"""Defects of storage, and of the torch that writes checkpoints."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    # Ranks that do not see each other's parts end when they read them: what they would have told is missing.
    "storage.node-folders": {
        **dict.fromkeys(("CKPT-001", "CKPT-002"), "fail"),
        **dict.fromkeys(("CKPT-003", "CKPT-004", "CKPT-006"), "inconclusive"),
    },
    "storage.throttled": {"CKPT-004": "fail"},
    "torch.gathers-on-save": {"CKPT-001": "fail"},
    "torch.async-save-waits": {"CKPT-003": "fail"},
    "torch.marks-first": {"CKPT-005": "fail"},
}
