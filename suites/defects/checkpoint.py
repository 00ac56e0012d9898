"""Defects of storage, and of the torch that writes checkpoints."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "storage.node-folders": {"CKPT-001": "fail"},
    "storage.throttled": {"CKPT-004": "fail"},
    "torch.gathers-on-save": {"CKPT-001": "fail"},
    "torch.async-save-waits": {"CKPT-003": "fail"},
    "torch.marks-first": {"CKPT-005": "fail"},
}
