"""What queues hold and want of a resource, over time."""

import dataclasses
from collections.abc import Iterable, Mapping
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang, gangs


@dataclasses.dataclass(frozen=True)
class Tenant:
    """A queue and its gangs.

    Attributes:
        weight: against other queues.
        stated: whether the weight was seen on the queue's object; else it is 1, the default.
    """

    name: str
    weight: int
    stated: bool
    gangs: tuple[Gang, ...]

    def held(self, resource: str, t: float) -> Fraction:
        """Return what its members hold at a time: from the bind until they finish or go away."""
        total = Fraction(0)
        for gang in self.gangs:
            for pod in gang.pods:
                ends = [when for when in (pod.finished, pod.deleted) if when is not None]
                if pod.bound is not None and pod.bound <= t and all(t < when for when in ends):
                    total += fields.requested(pod.last, resource)
        return total

    def wants(self, t: float) -> bool:
        """Report whether it wants more at a time: a member without a place, or a gang whose pods are not made yet."""
        for gang in self.gangs:
            gone = gang.job is not None and gang.job.deleted is not None and gang.job.deleted <= t
            if gang.created > t or gone:
                continue
            there = [pod for pod in gang.pods if pod.there(t)]
            if any((pod.bound is None or pod.bound > t) and not pod.going(t) for pod in there):
                return True
            if not any(pod.created <= t for pod in gang.pods):
                return True
        return False

    @property
    def first(self) -> float:
        """Return when its first gang was seen."""
        return min(gang.created for gang in self.gangs)

    def gang_size(self, resource: str) -> Fraction:
        """Return what its largest gang needs to start."""
        sizes = [Fraction(0)]
        for gang in self.gangs:
            asked = [fields.requested(pod.last, resource) for pod in gang.pods]
            sizes.append(max(asked, default=Fraction(0)) * max(gang.minimum, 1))
        return max(sizes)


def tenants(evidence: Evidence) -> tuple[Tenant, ...]:
    """Return the queues that have gangs, by name."""
    weights = _weights(evidence)
    found: dict[str, list[Gang]] = {}
    for gang in gangs(evidence):
        if gang.queue:
            found.setdefault(gang.queue, []).append(gang)
    return tuple(
        Tenant(name, weights.get(name, 1), name in weights, tuple(mine))
        for name, mine in sorted(found.items())
    )


def _weights(evidence: Evidence) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for line in evidence.of_kind("Queue"):
        weight = fields.number(line.object, "spec", "weight")
        if weight is not None:
            found[line.name] = weight
    return found


def resource_of(several: Iterable[Tenant]) -> str:
    """Return the resource that the queues compete for: the scarce one that most members ask for, "" without one."""
    counted: dict[str, int] = {}
    for tenant in several:
        for gang in tenant.gangs:
            for pod in gang.pods:
                for name in fields.scarce_resources(pod.last):
                    counted[name] = counted.get(name, 0) + 1
    return max(counted, key=lambda name: (counted[name], name), default="")


def moments(several: Iterable[Tenant], end: float) -> tuple[float, ...]:
    """Return the times at which anything that counts here changed, in order, and the end."""
    times = {end}
    for tenant in several:
        for gang in tenant.gangs:
            times.add(gang.created)
            for pod in gang.pods:
                times |= {
                    t
                    for t in (pod.created, pod.bound, pod.finished, pod.deleting, pod.deleted)
                    if t is not None
                }
    return tuple(sorted(t for t in times if t <= end))
