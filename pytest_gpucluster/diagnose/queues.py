"""The queue of a job and the queues above it: what each may give, and what of it is in use."""

import dataclasses
from collections.abc import Collection
from fractions import Fraction

from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.scheduling import schedulers


@dataclasses.dataclass(frozen=True)
class Level:
    """A queue on the way from the job's own to the root.

    Attributes:
        name: the queue's name.
        below: the names of the queues under it, and its own: what they use counts here too.
        title: how a sentence calls it: `its queue small`, or `queue team above its queue small`.
    """

    name: str
    title: str
    spec: fields.Object
    below: frozenset[str]
    allocated: fields.Object
    children: tuple[fields.Object, ...] = ()

    def limit(self, resource: str) -> Fraction | None:
        """Return how much of a resource it may have, None where it says nothing."""
        return _stated(fields.sub(self.spec, "capability"), resource)

    def deserved(self, resource: str) -> Fraction | None:
        """Return how much of a resource it deserves: what is above may be taken back, or not be given at all."""
        return _stated(fields.sub(self.spec, "deserved"), resource)

    def used(self, resource: str) -> Fraction:
        """Return how much of a resource is in use; what queues below tell counts where this one tells less."""
        own = fields.quantity(self.allocated.get(resource, 0))
        return max(own, sum((fields.quantity(one.get(resource, 0)) for one in self.children), Fraction(0)))


def _stated(amounts: fields.Object, resource: str) -> Fraction | None:
    return None if amounts.get(resource) is None else fields.quantity(amounts[resource])


def levels(s: Situation) -> tuple[Level, ...]:
    """Return the job's queue and those above it; none where a scheduler places the pods that knows no queues."""
    if s.unbound and all(p.scheduler == schedulers.DEFAULT_NAME for p in s.unbound):
        return ()
    queues = {line.name: line.object for line in s.objects("Queue")}
    found: list[Level] = []
    name = s.queue_name
    while name in queues and name not in {level.name for level in found}:
        spec = fields.sub(queues[name], "spec")
        below = _below(name, queues)
        told = tuple(fields.sub(queues[one], "status", "allocated") for one in _leaves(below, queues))
        title = f"its queue {name}" if not found else f"queue {name} above its queue {s.queue_name}"
        found.append(Level(name, title, spec, below, fields.sub(queues[name], "status", "allocated"), told))
        name = fields.text(spec, "parent")
    return tuple(found)


def _parent(name: str, queues: dict[str, fields.Object]) -> str:
    return fields.text(queues[name], "spec", "parent")


def _below(name: str, queues: dict[str, fields.Object]) -> frozenset[str]:
    found = {name}
    while more := {one for one in queues if _parent(one, queues) in found} - found:
        found |= more
    return frozenset(found)


def _leaves(names: Collection[str], queues: dict[str, fields.Object]) -> list[str]:
    """Return the queues that have none below: what a parent tells holds theirs already."""
    parents = {_parent(one, queues) for one in names}
    return sorted(one for one in names if one not in parents)
