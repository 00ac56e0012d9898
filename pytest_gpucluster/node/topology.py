"""Topology Manager: which NUMA nodes may serve a request, by policy. Pure.

Follows Kubernetes 1.34 to 1.37: whoever hands out a resource offers hints, sets of NUMA nodes that could serve the
request; one hint of each is merged into what they have in common; the policy decides whether the best merge is good
enough. `none` does not look, `best-effort` takes whatever is best, `restricted` wants a merge that is as narrow as on
an empty node, `single-numa-node` wants one NUMA node.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

AFFINITY_REASON = "TopologyAffinityError"
AFFINITY_MESSAGE = "Resources cannot be allocated with Topology locality"

Nodes = frozenset[int]
Hints = Sequence["Hint"] | None
"""What one resource offers: None for no preference, empty where the request cannot be met at all."""


@dataclass(frozen=True)
class Hint:
    """A set of NUMA nodes that can serve a request.

    Attributes:
        nodes: The NUMA nodes; None stands for any.
        preferred: Whether it has as few NUMA nodes as an empty machine would need.
    """

    nodes: Nodes | None
    preferred: bool


def hints(
    free: Mapping[int, int],
    total: Mapping[int, int],
    wanted: int,
    machine: Iterable[int],
    held: Iterable[int] = (),
) -> list[Hint]:
    """Return every set of the machine's NUMA nodes with enough that is free, narrow sets first.

    Args:
        free: NUMA node -> how much is free there, or held by the pod and free for reuse.
        total: NUMA node -> how much there is on an empty machine.
        wanted: How much is asked for.
        machine: The NUMA nodes that the machine has; what lies elsewhere counts nowhere.
        held: NUMA nodes of what the pod holds already and will use again: each set must have them.
    """
    ids = sorted(machine)
    must = frozenset(held)
    groups = [frozenset(group) for size in range(1, len(ids) + 1) for group in combinations(ids, size)]
    smallest = min((len(g) for g in groups if _sum(total, g) >= wanted), default=len(ids))
    return [
        Hint(group, len(group) == smallest)
        for group in groups
        if must <= group and _sum(free, group) >= wanted
    ]


def _sum(amounts: Mapping[int, int], nodes: Nodes) -> int:
    return sum(amounts.get(node, 0) for node in nodes)


def admit(policy: str, offers: Iterable[Hints], machine: Iterable[int]) -> tuple[bool, Hint]:
    """Decide admission by policy.

    Args:
        policy: Name of the policy.
        offers: What each resource offers.
        machine: The NUMA nodes that the machine has.

    Returns:
        Whether the request is admitted, and the hint that allocation must follow.
    """
    every = frozenset(machine)
    sets = [_choices(offer) for offer in offers]
    match policy:
        case "none":
            return True, Hint(None, preferred=True)
        case "best-effort":
            return True, _merge(sets, every)
        case "restricted":
            best = _merge(sets, every)
            return best.preferred, best
        case "single-numa-node":
            best = _merge([[hint for hint in each if _single(hint)] for each in sets], every)
            return best.preferred, Hint(None, best.preferred) if best.nodes == every else best
    raise ValueError(f"unknown topology policy {policy!r}")


def _choices(offer: Hints) -> Sequence[Hint]:
    if offer is None:
        return [Hint(None, preferred=True)]
    return offer or [Hint(None, preferred=False)]


def _single(hint: Hint) -> bool:
    return hint.preferred and (hint.nodes is None or len(hint.nodes) == 1)


def _merge(sets: Sequence[Sequence[Hint]], every: Nodes) -> Hint:
    """Return the best merge of one hint of each resource; not preferred where there is none."""
    target = max(
        (min((len(h.nodes) for h in each if h.nodes is not None), default=0) for each in sets), default=0
    )
    best: Hint | None = None
    for chosen in product(*sets):
        merged = _common(chosen, every)
        if merged.nodes and (best is None or _rank(merged, target) < _rank(best, target)):
            best = merged
    return best or Hint(every, preferred=False)


def _common(chosen: Iterable[Hint], every: Nodes) -> Hint:
    """Merge hints: preferred only if each is, and if all name the same NUMA nodes."""
    listed = list(chosen)
    masks = [hint.nodes for hint in listed if hint.nodes is not None]
    preferred = all(hint.preferred for hint in listed) and len(set(masks)) <= 1
    return Hint(every.intersection(*masks), preferred)


def _rank(hint: Hint, target: int) -> tuple[bool, int, int, list[int]]:
    """Order merges: preferred ones narrow first; others as near below the width they need as there are."""
    nodes = hint.nodes or frozenset()
    width = len(nodes)
    if hint.preferred:
        return False, 0, width, sorted(nodes)
    if width == target:
        return True, 0, 0, sorted(nodes)
    return (True, 1, -width, sorted(nodes)) if width < target else (True, 2, width, sorted(nodes))
