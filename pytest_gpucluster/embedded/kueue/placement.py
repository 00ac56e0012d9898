"""Topology-aware scheduling: which domains a Workload gets of the topology behind its flavor, and the room in them.

Written from the source of Kueue v0.17.0. Left out: slices, groups of pod sets, replacement of failed nodes.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from pytest_gpucluster.embedded.fitting import ENDED, requests_of, tolerated
from pytest_gpucluster.embedded.kueue import domains, lookup, names
from pytest_gpucluster.embedded.kueue.amounts import ZERO, Amounts, amounts, pod_requests
from pytest_gpucluster.embedded.kueue.domains import Room, Unfit, Values, Wish
from pytest_gpucluster.embedded.kueue.quota import Assignment
from pytest_gpucluster.embedded.objects import Obj, annotations_of, is_deleting, labels_of, name_of
from pytest_gpucluster.embedded.store import Store


def topology_of(store: Store, flavor: str) -> Obj | None:
    """Return the Topology behind a flavor, None where there is none."""
    spec = (store.peek(names.FLAVOR, None, flavor) or {}).get("spec") or {}
    named = spec.get("topologyName")
    return store.peek(names.TOPOLOGY, None, str(named)) if named else None


def wish_of(pod_set: Obj) -> Wish:
    """Return what a pod set asks of the topology of its flavor; nothing said means any domains."""
    asked = pod_set.get("topologyRequest") or {}
    if asked.get("required"):
        return Wish(str(asked["required"]), required=True)
    if asked.get("preferred"):
        return Wish(str(asked["preferred"]))
    return Wish(unconstrained=True)


def explicit(pod_set: Obj) -> bool:
    """Report whether a pod set asks for a topology by itself."""
    asked = pod_set.get("topologyRequest") or {}
    return any(asked.get(name) for name in ("required", "preferred", "unconstrained"))


def place(store: Store, workload: Obj, found: Assignment, *, anywhere: bool = False) -> None:
    """Add domains to what a Workload would get, in place, or the reason for which there are none.

    Args:
        store: Nodes, pods, flavors, topologies, and other Workloads.
        workload: The Workload.
        found: The flavors that it would get by quota.
        anywhere: The level that it requires is not looked at (a defect).
    """
    for pod_set in workload["spec"]["podSets"]:
        name, wish = pod_set["name"], wish_of(pod_set)
        flavor = next((f for f in found.flavors[name].values() if topology_of(store, f) is not None), None)
        if flavor is None:
            if explicit(pod_set):
                listed = sorted(set(found.flavors[name].values()))
                found.problems[name] = [
                    f'Flavor "{one}" does not support TopologyAwareScheduling' for one in listed
                ]
            continue
        topology = topology_of(store, flavor) or {}
        levels = tuple(str(level["nodeLabel"]) for level in topology["spec"]["levels"])
        if wish.level is not None and wish.level not in levels:
            found.problems[name] = [f'Flavor "{flavor}" does not contain the requested level']
            continue
        try:
            room = room_of(store, workload, pod_set, flavor, (name_of(topology), levels))
            chosen = domains.choose(
                room, Wish(unconstrained=True) if anywhere else wish, int(pod_set["count"])
            )
        except Unfit as why:
            found.problems[name] = [str(why)]
        else:
            found.topology[name] = domains.encoded(levels, chosen)


def room_of(
    store: Store, workload: Obj, pod_set: Obj, flavor: str, topology: tuple[str, tuple[str, ...]]
) -> Room:
    """Return how many pods of a pod set each of the finest domains takes now."""
    name, levels = topology
    spec = pod_set["template"]["spec"]
    each: Amounts = {**pod_requests(spec), "pods": Fraction(1)}
    free: dict[Values, Amounts] = {}
    for node in _nodes(store, flavor, levels):
        if levels[-1] == names.HOSTNAME and not _takes(store, flavor, node, spec):
            continue
        values = tuple(labels_of(node)[level] for level in levels)
        into = free.setdefault(values, {})
        for resource, amount in _free_of(store, node).items():
            into[resource] = into.get(resource, ZERO) + amount
    for labels, used in _assigned(store, workload, flavor):
        for values, left in free.items():
            if all(dict(zip(levels, values, strict=True)).get(key) == value for key, value in labels.items()):
                for resource, amount in used.items():
                    left[resource] = left.get(resource, ZERO) - amount
    fits: dict[Values, int] = {}
    lacking: dict[str, int] = {}
    for values, left in free.items():
        limits = {
            resource: max(int(left.get(resource, ZERO) // amount), 0) for resource, amount in each.items()
        }
        least = min(sorted(limits), key=lambda resource: limits[resource])
        fits[values] = limits[least]
        if not limits[least]:
            lacking[least] = lacking.get(least, 0) + 1
    return Room(name, levels, fits, lacking)


def _nodes(store: Store, flavor: str, levels: tuple[str, ...]) -> Iterator[Obj]:
    """Yield the nodes behind a flavor that tell their place, are Ready, and take pods."""
    wanted = ((store.peek(names.FLAVOR, None, flavor) or {}).get("spec") or {}).get("nodeLabels") or {}
    for node in store.peek_all("Node"):
        labels = labels_of(node)
        ready = any(
            c.get("type") == "Ready" and c.get("status") == "True"
            for c in node.get("status", {}).get("conditions") or []
        )
        fits = all(labels.get(key) == value for key, value in wanted.items()) and all(
            key in labels for key in levels
        )
        if fits and ready and not node["spec"].get("unschedulable") and not is_deleting(node):
            yield node


def _takes(store: Store, flavor: str, node: Obj, spec: Obj) -> bool:
    """Report whether pods may run on a node, which is looked at only where it is a domain of its own."""
    own = ((store.peek(names.FLAVOR, None, flavor) or {}).get("spec") or {}).get("tolerations") or []
    tolerations = [*(spec.get("tolerations") or []), *own]
    taints = [t for t in node["spec"].get("taints") or [] if t.get("effect") in ("NoSchedule", "NoExecute")]
    labels = labels_of(node)
    return all(tolerated(t, tolerations) for t in taints) and all(
        labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items()
    )


def _free_of(store: Store, node: Obj) -> Amounts:
    """Return what a node offers, less what pods there hold that no topology was asked for."""
    left = amounts(node.get("status", {}).get("allocatable"))
    for pod in store.peek_all("Pod"):
        counted = (
            pod["spec"].get("nodeName") == name_of(node) and pod.get("status", {}).get("phase") not in ENDED
        )
        if counted and not asks_for_topology(pod):
            for resource, amount in {**requests_of(pod), "pods": Fraction(1)}.items():
                left[resource] = left.get(resource, ZERO) - amount
    return left


def asks_for_topology(pod: Obj) -> bool:
    """Report whether a pod has a place in a topology, or waits for it."""
    return any(key in annotations_of(pod) for key in names.TOPOLOGY_ANNOTATIONS)


def _assigned(store: Store, workload: Obj, flavor: str) -> Iterator[tuple[Mapping[str, str], Amounts]]:
    """Yield the domains that other Workloads hold of a flavor's topology, with what they hold of each."""
    for other in store.peek_all(names.WORKLOAD):
        if not lookup.holds_in(other) or other["metadata"].get("uid") == workload["metadata"].get("uid"):
            continue
        sets = {p["name"]: p for p in other["spec"]["podSets"]}
        for part in other["status"]["admission"].get("podSetAssignments") or []:
            if "topologyAssignment" not in part or flavor not in (part.get("flavors") or {}).values():
                continue
            each = {**pod_requests(sets[part["name"]]["template"]["spec"]), "pods": Fraction(1)}
            for labels, count in domains.decoded(part["topologyAssignment"]):
                yield labels, {resource: amount * count for resource, amount in each.items()}
