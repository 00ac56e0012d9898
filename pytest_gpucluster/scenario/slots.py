"""Scarcity without cost: slots, a private extended resource that every scheduler counts like a GPU.

Capacity is set by patching the status of nodes; the kubelet copies it to allocatable; no device plugin manages it.
One request per node to set, which unsets what an earlier scenario of the session had there, and one to change; what
the last one had is unset with the session. Changing them makes room, takes a slot away from under its pod as a broken
device does, and gives it back.
"""

import dataclasses
from collections.abc import Mapping, Sequence
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
        counts: node -> how many it has.
    """

    resource: str
    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        """Return the slots of all nodes together."""
        return sum(self.counts.values())

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that have them."""
        return tuple(self.counts)


def place(
    site: sites.Site,
    view: live.Live,
    stack: cleanup.CleanupStack,
    scenario: str,
    *,
    nodes: int | Sequence[str],
    per_node: int | Sequence[int],
) -> SlotPool:
    """Put slots on nodes, as many on each or so many on the first, the second ..., and wait until they can be used.

    Nodes are named, or as many are chosen as are asked for.

    Raises:
        EnvironmentProblem: too few nodes that pods can be placed on, no permission, or a kubelet that does not take
            the capacity over within the budget `start`.
    """
    if not site.profile.slots:
        raise errors.EnvironmentProblem(f"the profile {site.profile.name} does not permit slots on nodes")
    chosen = _choose(view, site, nodes) if isinstance(nodes, int) else tuple(nodes)
    wanted = [per_node] * len(chosen) if isinstance(per_node, int) else list(per_node)
    pool = SlotPool(sites.slot_resource(scenario, site.run_id), dict(zip(chosen, wanted, strict=True)))
    resource = pool.resource
    for name in chosen:
        stack.push(
            cleanup.Undo(
                errors.LeftOver("slots", "", name, f"{resource} is still on the node"),
                lambda name=name: site.stale.add(name, resource),  # type: ignore[misc]
                settle_first=name == chosen[-1],
            )
        )
        _set(site, name, resource, pool.counts[name])
    _settle(site, view, pool)
    return pool


def resize(site: sites.Site, view: live.Live, pool: SlotPool, counts: Mapping[str, int]) -> SlotPool:
    """Change how many slots some of a pool's nodes have and wait until all have what they should.

    What shrinks goes first, and has shrunk before anything grows: else there would be more room for a moment than
    before and after, and a gang that must wait would be bound (seen on real Volcano).

    Raises:
        EnvironmentProblem: as in `place`.
    """
    less = {name: count for name, count in counts.items() if count < pool.counts[name]}
    for some in (less, {name: count for name, count in counts.items() if name not in less}):
        for name, count in some.items():
            _set(site, name, pool.resource, count)
        pool = SlotPool(pool.resource, {**pool.counts, **some})
        if some:
            _settle(site, view, pool)
    return pool


def _set(site: sites.Site, node: str, resource: str, count: int) -> None:
    stale = site.stale.on(node)
    nothing = dict.fromkeys(stale)
    status = {"capacity": {resource: str(count), **nothing}, **({"allocatable": nothing} if stale else {})}
    change = {"status": status}
    try:
        site.api.patch(objects.NODE, node, change, subresource="status")
    except errors.ApiError as error:
        if error.denied:
            raise errors.EnvironmentProblem(
                f"slots are not permitted: {error} (the run needs patch on nodes/status)"
            ) from error
        raise
    site.stale.gone(node, stale)


def _settle(site: sites.Site, view: live.Live, pool: SlotPool) -> None:
    def ready() -> bool:
        blind = site.log.problems.get(objects.NODE.key)
        if blind is not None:
            raise errors.EnvironmentProblem(str(blind))
        found = ((view.get("Node", name), count) for name, count in pool.counts.items())
        return all(node is not None and _allocatable(node, pool.resource) == count for node, count in found)

    seconds = site.budget("start")
    if not site.log.until(ready, seconds):
        raise errors.EnvironmentProblem(
            f"the nodes {', '.join(pool.nodes)} do not offer {pool.resource} {seconds:g} s after their capacity was set"
        )


def remove_stale(site: sites.Site) -> list[errors.LeftOver]:
    """Take off the nodes what scenarios that are over had there; return what stays."""
    left: list[errors.LeftOver] = []
    for node, resources in site.stale.everything():
        try:
            remove(site.api, node, resources)
        except errors.GpuClusterError as error:
            left.append(errors.LeftOver("slots", "", node, str(error)))
        else:
            site.stale.gone(node, resources)
    return left


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
            f"{wanted} Ready and schedulable nodes are needed; {len(usable)} of {total} are"
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
