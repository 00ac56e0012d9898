"""The queue that a run saw: whether the one that is to be opened is still the same."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import fields

VOLCANO, KUEUE = "Queue", "ClusterQueue"
KINDS = (VOLCANO, KUEUE)

SWITCH = "stopPolicy"
"""Field of a ClusterQueue's spec that opens and closes it: a promotion changes it and nothing else."""


@dataclasses.dataclass(frozen=True)
class Queue:
    """One queue, as a run or the cluster shows it.

    Attributes:
        kind: `Queue` (Volcano) or `ClusterQueue` (Kueue).
        name: its name.
        uid: its uid.
        generation: how often its spec was written; None if nobody tells.
        spec: its spec without what opens and closes it.
    """

    kind: str
    name: str
    uid: str
    generation: int | None
    spec: Mapping[str, Any]

    @property
    def place(self) -> tuple[str, str]:
        """Return kind and name."""
        return self.kind, self.name


def of_object(kind: str, obj: Mapping[str, Any]) -> Queue:
    """Return the queue that an object of the API is."""
    spec = {key: value for key, value in fields.sub(obj, "spec").items() if key != SWITCH}
    return Queue(
        kind,
        fields.text(obj, "metadata", "name"),
        fields.text(obj, "metadata", "uid"),
        fields.number(obj, "metadata", "generation"),
        spec,
    )


def of_evidence(evidence: Evidence) -> dict[tuple[str, str], Queue]:
    """Return the queues of a file of evidence as they were seen last; one that was deleted is left out."""
    found: dict[tuple[str, str], Queue] = {}
    for kind in KINDS:
        for line in evidence.of_kind(kind):
            queue = of_object(kind, line.object)
            if line.type == "DELETED":
                found.pop(queue.place, None)
            else:
                found[queue.place] = queue
    return found


def changed(then: Queue, now: Queue, unchanged: range = range(0)) -> str:
    """Return what is another about a queue than a run saw, "" if it is the same.

    Args:
        then: as the run saw it.
        now: as it is.
        unchanged: generations between which only promotions wrote to it.
    """
    if then.uid != now.uid:
        return f"it was made anew (uid {then.uid}, now {now.uid})"
    keys = _different(then.spec, now.spec)
    if keys:
        return f"its spec is another: {', '.join(keys)}"
    if then.generation == now.generation or {then.generation, now.generation} <= {*unchanged}:
        return ""
    return f"its spec was written since (generation {then.generation}, now {now.generation})"


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


def together(files: Iterable[Mapping[tuple[str, str], Queue]]) -> dict[tuple[str, str], Queue]:
    """Return the queues of several files of evidence of one run, later ones over earlier ones."""
    found: dict[tuple[str, str], Queue] = {}
    for each in files:
        found |= each
    return found
