"""Scarcity without cost: slots, a private extended resource that every scheduler counts like a GPU.

Capacity is set by patching the status of nodes; the kubelet copies it to allocatable; no device plugin manages it.
One request per node to set, one to unset.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.plain import quantities
from pytest_gpucluster.scenario import cleanup, live
from pytest_gpucluster.scenario import site as sites


@dataclasses.dataclass(frozen=True)
class SlotPool:
    """Slots that are in place.

    Attributes:
        resource: the resource name to ask for.
        total: slots of all nodes together.
        nodes: the nodes that have them.
    """

    resource: str
    total: int
    nodes: tuple[str, ...]


def place(
    site: sites.Site,
    view: live.Live,
    stack: cleanup.CleanupStack,
    scenario: str,
    *,
    nodes: int,
    per_node: int,
) -> SlotPool:
    """Put `per_node` slots on each of `nodes` nodes and wait until they can be scheduled.

    Raises:
        EnvironmentProblem: too few nodes that pods can be placed on, no permission, or a kubelet that does not take
            the capacity over within the budget `start`.
    """
    if not site.profile.slots:
        raise errors.EnvironmentProblem(f"the profile {site.profile.name} does not permit slots on nodes")
    chosen = _choose(view, site, nodes)
    resource = sites.slot_resource(scenario, site.run_id)
    for name in chosen:
        stack.push(
            cleanup.Undo(
                errors.LeftOver("slots", "", name, f"{resource} is still on the node"),
                lambda name=name: remove(site.api, name, [resource]),  # type: ignore[misc]
                settle_first=name == chosen[-1],
            )
        )
        try:
            site.api.patch(
                objects.NODE, name, {"status": {"capacity": {resource: str(per_node)}}}, subresource="status"
            )
        except errors.ApiError as error:
            if error.denied:
                raise errors.EnvironmentProblem(
                    f"slots are not permitted: {error} (the run needs patch on nodes/status)"
                ) from error
            raise

    def ready() -> bool:
        found = (view.get("Node", name) for name in chosen)
        return all(node is not None and _allocatable(node, resource) == per_node for node in found)

    seconds = site.budget("start")
    if not site.log.until(ready, seconds):
        raise errors.EnvironmentProblem(
            f"the nodes {', '.join(chosen)} do not offer {resource} {seconds:g} s after their capacity was set"
        )
    return SlotPool(resource, nodes * per_node, chosen)


def remove(api: objects.Objects, node: str, resources: list[str]) -> None:
    """Take slot resources off a node; a node that is gone has none."""
    nothing = dict.fromkeys(resources)
    change = {"status": {"capacity": nothing, "allocatable": nothing}}
    try:
        api.patch(objects.NODE, node, change, subresource="status")
    except errors.ApiError as error:
        if error.code != 404:
            raise


def _choose(view: live.Live, site: sites.Site, wanted: int) -> tuple[str, ...]:
    """Return nodes for slots: schedulable ones, those with GPUs first, by name."""
    usable = [node for node in view.objects("Node") if schedulable(node)]
    gpu = site.profile.gpu_resource
    usable.sort(key=lambda node: (_allocatable(node, gpu) == 0, node["metadata"]["name"]))
    if len(usable) < wanted:
        total = len(view.objects("Node"))
        raise errors.EnvironmentProblem(
            f"{wanted} nodes are needed that are Ready and schedulable; {len(usable)} of {total} are"
        )
    return tuple(node["metadata"]["name"] for node in usable[:wanted])


def schedulable(node: Mapping[str, Any]) -> bool:
    """Report whether a node is Ready and neither cordoned nor tainted as a control plane."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    conditions = {c.get("type"): c.get("status") for c in status.get("conditions") or []}
    control = any("control-plane" in str(taint.get("key")) for taint in spec.get("taints") or [])
    return conditions.get("Ready") == "True" and not spec.get("unschedulable") and not control


def _allocatable(node: Mapping[str, Any], resource: str) -> int:
    value = ((node.get("status") or {}).get("allocatable") or {}).get(resource)
    try:
        return int(quantities.parse_quantity(value)) if value is not None else 0
    except quantities.QuantityError:
        return 0
