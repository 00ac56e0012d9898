"""Can a group be placed now: the trial on copies of the nodes, which changes nothing. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_gpucluster.embedded.fitting import NodeRoom, filter_text
from pytest_gpucluster.embedded.objects import Obj, labels_of
from pytest_gpucluster.embedded.placing import look

NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
NOT_TRIED = 'error in "DynamicResources" PodGroupPostFilter plugins: not found'
"""What Kubernetes 1.37.2 says of a group that has too few pods left to try even one of them."""


@dataclass
class Plan:
    """What a trial came to.

    Attributes:
        places: Pods that fit, in order, and the node of each. Nothing of it holds when the group is refused.
        refusals: Pods that do not fit, or were not tried any more, and what is said of each.
        short: Why the whole group is refused; None when `places` can be bound.
        error: Whether that is an error of the scheduler and not a lack of room.
    """

    places: list[tuple[Obj, str]] = field(default_factory=list)
    refusals: list[tuple[Obj, str]] = field(default_factory=list)
    short: str | None = None
    error: bool = False


def plan(pods: Sequence[Obj], rooms: Sequence[NodeRoom], *, minimum: int, scheduled: int) -> Plan:
    """Try to place the waiting pods of a group, one after the other.

    Args:
        pods: The pods that wait, in the order in which they came.
        rooms: The nodes; they are not changed.
        minimum: How many pods must be placed for any to be; 1 under the basic policy.
        scheduled: How many of the group have a node already.
    """
    remaining = len(pods)
    if remaining + scheduled < minimum:
        return Plan(short=NOT_TRIED, error=True)
    out = Plan()
    tried = [room.copy() for room in rooms]
    for index, pod in enumerate(pods):
        room, misfits = look(pod, tried)
        remaining -= 1
        if room is None:
            out.refusals.append((pod, filter_text(misfits)))
        else:
            room.place(pod)
            scheduled += 1
            out.places.append((pod, room.name))
        if remaining + scheduled < minimum:
            counted = f"{scheduled} scheduled, {remaining} remaining"
            why = f"minCount ({minimum}) cannot be satisfied: {counted}"
            out.refusals += [(left, why) for left in pods[index + 1 :]]
            out.short = f"{why}, {NO_VICTIMS}"
            return out
    if not out.places:
        out.short = NO_VICTIMS
    return out


def plan_in_domain(
    pods: Sequence[Obj], rooms: Sequence[NodeRoom], key: str, *, minimum: int, there: Sequence[str]
) -> Plan:
    """Try to place the waiting pods of a group inside one domain: the nodes with one value of a label.

    Args:
        pods: The pods that wait, in the order in which they came.
        rooms: The nodes; they are not changed.
        key: The label.
        minimum: How many pods must be placed for any to be.
        there: The nodes that pods of the group have already.
    """
    domains: dict[str, list[NodeRoom]] = {}
    for room in rooms:
        value = labels_of(room.node).get(key)
        if value is not None:
            domains.setdefault(value, []).append(room)
    names = set(there)
    if names:
        domains = {value: some for value, some in domains.items() if names & {room.name for room in some}}
    tried = [plan(pods, domains[value], minimum=minimum, scheduled=len(there)) for value in sorted(domains)]
    best = max((one for one in tried if one.short is None), key=lambda one: len(one.places), default=None)
    if best is not None:
        return best
    first = tried[0] if tried else Plan(short=NO_VICTIMS)
    text = f"0/{len(tried)} placements are available, first placement status: {first.short}"
    return Plan(refusals=first.refusals, short=text, error=first.error)
