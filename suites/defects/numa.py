"""Defects of how nodes align pods to NUMA nodes."""

from collections.abc import Mapping

_OTHER_POLICY: Mapping[str, str] = dict.fromkeys(("NUMA-001", "NUMA-002", "NUMA-005"), "fail")
"""The last node runs another policy than single-numa-node: it says so, and does what that policy does."""

FLIPS: Mapping[str, Mapping[str, str]] = {
    "node.topology-best-effort": _OTHER_POLICY,
    "node.topology-restricted": _OTHER_POLICY,
    "node.topology-none": {**_OTHER_POLICY, "NUMA-003": "fail"},
    "node.topology-stale": _OTHER_POLICY,
    "node.topology-container-scope": {"NUMA-001": "fail"},
    "node.one-numa-node": {"NUMA-003": "fail", "NUMA-005": "environment"},
    "node.plugin-without-numa": {
        "NUMA-002": "fail",
        "NUMA-003": "inconclusive",
        "NUMA-005": "fail",
        "NUMA-006": "fail",
    },
    "node.misaligned": {"NUMA-003": "fail", "NUMA-005": "environment"},
}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "numa.misfit-ran": _OTHER_POLICY,
    "numa.misfit-ran-first": _OTHER_POLICY,
    "numa.refused-otherwise": {"NUMA-002": "inconclusive", "NUMA-005": "inconclusive"},
    "numa.fits-rejected": {"NUMA-003": "fail", "NUMA-005": "inconclusive"},
    "numa.split-admitted": {"NUMA-001": "fail"},
    "numa.straddles": {"NUMA-003": "fail", "NUMA-005": "environment"},
    "numa.device-without-numa": {"NUMA-003": "inconclusive", "NUMA-006": "fail"},
    "numa.devices-untold": {"NUMA-003": "inconclusive", "NUMA-005": "inconclusive"},
    "numa.kubelets-silent": {"NUMA-001": "inconclusive"},
    "numa.exporter-disagrees": {"NUMA-001": "fail"},
    "numa.says-container-scope": {"NUMA-001": "fail"},
    "numa.nothing-tried": dict.fromkeys(("NUMA-002", "NUMA-003", "NUMA-005", "NUMA-006"), "environment"),
}
