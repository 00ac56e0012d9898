"""Defects of the scheduler's parts and of what the cluster answers about itself."""

from collections.abc import Mapping

_NOTHING_RUNS: Mapping[str, str] = {
    "INV-001": "fail",
    "REF-001": "environment",
    "GANG-001": "inconclusive",
    "GANG-002": "inconclusive",
    "GANG-003": "inconclusive",
    "GANG-004": "inconclusive",
    "GANG-005": "inconclusive",
    "GANG-007": "inconclusive",
    "PLG-001": "inconclusive",
    "PLG-003": "inconclusive",
    "PLG-004": "inconclusive",
    "PLG-005": "inconclusive",
    "PLG-006": "inconclusive",
    "PLG-007": "inconclusive",
    "PLG-011": "inconclusive",
    "LIFE-001": "inconclusive",
    "LIFE-002": "inconclusive",
    **dict.fromkeys((f"LIFE-{n:03}" for n in (3, 4, 5, 6, 7, 8, 9, 12)), "inconclusive"),
    "RDZV-001": "inconclusive",
}
"""A part of the scheduler is absent: INV-001 says so, the others name the prerequisite that was not met."""

FLIPS: Mapping[str, Mapping[str, str]] = {
    "admission.down": {
        "INV-001": "fail",
        "INV-010": "fail",
        "REF-003": "fail",
        "PLG-003": "fail",
        "PLG-004": "inconclusive",
        "PLG-006": "inconclusive",
        "PLG-011": "environment",
        "GANG-001": "environment",
        "GANG-003": "fail",
        "GANG-005": "fail",
        "GANG-006": "fail",
        "LIFE-001": "inconclusive",
        "LIFE-008": "inconclusive",
    },
    "controllers.down": {**_NOTHING_RUNS, "GANG-006": "inconclusive"},
    "scheduler.down": _NOTHING_RUNS,
    "node.device-unhealthy": {"INV-002": "fail", "INV-008": "fail"},
}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "inventory.api-not-served": {"INV-001": "fail"},
    "inventory.unfilled-dry-run": {"INV-001": "fail"},
    "inventory.no-phase": {"INV-001": "inconclusive"},
    "inventory.no-podgroup": {
        "INV-001": "inconclusive",
        "GANG-006": "inconclusive",
        "REF-001": "inconclusive",
    },
    "inventory.plugin-gone": {"INV-002": "fail", "INV-008": "fail"},
    "inventory.gpus-shared": {"INV-002": "fail"},
    "inventory.never-reported": {"INV-002": "inconclusive", "INV-008": "inconclusive"},
    "inventory.node-not-ready": {"INV-002": "environment"},
    "inventory.nodes-not-watched": {
        "INV-002": "inconclusive",
        "INV-005": "inconclusive",
        "INV-008": "inconclusive",
    },
    "inventory.odd-kernel": {"INV-008": "fail"},
    "inventory.one-node": {"INV-008": "environment"},
    "inventory.queue-closed": {"INV-005": "fail"},
    "inventory.queue-gone": {"INV-005": "fail"},
    "inventory.quota-too-large": {"INV-005": "fail"},
    "inventory.version-outside": {"INV-006": "fail"},
    "inventory.version-untold": {"INV-006": "inconclusive"},
    "inventory.deployments-denied": {"INV-006": "environment"},
    "inventory.no-gang-plugin": {"INV-009": "fail"},
    "inventory.gang-off": {"INV-009": "fail"},
    "inventory.no-allocate": {"INV-009": "fail"},
    "inventory.config-denied": {"INV-009": "environment"},
    "inventory.config-gone": {"INV-009": "inconclusive"},
    "inventory.config-broken": {"INV-009": "inconclusive"},
    "inventory.no-task-names": {"INV-010": "fail"},
    "inventory.other-retry": {"INV-010": "fail"},
    "inventory.dry-run-denied": {"INV-010": "environment"},
}
