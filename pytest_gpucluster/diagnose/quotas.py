"""What Kueue may give, as its queues state it: the most that a Workload may ever have, and what of it is reserved."""

import dataclasses
from collections.abc import Mapping
from fractions import Fraction

from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Line
from pytest_gpucluster.evidence.scheduling import kueue_workloads
from pytest_gpucluster.evidence.scheduling.kueue_workloads import Workload


@dataclasses.dataclass(frozen=True)
class Quota:
    """What stands between a Workload and its start.

    Attributes:
        local: its LocalQueue, None where the evidence has none of that name.
        queue: its ClusterQueue, None where it is not known.
        asked: what the Workload asks for, by resource; empty where that is not told.
        most: what it may have at most, by resource; without resources whose limit is not known.
        reserved: what others have of it; empty where that is not told.
    """

    local: Line | None
    queue: Line | None
    asked: Mapping[str, Fraction]
    most: Mapping[str, Fraction]
    reserved: Mapping[str, Fraction]
    told: bool = False
    """Whether the queue tells what is reserved."""

    @property
    def above(self) -> tuple[str, ...]:
        """Return the resources of which it asks for more than it may ever have."""
        return tuple(r for r, n in self.asked.items() if r in self.most and n > self.most[r])

    @property
    def free(self) -> bool | None:
        """Report whether the quota has all that it asks for; None where that is not told."""
        if not self.told or not self.asked or any(r not in self.most for r in self.asked):
            return None
        return all(n + self.reserved.get(r, Fraction(0)) <= self.most[r] for r, n in self.asked.items())


def quota(s: Situation, workload: Workload) -> Quota:
    """Return what stands between a Workload and its start."""
    name = fields.text(workload.last, "spec", "queueName")
    local = s.object(kueue_workloads.LOCAL_QUEUE, name, workload.namespace)
    queue = (
        s.object(kueue_workloads.CLUSTER_QUEUE, fields.text(local.object, "spec", "clusterQueue"))
        if local
        else None
    )
    asked: dict[str, Fraction] = {}
    for part in fields.items(workload.last, "spec", "podSets"):
        count = fields.number(part, "count") or 0
        for resource, each in fields.demands(fields.sub(part, "template")).items():
            asked[resource] = asked.get(resource, Fraction(0)) + each * count
    if queue is None:
        return Quota(local, None, asked, {}, {})
    stated = _stated(queue.object)
    asked = {r: n for r, n in asked.items() if r in stated}
    sharing = _sharing(s, queue.object)
    told = all("flavorsReservation" in fields.sub(one, "status") for one in sharing) and (
        len(sharing) == 1 or not any(one.get("borrowingLimit") for parts in stated.values() for one in parts)
    )
    return Quota(local, queue, asked, _most(stated, sharing), _reserved(sharing), told)


def _stated(queue: fields.Object) -> Mapping[str, list[fields.Object]]:
    """Return what a ClusterQueue states of each resource, one entry a flavor."""
    found: dict[str, list[fields.Object]] = {}
    for group in fields.items(queue, "spec", "resourceGroups"):
        for flavor in fields.items(group, "flavors"):
            for one in fields.items(flavor, "resources"):
                found.setdefault(fields.text(one, "name"), []).append(one)
    return found


def _cohort(queue: fields.Object) -> str:
    return fields.text(queue, "spec", "cohortName") or fields.text(queue, "spec", "cohort")


def _sharing(s: Situation, queue: fields.Object) -> tuple[fields.Object, ...]:
    """Return the ClusterQueues that share their quota with one: those of its cohort, or it alone."""
    cohort = _cohort(queue)
    beside = (
        line.object
        for line in s.objects(kueue_workloads.CLUSTER_QUEUE)
        if cohort and _cohort(line.object) == cohort
    )
    return tuple(beside) or (queue,)


def _most(
    stated: Mapping[str, list[fields.Object]], sharing: tuple[fields.Object, ...]
) -> Mapping[str, Fraction]:
    """Return what a ClusterQueue may have at most: its own quota, and what it may borrow of its cohort."""
    found = {}
    for resource, parts in stated.items():
        every = sum((_nominal(_stated(one).get(resource, [])) for one in sharing), Fraction(0))
        limits = [fields.amount(one.get("borrowingLimit")) for one in parts]
        if all(limit is not None for limit in limits):
            every = min(every, _nominal(parts) + sum((limit or Fraction(0) for limit in limits), Fraction(0)))
        found[resource] = every
    return found


def _nominal(parts: list[fields.Object]) -> Fraction:
    return sum((fields.quantity(one.get("nominalQuota", 0)) for one in parts), Fraction(0))


def _reserved(sharing: tuple[fields.Object, ...]) -> Mapping[str, Fraction]:
    found: dict[str, Fraction] = {}
    for queue in sharing:
        for flavor in fields.items(queue, "status", "flavorsReservation"):
            for one in fields.items(flavor, "resources"):
                name = fields.text(one, "name")
                found[name] = found.get(name, Fraction(0)) + fields.quantity(one.get("total", 0))
    return found
