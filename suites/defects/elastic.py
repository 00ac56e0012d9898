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
    "node.host-paths-apart": {"ELA-008": "fail"},
}
