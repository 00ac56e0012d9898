"""Nodes of two domains of the network, for what must stay inside one."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.kube import errors
from pytest_gpucluster.scenario import slots

if TYPE_CHECKING:
    from pytest_gpucluster.profile import Topology


@dataclasses.dataclass(frozen=True)
class TwoDomains:
    """Nodes that take pods, of two domains of the level that gangs must not leave.

    Attributes:
        home: nodes of the domain that has most of them, at most two.
        other: one node of another domain.
    """

    home: tuple[str, ...]
    other: str


def two(nodes: Iterable[Mapping[str, Any]], topology: "Topology") -> TwoDomains:
    """Choose the nodes; only those count that tell their place at every level.

    Raises:
        EnvironmentProblem: nodes that take pods are not in two domains.
    """
    until = topology.levels.index(topology.level) + 1
    found: dict[tuple[str, ...], list[str]] = {}
    for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
        labels = node["metadata"].get("labels") or {}
        place = tuple(str(labels.get(label) or "") for label in topology.levels)
        if slots.schedulable(node) and all(place):
            found.setdefault(place[:until], []).append(str(node["metadata"]["name"]))
    if len(found) < 2:
        raise errors.EnvironmentProblem(
            f"two domains of {topology.level} with nodes that take pods are needed; there are {len(found)}"
        )
    first, second = sorted(found, key=lambda domain: (-len(found[domain]), domain))[:2]
    return TwoDomains(tuple(found[first][:2]), found[second][0])
