"""GPU nodes of a cluster, as they are now."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.plain import names, quantities


@dataclasses.dataclass(frozen=True)
class GpuNode:
    """A node that takes pods and offers GPUs.

    Attributes:
        name: its name.
        gpus: GPUs that it offers (allocatable).
        labels: its labels.
    """

    name: str
    gpus: int
    labels: Mapping[str, str] = dataclasses.field(repr=False)


def read(api: objects.Objects, resource: str) -> tuple[GpuNode, ...]:
    """Return the nodes that are Ready, not cordoned and offer a resource, by name.

    Raises:
        EnvironmentProblem: nodes may not be read, or the API server does not answer.
    """
    try:
        listed = api.list(objects.NODE)
    except errors.ApiError as error:
        raise errors.EnvironmentProblem(str(error)) from error
    found = [
        GpuNode(_name(node), count, _labels(node)) for node in listed if (count := usable(node, resource))
    ]
    return tuple(sorted(found, key=lambda node: node.name))


def usable(node: Mapping[str, Any], resource: str) -> int:
    """Return how much of a resource a node offers to pods; 0 for one that is cordoned or not Ready."""
    return offered(node, resource) if takes_pods(node) else 0


def takes_pods(node: Mapping[str, Any]) -> bool:
    """Report whether a node is Ready and not cordoned."""
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return ready and not (node.get("spec") or {}).get("unschedulable")


def offered(node: Mapping[str, Any], resource: str) -> int:
    """Return how much of a resource a node has to offer (allocatable), whatever state it is in."""
    return quantities.whole(((node.get("status") or {}).get("allocatable") or {}).get(resource))


def require(nodes: Iterable[Mapping[str, Any]], resource: str, count: int) -> None:
    """Check that nodes offer so much of a resource: a gang that asks for more is awaited in vain.

    Raises:
        EnvironmentProblem: they offer less.
    """
    has = sum(offered(node, resource) for node in nodes)
    if has < count:
        raise errors.EnvironmentProblem(
            f"{count} {resource} are needed at the same time; the nodes offer {has}"
        )


def named(nodes: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return what nodes tell of devices: extended resource -> how many nodes name it.

    A resource of which a node has none left is named, too: that its devices are gone is for the rows to judge.
    """
    found: dict[str, int] = {}
    for node in nodes:
        status = node.get("status") or {}
        for resource in {*(status.get("capacity") or {}), *(status.get("allocatable") or {})}:
            if "/" in resource and not resource.startswith(names.SLOT_PREFIX):
                found[resource] = found.get(resource, 0) + 1
    return found


def _name(node: Mapping[str, Any]) -> str:
    return str(node["metadata"]["name"])


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    return dict(node["metadata"].get("labels") or {})
