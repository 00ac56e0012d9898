"""Defects of how nodes align pods to NUMA nodes."""

from collections.abc import Mapping

_OTHER_POLICY: Mapping[str, str] = dict.fromkeys(("NUMA-001", "NUMA-002", "NUMA-005"), "fail")
"""A node runs another policy than single-numa-node: a pod ran that fits none of its NUMA nodes."""

_TAKES_BOTH: Mapping[str, str] = {**_OTHER_POLICY, "NUMA-003": "fail"}
"""It takes what is left as well, from both of its NUMA nodes."""

_STRADDLES: Mapping[str, str] = {"NUMA-003": "fail", "NUMA-005": "environment", "NUMA-007": "fail"}
"""Kubelets reject what fits no NUMA node, and take devices of both for what fits one, as on a machine that has one."""

FLIPS: Mapping[str, Mapping[str, str]] = {
    "node.topology-best-effort": _TAKES_BOTH,
    "node.topology-restricted": _OTHER_POLICY,
    "node.topology-none": _TAKES_BOTH,
    "node.topology-stale": _TAKES_BOTH,
    "node.topology-container-scope": {"NUMA-001": "fail"},
    "node.one-numa-node": {**_STRADDLES, "NUMA-008": "inconclusive", "HLT-002": "inconclusive"},
    "node.plugin-without-numa": {
        "NUMA-002": "fail",
        "NUMA-003": "inconclusive",
        "NUMA-005": "fail",
        "NUMA-006": "fail",
        "NUMA-007": "fail",
        "NUMA-008": "inconclusive",
    },
    "node.misaligned": {**_STRADDLES, "HLT-002": "inconclusive"},
    "node.shared-cpus": {"NUMA-007": "fail"},
    "node.init-unaligned": {"NUMA-007": "fail"},
}
