"""Topology Manager: which NUMA nodes may serve a request, by policy.

The policies and their difference are those of Kubernetes 1.34 to 1.37 with one resource that gives hints
(the GPUs): under `restricted` a request may span as many NUMA nodes as it would need on an empty node,
under `single-numa-node` one, under `best-effort` any number, and `none` does not look.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

AFFINITY_REASON = "TopologyAffinityError"
AFFINITY_MESSAGE = "Resources cannot be allocated with Topology locality"


@dataclass(frozen=True)
class Hint:
    """A set of NUMA nodes that can serve a request.

    Attributes:
        nodes: The NUMA nodes.
        preferred: Whether it has as few NUMA nodes as an empty node would need.
    """

    nodes: tuple[int, ...]
    preferred: bool


def hints(free: Mapping[int, int], total: Mapping[int, int], wanted: int) -> list[Hint]:
    """Return every set of NUMA nodes with enough free devices, narrow sets first.

    Args:
        free: NUMA node -> free devices.
        total: NUMA node -> devices on an empty node.
        wanted: How many devices are asked for.
    """
    ids = sorted(total)
    smallest = next(
        (
            size
            for size in range(1, len(ids) + 1)
            for group in combinations(ids, size)
            if sum(total[i] for i in group) >= wanted
        ),
        None,
    )
    return [
        Hint(group, size == smallest)
        for size in range(1, len(ids) + 1)
        for group in combinations(ids, size)
        if sum(free.get(i, 0) for i in group) >= wanted
    ]


def admit(policy: str, offered: list[Hint]) -> tuple[bool, Hint | None]:
    """Decide admission by policy.

    Returns:
        Whether the pod is admitted, and the hint that allocation must follow (None: no preference).
    """
    best = min(offered, key=lambda h: (not h.preferred, len(h.nodes), h.nodes), default=None)
    match policy:
        case "none":
            return True, None
        case "best-effort":
            return True, best
        case "restricted":
            return (best is not None and best.preferred), best
        case "single-numa-node":
            return (best is not None and best.preferred and len(best.nodes) == 1), best
    raise ValueError(f"unknown topology policy {policy!r}")
