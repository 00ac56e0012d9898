"""Can a group be placed now: the trial on copies of the nodes, which changes nothing. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_gpucluster.embedded.fitting import NodeRoom, filter_text
from pytest_gpucluster.embedded.objects import Obj
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
