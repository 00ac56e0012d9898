"""Quota of Kueue: what a ClusterQueue may give, alone and with its cohort, and what pods use of it."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.kueue import Held
from pytest_gpucluster.evidence.scheduling.kueue_workloads import CLUSTER_QUEUE, LOCAL_QUEUE


@dataclasses.dataclass(frozen=True)
class Quota:
    """What a ClusterQueue may give, at one time.

    Attributes:
        nominal: resource -> its own quota, all flavors together.
        reach: resource -> its own and what it may borrow; None where nothing bounds what it may borrow.
    """

    queue: str
    nominal: Mapping[str, Fraction]
    reach: Mapping[str, Fraction]
    key: str

    def short(self, asks: Mapping[str, Fraction]) -> list[str]:
        """Return the resources of which more is asked for than there ever will be, scarce ones (GPUs, slots) first."""
        over = [r for r, amount in asks.items() if amount > self.reach.get(r, Fraction(0))]
        return sorted(over, key=lambda resource: ("/" not in resource, resource))


def local_queue(evidence: Evidence, namespace: str, name: str) -> Line | None:
    """Return the last line of a LocalQueue, None where it was never seen."""
    lines = [
        line
        for line in evidence.of_kind(LOCAL_QUEUE)
        if line.name == name and fields.text(line.object, "metadata", "namespace") in ("", namespace)
    ]
    return lines[-1] if lines else None


def cluster_queue_of(evidence: Evidence, job: Held) -> str:
    """Return the ClusterQueue that a Job's quota comes from: where it was admitted, else where its label leads."""
    for one in job.reserved:
        return one.queue
    line = local_queue(evidence, job.gang.namespace, job.queue)
    return "" if line is None else fields.text(line.object, "spec", "clusterQueue")


def quota(evidence: Evidence, queue: str, t: float = math.inf, *, most: bool = False) -> Quota | None:
    """Return what a ClusterQueue may give at a time, None where it was not seen.

    Args:
        evidence: what was seen.
        queue: its name.
        t: when; its state then, or its first where it was seen later.
        most: the largest that it ever was until then: what was lowered takes nothing from those who hold it.
    """
    lines = [
        line for line in evidence.of_kind(CLUSTER_QUEUE) if line.name == queue and line.type != "DELETED"
    ]
    if not lines:
        return None
    until = [line for line in lines if line.t <= t] or lines[:1]
    found = [_quota(evidence, line, t) for line in (until if most else until[-1:])]
    resources = {r for one in found for r in one.nominal}
    nominal = {r: max(one.nominal.get(r, Fraction(0)) for one in found) for r in resources}
    reach = {r: max(one.reach.get(r, Fraction(0)) for one in found) for r in resources}
    return Quota(queue, nominal, reach, until[-1].key)


def _quota(evidence: Evidence, line: Line, t: float) -> Quota:
    nominal = _sums(line.object, "nominalQuota")
    cohort = fields.text(line.object, "spec", "cohortName") or fields.text(line.object, "spec", "cohort")
    reach = dict(nominal)
    if cohort:
        limits = _sums(line.object, "borrowingLimit")
        for resource in nominal:
            lent = sum((_sums(one.object, "nominalQuota").get(resource, Fraction(0))
                        for one in _cohort(evidence, cohort, line.name, t)), Fraction(0))  # fmt: skip
            reach[resource] += min(lent, limits[resource]) if resource in limits else lent
    return Quota(line.name, nominal, reach, line.key)


def _cohort(evidence: Evidence, cohort: str, without: str, t: float) -> list[Line]:
    newest: dict[str, Line] = {}
    for line in evidence.of_kind(CLUSTER_QUEUE):
        if line.t <= t or line.name not in newest:
            newest[line.name] = line
    return [
        line
        for name, line in newest.items()
        if name != without
        and cohort
        in (fields.text(line.object, "spec", "cohortName"), fields.text(line.object, "spec", "cohort"))
    ]


def _sums(queue: fields.Object, part: str) -> dict[str, Fraction]:
    """Return resource -> the sum of a quota's part over all flavors; only resources that have it."""
    found: dict[str, Fraction] = {}
    for group in fields.items(queue, "spec", "resourceGroups"):
        for flavor in fields.items(group, "flavors"):
            for row in fields.items(flavor, "resources"):
                name, value = fields.text(row, "name"), row.get(part)
                if name and value is not None:
                    found[name] = found.get(name, Fraction(0)) + fields.quantity(value)
    return found


# -- pods ------------------------------------------------------------------------------------------------------------


def leaves(pod: PodStory) -> float:
    """Return when a pod ceased to use what it asked for, as Kueue counts: it ended, or its deletion was asked for."""
    return min((t for t in (pod.finished, pod.deleting, pod.deleted) if t is not None), default=math.inf)


def there(pods: Iterable[PodStory], t: float) -> list[PodStory]:
    """Return the pods that exist at a time, bound or not, have not ended and are not on their way out."""
    return [pod for pod in pods if pod.created <= t < leaves(pod)]


def uses(pods: Iterable[PodStory], t: float) -> list[PodStory]:
    """Return the pods that hold a place at a time: bound, not ended, not on their way out."""
    return [pod for pod in pods if pod.bound is not None and pod.bound <= t < leaves(pod)]


def moments(pods: Iterable[PodStory]) -> list[float]:
    """Return the times at which what pods hold grew."""
    return sorted({pod.bound for pod in pods if pod.bound is not None})
