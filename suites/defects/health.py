"""Defects of the isolation of devices, and of how nodes are taken out of service."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {
    "node.devices-leak": {"HLT-004": "fail"},
    "node.row-remap-pending": {"HLT-002": "fail"},
    "node.metrics-stale": {"HLT-003": "fail"},
    "node.quarantine-forgotten": {"HLT-005": "fail"},
}
