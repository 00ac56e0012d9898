"""What the scheduler says would fit while it holds a gang: by role, and for how long."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pytest_gpucluster.evidence import gates
from pytest_gpucluster.evidence.gangs import Generation


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
