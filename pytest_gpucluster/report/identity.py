"""What the scenarios of a run saw of its cluster: its uid, its GPU nodes, and on which of them a row was tried."""

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.evidence.objects import clusters

OF_MACHINES = ("inventory", "health", "numa", "fabric", "mfu")
"""Areas whose rows speak of the machines on which they were tried: what passes elsewhere does not clear one of them."""

OF_NODES = ("inventory",)
"""Areas whose rows read what nodes say of themselves, and need no pod on them."""
READ_FROM_NODES = ("NUMA-001", "NUMA-006")
"""Rows of other areas that do the same."""


def together(scenarios: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the scenarios saw of the cluster: `uid`, `machines` by name, `components` with their versions.

    How they are put together is `clusters.together`'s.
    """
    told = clusters.written(
        clusters.together(clusters.read_back(each.get("seen") or {}) for each in scenarios)
    )
    found = {"uid": told["uid"], "machines": told["nodes"], "components": told["versions"]}
    return {key: value for key, value in found.items() if value}


def coverage(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return for each decided row the GPU nodes on which it was tried, or of which it read; none if nobody knows."""
    machines = set(report["cluster"].get("machines") or ())
    seen = {each["name"]: each.get("seen") or {} for each in report["scenarios"]}
    found: dict[str, list[str]] = {}
    for row in report["requirements"]:
        told = seen.get(row["scenario"], {})
        seen_nodes, bound = frozenset(told.get("nodes") or ()), frozenset(told.get("tried_on") or ())
        known = tried(row, seen_nodes, bound) & machines
        if known:
            found[row["id"]] = sorted(known)
    return found


def tried(row: Mapping[str, Any], nodes: frozenset[str], bound: frozenset[str]) -> frozenset[str]:
    """Return the GPU nodes on which a row was tried: those that its pods were bound to, or of which it read.

    Args:
        row: the decided row.
        nodes: GPU nodes that its scenario saw.
        bound: nodes, GPU nodes or not, to which pods of its scenario were bound.
    """
    reads = row["area"] in OF_NODES or row["id"] in READ_FROM_NODES
    return nodes if reads else nodes & bound
