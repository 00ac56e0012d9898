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
    "node.one-numa-node": {**_STRADDLES, "NUMA-008": "inconclusive"},
    "node.plugin-without-numa": {
        "NUMA-002": "fail",
        "NUMA-003": "inconclusive",
        "NUMA-005": "fail",
        "NUMA-006": "fail",
        "NUMA-007": "fail",
        "NUMA-008": "inconclusive",
    },
    "node.misaligned": _STRADDLES,
    "node.shared-cpus": {"NUMA-007": "fail"},
    "node.init-unaligned": {"NUMA-007": "fail"},
}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "numa.misfit-ran": {**_OTHER_POLICY, "NUMA-007": "fail"},
    "numa.misfit-ran-first": {**_OTHER_POLICY, "NUMA-007": "fail"},
    "numa.refused-otherwise": dict.fromkeys(("NUMA-002", "NUMA-005", "NUMA-007"), "inconclusive"),
    "numa.turned-away": {"NUMA-003": "fail", "NUMA-005": "inconclusive", "NUMA-007": "fail"},
    "numa.machine-says-otherwise": {**_STRADDLES, "NUMA-006": "fail"},
    "numa.fits-rejected": {"NUMA-003": "fail", "NUMA-005": "inconclusive", "NUMA-007": "fail"},
    "numa.split-admitted": {"NUMA-001": "fail"},
    "numa.straddles": _STRADDLES,
    "numa.keeps-others-waiting": {"NUMA-008": "fail"},
    "numa.rejected-without-end": {"NUMA-008": "inconclusive"},
    "numa.member-admitted": {"NUMA-008": "inconclusive"},
    "numa.init-ran": {"NUMA-007": "fail"},
    "numa.other-class": {"NUMA-007": "fail"},
    "numa.fewer-cpus": {"NUMA-007": "fail"},
    "numa.guaranteed-straddles": {"NUMA-007": "fail"},
    "numa.device-without-numa": {"NUMA-003": "inconclusive", "NUMA-006": "fail"},
    "numa.devices-untold": {
        **dict.fromkeys(("NUMA-003", "NUMA-004", "NUMA-005", "NUMA-007"), "inconclusive"),
        **dict.fromkeys(("NUMA-001", "NUMA-002", "NUMA-006"), "inconclusive"),
    },
    "numa.kubelets-silent": {
        **dict.fromkeys(("NUMA-002", "NUMA-003", "NUMA-005", "NUMA-006"), "inconclusive"),
        "NUMA-001": "inconclusive",
    },
    "numa.exporter-disagrees": {"NUMA-001": "fail"},
    "numa.says-container-scope": {"NUMA-001": "fail"},
    "numa.cpus-elsewhere": {"NUMA-004": "fail"},
    "numa.memory-elsewhere": {"NUMA-004": "fail"},
    "numa.functions-elsewhere": {"NUMA-004": "fail"},
    "numa.bus-says-otherwise": {"NUMA-004": "fail"},
    "numa.memory-untold": {"NUMA-004": "inconclusive"},
    "numa.function-unseen": {"NUMA-004": "inconclusive"},
    "numa.one-on-the-machine": {"NUMA-004": "environment"},
    "numa.nothing-tried": dict.fromkeys(
        ("NUMA-002", "NUMA-003", "NUMA-004", "NUMA-005", "NUMA-006", "NUMA-007", "NUMA-008", "HLT-004"),
        "environment",
    ),
}
