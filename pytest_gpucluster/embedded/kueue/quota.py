"""Quota: what ClusterQueues may use, what is used, and which flavors a Workload would get. Pure.

A snapshot is taken of the stored objects for each cycle of the scheduler; admitting adds to it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from pytest_gpucluster.embedded.fitting import tolerated
from pytest_gpucluster.embedded.kueue.amounts import ZERO, Amounts, amounts, show
from pytest_gpucluster.embedded.objects import Obj, name_of
from pytest_gpucluster.plain.quantities import parse_quantity

FlavorResource = tuple[str, str]
Usage = dict[FlavorResource, Fraction]


@dataclass(frozen=True)
class Limit:
    """The quota of one resource in one flavor.

    Attributes:
        nominal: What the queue owns.
        borrowing: Most that it may have beyond that; None sets no limit.
        lending: Most of its own that others may have; None lends all.
    """

    nominal: Fraction
    borrowing: Fraction | None = None
    lending: Fraction | None = None

    @property
    def guaranteed(self) -> Fraction:
        """What nobody else can have."""
        return ZERO if self.lending is None else max(self.nominal - self.lending, ZERO)


@dataclass
class Queue:
    """One ClusterQueue.

    Attributes:
        name: Its name.
        cohort: The name of its cohort, empty without one.
        groups: Its resource groups: covered resources, and flavors in order of preference.
        limits: Quota by flavor and resource.
        used: What is reserved, by flavor and resource.
    """

    name: str
    cohort: str = ""
    groups: list[tuple[frozenset[str], list[str]]] = field(default_factory=list)
    limits: dict[FlavorResource, Limit] = field(default_factory=dict)
    used: Usage = field(default_factory=dict)

    @classmethod
    def of(cls, obj: Obj) -> "Queue":
        """Read a ClusterQueue."""
        spec = obj["spec"]
        out = cls(name_of(obj), str(spec.get("cohortName") or ""))
        for group in spec.get("resourceGroups") or []:
            flavors = [str(f["name"]) for f in group["flavors"]]
            out.groups.append((frozenset(group["coveredResources"]), flavors))
            for flavor in group["flavors"]:
                for resource in flavor["resources"]:
                    out.limits[flavor["name"], resource["name"]] = _limit(resource)
        return out

    def flavors(self) -> list[str]:
        """Return the names of all its flavors, in order."""
        return [flavor for _, flavors in self.groups for flavor in flavors]

    def borrowed(self, key: FlavorResource) -> Fraction:
        """Return what it uses beyond its own."""
        limit = self.limits.get(key, Limit(ZERO))
        return max(self.used.get(key, ZERO) - limit.nominal, ZERO)


def _limit(stated: Obj) -> Limit:
    def number(name: str) -> Fraction | None:
        value = stated.get(name)
        return None if value is None else parse_quantity(str(value))

    return Limit(number("nominalQuota") or ZERO, number("borrowingLimit"), number("lendingLimit"))


@dataclass
class Assignment:
    """Which flavors a Workload would get, or why none.

    Attributes:
        flavors: Pod set -> resource -> flavor; complete only where it fits.
        usage: What it would use.
        problems: Pod set -> why it gets nothing.
        borrows: Whether it fits only with what others lend.
        short: What others would have to give back, where its own quota would do.
        wanted: What it would use then.
        topology: Pod set -> its domains, as a Workload carries them, where its flavor has a topology.
        count: Pods that it would get where that is fewer than asked for (a defect); None is all.
    """

    flavors: dict[str, dict[str, str]] = field(default_factory=dict)
    usage: Usage = field(default_factory=dict)
    problems: dict[str, list[str]] = field(default_factory=dict)
    borrows: bool = False
    short: Usage = field(default_factory=dict)
    wanted: Usage = field(default_factory=dict)
    topology: dict[str, Obj] = field(default_factory=dict)
    count: int | None = None

    @property
    def fits(self) -> bool:
        """Whether all pod sets found quota."""
        return not self.problems

    def message(self) -> str:
        """Return the refusal in Kueue's words."""
        listed = (
            f"couldn't assign flavors to pod set {name}: {', '.join(sorted(why))}"
            for name, why in self.problems.items()
        )
        return "; ".join(listed)


