"""What the scheduler says would fit while it holds a gang: by role, and for how long."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import capacity, gates
from pytest_gpucluster.evidence.scheduling.gangs import Generation

if TYPE_CHECKING:
    from fractions import Fraction


@dataclasses.dataclass(frozen=True)
class Outlook:
    """A span in which the scheduler's word on each member stayed the same.

    Attributes:
        fits: members for which there would be room, by role; they are kept back for the others' sake.
        key: the line with which the span began.
    """

    start: float
    end: float
    fits: Mapping[str, int]
    key: str

    @property
    def total(self) -> int:
        """Return how many members would fit."""
        return sum(self.fits.values())


def outlooks(gen: Generation, reading: gates.Reading) -> tuple[Outlook, ...]:
    """Return how what would fit changed while a gang was held, from the conditions of its pods."""
    held = reading.held
    if held is None:
        return ()
    changes = [
        (waiting.t, pod, waiting) for pod in gen.members for waiting in pod.waiting if waiting.t <= held.end
    ]
    changes.sort(key=lambda change: change[0])
    times = [max(t, held.start) for t, _, _ in changes] + [held.end]
    fitting: set[str] = set()
    fits: Counter[str] = Counter()
    found: list[Outlook] = []
    for number, (_, pod, waiting) in enumerate(changes):
        fit = reading.scheduler.would_fit(waiting.reason, waiting.message)
        if fit != (pod.uid in fitting):
            (fitting.add if fit else fitting.discard)(pod.uid)
            fits[pod.task] += 1 if fit else -1
        start, end = times[number : number + 2]
        if end > start:
            found.append(Outlook(start, end, dict(+fits), waiting.key))
    return tuple(found)


def reckoned(evidence: Evidence, gen: Generation, reading: gates.Reading) -> tuple[Outlook, ...]:
    """Return how the room for each role changed while a gang was held, reckoned from nodes and bound pods.

    A scheduler that found no place for one role may look at no other, and then says of all members that they do not
    fit. Each role is reckoned as if it were alone: no two of the numbers may be added. Empty where the members ask for
    different resources, or for none that is scarce.
    """
    held = reading.held
    sizes: dict[str, tuple[str, Fraction]] = {}
    for pod in gen.members:
        asked = {(each, fields.requested(pod.last, each)) for each in fields.scarce_resources(pod.last)}
        if len(asked) != 1 or sizes.setdefault(pod.task, next(iter(asked))) not in asked:
            return ()
    if held is None or len({resource for resource, _ in sizes.values()}) != 1:
        return ()
    resource = next(iter(sizes.values()))[0]
    lines = [line for line in evidence.of_kind("Node") if line.t <= held.end]
    times = sorted({held.start} | {line.t for line in lines if line.t > held.start})
    keys = {line.t: line.key for line in lines}
    found: list[Outlook] = []
    for start, end in zip(times, [*times[1:], held.end], strict=True):
        free = [room.free for room in capacity.rooms(evidence, resource, start)]
        fits = {
            role: sum(max(0, int(each // amount)) for each in free)
            for role, (_, amount) in sizes.items()
            if amount > 0
        }
        if end > start:
            found.append(Outlook(start, end, fits, keys.get(start, held.said.key if held.said else "")))
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class Stretch:
    """An unbroken row of outlooks.

    Attributes:
        most: the one of them that lasted longest.
    """

    start: float
    end: float
    most: Outlook

    @property
    def seconds(self) -> float:
        """Return how long it lasted."""
        return self.end - self.start


def longest(found: Iterable[Outlook], chosen: Callable[[Outlook], bool]) -> Stretch | None:
    """Return the longest unbroken stretch of chosen outlooks, None where none is chosen."""
    best: Stretch | None = None
    now: Stretch | None = None
    for outlook in found:
        if not chosen(outlook):
            now = None
            continue
        if now is None:
            now = Stretch(outlook.start, outlook.end, outlook)
        else:
            longer = outlook.end - outlook.start > now.most.end - now.most.start
            now = Stretch(now.start, outlook.end, outlook if longer else now.most)
        if best is None or now.seconds > best.seconds:
            best = now
    return best
