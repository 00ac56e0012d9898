"""Defects under which elastic jobs do not survive, grow or end as they must."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "node.keeps-killed": {
        "ELA-001": "fail",
        "ELA-002": "inconclusive",
        "ELA-003": "inconclusive",
        "ELA-007": "fail",
        "ELA-008": "inconclusive",
    },
    "lifecycle.job-replaces-nobody": {"ELA-002": "fail", "ELA-003": "inconclusive", "LIFE-011": "fail"},
    "lifecycle.job-ignores-backoff-limit": {"ELA-004": "fail"},
    "default-scheduler.fills-gpu-nodes": {"ELA-005": "fail"},
    "storage.pod-folders": {
        "ELA-008": "fail",
        **dict.fromkeys(("CKPT-001", "CKPT-002"), "fail"),
        **dict.fromkeys(("CKPT-003", "CKPT-004", "CKPT-006"), "inconclusive"),
    },
    # Workers whose image lacks the client end before they ask the store; the job with its store inside needs none.
    "node.image-without-etcd-client": {
        "ELA-006": "fail",
        **dict.fromkeys(("ELA-001", "ELA-002", "ELA-003", "ELA-004", "ELA-008", "ELA-009"), "inconclusive"),
    },
}
