"""What operators get wrong, planted into a real cluster and taken out again, and what must come of it."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.kind.lab import Lab
from tests.kind.misconfigurations import addons, control_plane, nodes

Plant = Callable[[Lab], contextlib.AbstractContextManager[None]]

FAIL = frozenset({"fail"})
NOT_GREEN = frozenset({"fail", "environment", "inconclusive"})
"""Where the fault may also keep a row from being decided: what must not happen is a pass."""
NOT_FALSE = frozenset({"pass", "environment", "inconclusive"})
"""Where the cluster was disturbed but is right: what must not happen is a fail."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: short name.
        what: what is wrong, for the table.
        plant: puts it into the cluster for the length of a `with` block.
        rows: row -> the verdicts that it may have.
        tells: row -> text that its finding must hold, such as the node at fault.
        needs: add-ons without which the fault cannot be planted.
        changes: keys of the profile that differ while the rows are run.
    """

    name: str
    what: str
    plant: Plant
    rows: Mapping[str, frozenset[str]]
    tells: Mapping[str, Callable[[Lab], str]] = dataclasses.field(default_factory=dict)
    needs: Sequence[str] = ()
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)


NOT_REMOVED: Mapping[str, Any] = {"budgets": {"delete": 15.0}}
"""Where the fault also keeps what the run made from being removed: waiting longer shows no more."""

FAULTS: tuple[Fault, ...] = (
    Fault(
        "gang-gate-off",
        "kube-scheduler without the gate GenericWorkload",
        control_plane.without_gangs,
        {"GANG-002": FAIL},
    ),
    Fault(
        "gang-policy-basic",
        "an admission policy that gives every PodGroup the basic policy",
        control_plane.basic_policy,
        {"GANG-002": FAIL, "TRN-003": FAIL},
    ),
    Fault(
        "kubelet-policy-none",
        "Topology Manager policy none on all workers",
        lambda lab: nodes.kubelet_policy(lab, "none"),
        {"NUMA-001": FAIL, "NUMA-002": FAIL},
    ),
    Fault(
        "kubelet-policy-best-effort",
        "Topology Manager policy best-effort on all workers",
        lambda lab: nodes.kubelet_policy(lab, "best-effort"),
        {"NUMA-002": FAIL},
    ),
    Fault(
        "plugin-without-numa",
        "a device plugin that reports no NUMA nodes",
        nodes.without_numa,
        {"NUMA-006": FAIL},
    ),
    Fault(
        "plugin-one-short",
        "a device plugin that has one GPU fewer on one node",
        nodes.one_short,
        {"INV-002": FAIL, "INV-008": FAIL},
        tells={"INV-002": nodes.last_worker, "INV-008": nodes.last_worker},
    ),
    Fault(
        "no-controllers",
        "kube-controller-manager stopped",
        control_plane.without_controllers,
        {"GANG-001": NOT_GREEN},
        changes=NOT_REMOVED,
    ),
    Fault("node-cut-off", "a worker that does not answer", nodes.frozen_node, {"INV-002": NOT_GREEN}),
    Fault(
        "kueue-gone",
        "Kueue's manager scaled to zero",
        lambda lab: addons.scaled_to_zero(lab, "kueue-system", "kueue-controller-manager"),
        {"KUE-001": NOT_GREEN},
        needs=("kueue",),
        changes=NOT_REMOVED,
    ),
    Fault(
        "kueue-webhook-down",
        "Kueue's webhook has no working endpoint",
        addons.webhook_down,
        {"KUE-001": NOT_GREEN},
        needs=("kueue",),
    ),
    Fault(
        addons.QUOTA,
        "the quota of the ClusterQueue raised to ten times what the nodes have",
        addons.quota_changed,
        {"INV-005": FAIL},
        tells={"INV-005": lambda _: addons.QUOTA},
        needs=("kueue",),
        changes={"kueue": {"cluster_queue": addons.QUOTA}},
    ),
    Fault(
        "kueue-does-not-wait",
        "Kueue without the waitForPodsReady that the profile declares",
        lambda _: contextlib.nullcontext(),
        {"KUE-004": FAIL},
        needs=("kueue",),
        changes={"kueue": {"wait_for_pods_ready": 5}},
    ),
    Fault(
        "no-dns",
        "CoreDNS scaled to zero",
        lambda lab: addons.scaled_to_zero(lab, "kube-system", "coredns"),
        {"RDZV-003": NOT_GREEN},
    ),
    Fault(
        "api-restarts",
        "the API server is killed every 12 s in the middle of a row",
        control_plane.api_restarts,
        {"GANG-002": NOT_FALSE},
    ),
)
"""The table: fault -> rows and what they may say."""

SIDE_BY_SIDE: tuple[tuple[str, ...], ...] = (
    # The scheduler and a wire: pods of GANG-002 ask for slots of two nodes, and three are there.
    ("gang-gate-off", "node-cut-off"),
    # Admission of PodGroups, a queue's quota, and devices that only the bare pods of NUMA-006 ask for.
    ("gang-policy-basic", "quota-changed", "plugin-without-numa"),
    # Kubelets' choice of devices, which bare pods show, and names, which no bare pod asks for.
    ("kubelet-policy-none", "no-dns"),
    # The same, and queues of slots, which belong to no NUMA node.
    ("kubelet-policy-best-effort", "kueue-does-not-wait"),
    # A queue of slots, and what nodes say of their GPUs.
    ("kueue-gone", "plugin-one-short"),
    # What these are in is in every pod's way.
    ("kueue-webhook-down",),
    ("no-controllers",),
    # The last one: its run cannot give its Lease back, and the next would wait until that has expired.
    ("api-restarts",),
)
"""What is in the cluster at one time: faults of different parts, whose rows do not ask for what another is in."""


def together(names: Sequence[str]) -> list[Fault]:
    """Return the faults of these names."""
    by_name = {fault.name: fault for fault in FAULTS}
    return [by_name[name] for name in names]


def changes(planted: Sequence[Fault]) -> dict[str, dict[str, Any]]:
    """Return the keys of the profile that differ while faults are in the cluster."""
    found: dict[str, dict[str, Any]] = {}
    for fault in planted:
        for key, value in fault.changes.items():
            found.setdefault(key, {}).update(value)
    return found