class Snapshot:
    """All ClusterQueues with what they use."""

    def __init__(
        self, queues: Iterable[Queue], flavors: Mapping[str, Obj], *, unlimited: bool = False
    ) -> None:
        """Keep queues and flavors; `unlimited` looks at no quota (a defect)."""
        self.queues = {queue.name: queue for queue in queues}
        self._flavors = flavors
        self._unlimited = unlimited

    def add(self, queue: str, usage: Mapping[FlavorResource, Fraction], times: int = 1) -> None:
        """Count something as used by a queue."""
        used = self.queues[queue].used
        for key, amount in usage.items():
            used[key] = used.get(key, ZERO) + amount * times

    def _cohort(self, queue: Queue) -> list[Queue]:
        return [q for q in self.queues.values() if q.cohort == queue.cohort] if queue.cohort else [queue]

    def available(self, queue: Queue, key: FlavorResource) -> Fraction:
        """Return what a queue can have now, what others lend included."""
        limit = queue.limits.get(key, Limit(ZERO))
        used = queue.used.get(key, ZERO)
        if not queue.cohort:
            return limit.nominal - used
        members = [(q.limits.get(key, Limit(ZERO)), q.used.get(key, ZERO)) for q in self._cohort(queue)]
        shared = sum((m.nominal - m.guaranteed for m, _ in members), ZERO)
        shared -= sum((max(u - m.guaranteed, ZERO) for m, u in members), ZERO)
        if limit.borrowing is not None:
            own = limit.nominal - limit.guaranteed - max(used - limit.guaranteed, ZERO)
            shared = min(shared, own + limit.borrowing)
        return max(limit.guaranteed - used, ZERO) + shared

    def capacity(self, queue: Queue, key: FlavorResource) -> Fraction:
        """Return what a queue could have if nothing was used."""
        limit = queue.limits.get(key, Limit(ZERO))
        if not queue.cohort:
            return limit.nominal
        members = [q.limits.get(key, Limit(ZERO)) for q in self._cohort(queue)]
        most = limit.guaranteed + sum((m.nominal - m.guaranteed for m in members), ZERO)
        return most if limit.borrowing is None else min(most, limit.nominal + limit.borrowing)

    def assign(self, queue_name: str, workload: Obj, asked: Mapping[str, Amounts]) -> Assignment:
        """Return the flavors that a Workload would get now."""
        queue, out = self.queues[queue_name], Assignment()
        for pod_set in workload["spec"]["podSets"]:
            name = pod_set["name"]
            wanted, why = dict(asked[name]), list[str]()
            chosen: dict[str, str] = {}
            for resource in sorted(wanted):
                if resource not in chosen and not why:
                    why = self._choose(queue, pod_set["template"]["spec"], (resource, wanted), chosen, out)
            if why:
                out.problems[name] = why
                break
            out.flavors[name] = chosen
        return out

    def _choose(
        self, queue: Queue, pod: Obj, what: tuple[str, Amounts], chosen: dict[str, str], out: Assignment
    ) -> list[str]:
        """Choose one flavor for the resource group of a resource; return why none will do."""
        resource, wanted = what
        group = next((g for g in queue.groups if resource in g[0]), None)
        if group is None:
            return [f"resource {resource} unavailable in ClusterQueue"]
        needed = {r: amount for r, amount in sorted(wanted.items()) if r in group[0]}
        why: list[str] = []
        for flavor in group[1]:
            problems = self._unfit_for(flavor, pod) or self._lack(queue, flavor, needed, out)
            if not problems:
                for each, amount in needed.items():
                    key = (flavor, each)
                    chosen[each] = flavor
                    out.usage[key] = out.usage.get(key, ZERO) + amount
                    nominal = queue.limits.get(key, Limit(ZERO)).nominal
                    out.borrows |= queue.used.get(key, ZERO) + out.usage[key] > nominal
                return []
            why += problems
        out.short, out.wanted = self._owed(queue, group[1], needed)
        return why

    def _owed(self, queue: Queue, flavors: list[str], needed: Amounts) -> tuple[Usage, Usage]:
        """Return what is missing, and what is wanted, of the first flavor of which the queue owns enough itself."""
        for flavor in flavors:
            wanted = {(flavor, resource): amount for resource, amount in needed.items()}
            if all(amount <= queue.limits[key].nominal for key, amount in wanted.items()):
                short = {key: amount - self.available(queue, key) for key, amount in wanted.items()}
                return {key: more for key, more in short.items() if more > 0}, wanted
        return {}, {}

    def _unfit_for(self, flavor: str, pod: Obj) -> list[str]:
        """Return why pods cannot run on the nodes of a flavor."""
        found = self._flavors.get(flavor)
        if found is None:
            return [f"flavor {flavor} not found"]
        spec = found.get("spec") or {}
        tolerations = [*(pod.get("tolerations") or []), *(spec.get("tolerations") or [])]
        for taint in spec.get("nodeTaints") or []:
            if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerated(taint, tolerations):
                shown = f"{{{taint.get('key')} {taint.get('value') or ''} {taint['effect']} <nil>}}"
                return [f"untolerated taint {shown} in flavor {flavor}"]
        labels = spec.get("nodeLabels") or {}
        selector = pod.get("nodeSelector") or {}
        if any(key in labels and labels[key] != value for key, value in selector.items()):
            return [f"flavor {flavor} doesn't match node affinity"]
        return []

    def _lack(self, queue: Queue, flavor: str, needed: Amounts, out: Assignment) -> list[str]:
        """Return why a flavor has too little: the first resource that can never fit, or all that do not fit now."""
        if self._unlimited:
            return []
        why: list[str] = []
        for resource, amount in needed.items():
            key = (flavor, resource)
            before = out.usage.get(key, ZERO)
            most, free = self.capacity(queue, key), self.available(queue, key)
            where = f"{resource} in flavor {flavor}"
            if before + amount > most:
                shown = [show(resource, value) for value in (before, amount, most)]
                asked = f"previously considered podsets requests ({shown[0]}) + current podset request ({shown[1]})"
                return [f"insufficient quota for {where}, {asked} > maximum capacity ({shown[2]})"]
            if before + amount > free:
                more = show(resource, before + amount - free)
                why.append(f"insufficient unused quota for {where}, {more} more needed")
        return why


def resources_of(obj: Obj) -> list[str]:
    """Return the resources that a ClusterQueue covers."""
    return [r for group in obj["spec"].get("resourceGroups") or [] for r in group["coveredResources"]]


__all__ = ["Assignment", "FlavorResource", "Limit", "Queue", "Snapshot", "Usage", "amounts", "resources_of"]
