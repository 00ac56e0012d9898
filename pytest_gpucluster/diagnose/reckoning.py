"""Whether members that lack a place would find one: reckoned from nodes, from pods, and from all that each asks for."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from pytest_gpucluster.diagnose import machines
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Line

HOSTNAME = "kubernetes.io/hostname"
ALWAYS = ("cpu", "memory", "pods", "ephemeral-storage")
"""Resources that every node has: a node that does not state them is taken to have enough."""


@dataclasses.dataclass(frozen=True)
class Reckoning:
    """What would become of the members that lack a place.

    Attributes:
        members: as many members as lack a place, the largest first.
        now: how many of them find one in what is free on nodes that take them.
        opened: how many would, if nodes that are closed were open.
        empty: how many would, if no pod of others were on the nodes that take them.
        short: (resource, asked for in all, on all nodes that take them) of what even empty nodes lack in sum.
        usable: nodes that take at least one of them, closed ones included.
    """

    members: tuple[fields.Object, ...]
    now: int
    opened: int
    empty: int
    short: tuple[tuple[str, Fraction, Fraction], ...]
    usable: tuple[Line, ...]

    @property
    def fits(self) -> bool:
        """Report whether all find a place now."""
        return bool(self.members) and self.now >= len(self.members)

    @property
    def never(self) -> bool:
        """Report whether not all would find a place even if nothing else ran and closed nodes were open."""
        return self.empty < len(self.members) and self.opened < len(self.members)


def reckon(s: Situation) -> Reckoning | None:
    """Return what would become of the members that lack a place; None if none does, or there is no node to look at."""
    if "members" not in s.reckoned:
        s.reckoned["members"] = _reckon(s)
    found: Reckoning | None = s.reckoned["members"]
    return found


def _reckon(s: Situation) -> Reckoning | None:
    nodes, members = s.objects("Node"), machines.lacking(s)
    if not nodes or not members:
        return None
    used = machines.in_use(s.evidence)
    mine: dict[str, dict[str, Fraction]] = {}
    for pod in s.bound:
        for resource, asked in fields.demands(pod.last).items():
            held = mine.setdefault(pod.node, {})
            held[resource] = held.get(resource, Fraction(0)) + asked
    groups = alike(members)
    usable = tuple(line for line in nodes if any(takes(one[0], line, closed_too=True) for one in groups))
    return Reckoning(
        members=tuple(members),
        now=place(groups, nodes, used),
        opened=place(groups, nodes, used, closed_too=True, healed=True),
        empty=place(groups, nodes, mine, healed=True),
        short=_short(members, usable, mine),
        usable=usable,
    )


def takes(spec: fields.Object, node: Line, *, closed_too: bool = False) -> bool:
    """Report whether a node takes a pod, whatever is free there."""
    if not machines.selects(spec, node.object):
        return False
    return closed_too or not machines.closed(node.object, spec)


def has(node: Line, resource: str, *, healed: bool = False) -> Fraction | None:
    """Return how much of a resource a node has; None where it need not say so and does not.

    Args:
        node: the node.
        resource: the resource.
        healed: count devices that are unhealthy now.
    """
    stated = fields.sub(node.object, "status", "allocatable")
    if resource in ALWAYS and resource not in stated:
        return None
    amount = fields.quantity(stated.get(resource, 0))
    if healed and "/" in resource:
        amount = max(amount, fields.quantity(fields.sub(node.object, "status", "capacity").get(resource, 0)))
    return amount


def place(
    groups: Iterable[list[fields.Object]],
    nodes: Sequence[Line],
    used: Mapping[str, machines.Amounts],
    *,
    closed_too: bool = False,
    healed: bool = False,
) -> int:
    """Return how many members find a place on nodes, the largest first and each on the fullest node that takes it.

    Members that are alike are placed together: thousands of them on thousands of nodes are no more work.
    """
    taken = {name: dict(room) for name, room in used.items()}
    placed = 0
    for group in groups:
        spec, left = group[0], len(group)
        asked = {**fields.demands(spec), "pods": Fraction(1)}
        most = 1 if alone(spec) else len(group)
        rooms = [
            (min(_times(node, asked, taken.get(node.name, {}), healed=healed), most), node)
            for node in nodes if takes(spec, node, closed_too=closed_too)
        ]  # fmt: skip
        for times, node in sorted((one for one in rooms if one[0]), key=lambda one: one[0]):
            here = min(times, left)
            room = taken.setdefault(node.name, {})
            for resource, amount in asked.items():
                room[resource] = room.get(resource, Fraction(0)) + amount * here
            left -= here
            placed += here
            if not left:
                break
    return placed


def _times(node: Line, asked: machines.Amounts, used: machines.Amounts, *, healed: bool) -> int:
    """Return how many pods of a kind a node has room for."""
    most = math.inf
    for resource, amount in asked.items():
        room = has(node, resource, healed=healed)
        if amount > 0 and room is not None:
            most = min(most, max(room - used.get(resource, Fraction(0)), Fraction(0)) // amount)
    return 1_000_000 if math.isinf(most) else int(most)


def alike(members: Sequence[fields.Object]) -> list[list[fields.Object]]:
    """Return members by what they ask for and where they may go, the largest first."""
    found: dict[str, list[fields.Object]] = {}
    for one in members:
        spec = fields.sub(one, "spec")
        shape = {key: spec.get(key) for key in machines.SHAPE}
        asked = {key: str(value) for key, value in fields.demands(one).items()}
        found.setdefault(json.dumps([asked, shape], sort_keys=True, default=str), []).append(one)
    return sorted(found.values(), key=lambda group: _size(group[0]), reverse=True)


def _size(spec: fields.Object) -> tuple[Fraction, Fraction]:
    asked = fields.demands(spec)
    return sum((v for k, v in asked.items() if "/" in k), Fraction(0)), asked.get("cpu", Fraction(0))


def alone(spec: fields.Object) -> bool:
    """Report whether a pod keeps others of its own labels from its node (required anti-affinity by host name)."""
    labels = fields.sub(spec, "metadata", "labels")
    required = fields.items(
        spec, "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    for term in required:
        wanted = fields.sub(term, "labelSelector", "matchLabels")
        more = fields.items(term, "labelSelector", "matchExpressions")
        own = bool(wanted) and all(str(labels.get(key)) == str(value) for key, value in wanted.items())
        if own and not more and term.get("topologyKey") == HOSTNAME:
            return True
    return False


def _short(
    members: Sequence[fields.Object], usable: Sequence[Line], used: Mapping[str, machines.Amounts]
) -> tuple[tuple[str, Fraction, Fraction], ...]:
    total: dict[str, Fraction] = {}
    for one in members:
        for resource, amount in fields.demands(one).items():
            total[resource] = total.get(resource, Fraction(0)) + amount
    found = []
    for resource, asked in sorted(total.items(), key=lambda one: "/" not in one[0]):
        rooms = [has(node, resource, healed=True) for node in usable]
        if any(room is None for room in rooms):
            continue
        total_ = sum((room or Fraction(0) for room in rooms), Fraction(0))
        held = sum((used.get(node.name, {}).get(resource, Fraction(0)) for node in usable), Fraction(0))
        if asked > total_ - held:
            found.append((resource, asked, total_))
    return tuple(found)
