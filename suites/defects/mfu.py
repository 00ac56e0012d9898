"""Defects of figures of speed."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "mfu.two-on-one-gpu": {"MFU-001": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    "mfu.not-at-once": {"MFU-001": "inconclusive", "MFU-006": "inconclusive"},
    "mfu.gpu-untold": {"MFU-002": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    "mfu.loss-untold": dict.fromkeys(("MFU-002", "MFU-003", "MFU-006"), "inconclusive"),
    "mfu.median-below-least": {"MFU-002": "inconclusive", "MFU-003": "fail", "MFU-006": "inconclusive"},
    "mfu.a-slow-gpu": {"MFU-001": "fail", "MFU-006": "fail"},
    "mfu.wrong-product": {"MFU-001": "fail", "MFU-003": "fail", "MFU-006": "inconclusive"},
    "mfu.gpu-lost": {"MFU-001": "fail", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    "mfu.above-the-peak": {"MFU-001": "inconclusive", "MFU-003": "fail", "MFU-006": "inconclusive"},
    "mfu.not-a-number": {"MFU-001": "inconclusive", "MFU-003": "fail", "MFU-006": "inconclusive"},
    "mfu.contradicts-itself": {"MFU-001": "inconclusive", "MFU-003": "fail", "MFU-006": "inconclusive"},
    "mfu.too-few-windows": {"MFU-001": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    "mfu.too-few-steps": {"MFU-002": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    "mfu.throttled": {"MFU-001": "inconclusive", "MFU-003": "inconclusive"},
    "mfu.power-capped": {"MFU-001": "inconclusive", "MFU-003": "inconclusive"},
    "mfu.clocks-unreadable": {"MFU-003": "inconclusive"},
    "mfu.unknown-gpu": {"MFU-001": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    "mfu.rank-unheard": {"MFU-001": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    "mfu.two-lines": {"MFU-001": "inconclusive", "MFU-003": "inconclusive", "MFU-006": "inconclusive"},
    "mfu.slow-training": {"MFU-002": "fail", "MFU-006": "fail"},
    "mfu.losses-differ": {"MFU-002": "fail"},
    "mfu.loss-stays": {"MFU-002": "fail"},
    "mfu.fallen": {"MFU-006": "fail"},
    "mfu.baseline-of-another-shape": {"MFU-006": "inconclusive"},
    "mfu.counted-as-documented": {"MFU-004": "fail"},
    "mfu.wrong-sum": {"MFU-004": "fail"},
    "mfu.smoke-unheard": {"MFU-004": "inconclusive"},
}
