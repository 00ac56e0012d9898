"""Elastic jobs: the worlds that formed, the steps they took, and what was done to their workers meanwhile."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang

LOST, SCALED, BACK = "lost", "scaled", "back"
"""What may be done to the workers of a job: some are killed, the job is made smaller or larger, room comes back."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One step, as one rank told it.

    Attributes:
        t: when it was over, in seconds of the evidence.
        step: its number; the first of a job is 1.
        loss: loss of the whole batch before it, None where it is no number.
        unbroken: the same of training that was never interrupted.
        saved: whether a checkpoint of it was written.
    """

    t: float
    step: int
    loss: float | None
    unbroken: float | None
    rank: int | None
    uid: str
    saved: bool
    key: str


@dataclasses.dataclass(frozen=True)
class World:
    """Ranks that formed a group, from then to its end.

    Attributes:
        name: what the ranks agreed to call it.
        size: how many ranks it has.
        formed: uid of a pod -> what its rank said when the group had formed.
        steps: what was told of its steps, in order.
        broken: uid of a pod -> what its rank said when a collective failed.
    """

    name: str
    size: int
    formed: Mapping[str, Word]
    steps: tuple[Step, ...]
    broken: Mapping[str, Word]

    @property
    def complete(self) -> bool:
        """Report whether every rank said that it formed, each once."""
        ranks = {word.number("rank") for word in self.formed.values()}
        return len(self.formed) == self.size and ranks == set(range(self.size))

    @property
    def began(self) -> float:
        """Return when its first rank said that it formed."""
        return min(word.t for word in self.formed.values())

    @property
    def whole(self) -> float:
        """Return when its last rank said so."""
        return max(word.t for word in self.formed.values())

    @property
    def resumed(self) -> int | None:
        """Return the steps that were done when it began, None where its ranks disagree."""
        told = {word.number("resumed") for word in self.formed.values()}
        return told.pop() if len(told) == 1 else None

    @property
    def first_step(self) -> float | None:
        """Return when all ranks had taken their first step, None where one did not say so."""
        firsts: dict[str, float] = {}
        for step in self.steps:
            if step.uid in self.formed and step.t >= self.formed[step.uid].t:
                firsts.setdefault(step.uid, step.t)
        return max(firsts.values(), default=None) if set(firsts) == set(self.formed) else None

    @property
    def contradiction(self) -> str:
        """Return what the ranks tell of it that cannot be so, "" for nothing."""
        sizes = {word.number("world") for word in self.formed.values()}
        if len(sizes) > 1:
            return f"its ranks say that it has {' and '.join(sorted(map(str, sizes)))} ranks"
        ranks = [word.number("rank") for word in self.formed.values()]
        twice = next((rank for rank in ranks if ranks.count(rank) > 1), None)
        if twice is not None:
            return f"{ranks.count(twice)} of its members say that they are rank {twice}"
        told: dict[str, int] = {}
        for step in self.steps:
            if step.uid not in self.formed:
                return "a member took a step of it that never said that it formed"
            if step.t < self.formed[step.uid].t:
                return f"step {step.step} was told before it had formed"
            before = told.get(step.uid)
            if before is not None and step.step != before + 1:
                return f"step {step.step} was told after step {before}"
            told[step.uid] = step.step
        return ""

    @property
    def last(self) -> Step | None:
        """Return the last step that was told."""
        return max(self.steps, key=lambda step: step.step, default=None)

    @property
    def key(self) -> str:
        """Return the key of the line by which findings refer to it."""
        return min(self.formed.values(), key=lambda word: word.t).key


@dataclasses.dataclass(frozen=True)
class Change:
    """Something that was done to the workers of a job.

    Attributes:
        t: when it was asked for.
        what: `lost`, `scaled` or `back`.
        uids: uids of the pods that were killed.
        members: members from now on, of a job that was scaled.
        key: key of the line that tells.
    """

    t: float
    what: str
    uids: tuple[str, ...]
    members: int | None
    key: str


@dataclasses.dataclass(frozen=True)
class Training:
    """One elastic job.

    Attributes:
        gang: the job and its pods.
        worlds: the worlds that formed, in order.
        changes: what was done to its workers, in order.
        began: what ranks said before their group formed, in order.
        crashed: what ranks said that failed as they were told to.
        unformed: steps of a world of which nobody said that it formed.
    """

    gang: Gang
    worlds: tuple[World, ...]
    changes: tuple[Change, ...]
    began: tuple[Word, ...]
    crashed: tuple[Word, ...] = ()
    unformed: tuple[Word, ...] = ()

    def pod(self, uid: str) -> PodStory | None:
        """Return a pod of the job."""
        return next((pod for pod in self.gang.pods if pod.uid == uid), None)

    def before(self, t: float) -> World | None:
        """Return the last world that was complete and had taken a step before a time."""
        good = (w for w in self.worlds if w.complete and w.whole <= t and any(s.t <= t for s in w.steps))
        return max(good, key=lambda world: world.whole, default=None)

    def after(self, t: float, end: float) -> tuple[World, ...]:
        """Return the worlds that began to form between two times, in order."""
        return tuple(world for world in self.worlds if t < world.began <= end)

    def until(self, change: Change, end: float) -> float:
        """Return when the next change was made, or the end of the evidence."""
        return min((other.t for other in self.changes if other.t > change.t), default=end)

    def restarts(self, uid: str, t: float) -> int:
        """Return the restarts that an agent had used up by a time, as its ranks were told."""
        told = [word.number("restarts") or 0 for word in self.began if word.uid == uid and word.t <= t]
        return max(told, default=0)


def training(evidence: Evidence, gang: Gang) -> Training:
    """Return what became of an elastic job."""
    uids = {pod.uid for pod in gang.pods}
    words = _Told(payload_lines.words(evidence), uids)
    worlds = _worlds(words)
    formed = {world.name for world in worlds}
    unformed = tuple(word for word in words.of("elastic-step") if str(word.data.get("name")) not in formed)
    changes = _changes(evidence, gang, uids)
    return Training(gang, worlds, changes, words.of("elastic-rank"), words.of("elastic-crash"), unformed)


class _Told:
    """What the members of one job said, each line once: a log that is read twice tells nothing twice."""

    def __init__(self, words: payload_lines.Words, uids: set[str]) -> None:
        self._words, self._uids = words, uids

    def of(self, event: str) -> tuple[Word, ...]:
        """Return the facts of one kind; the same fact at the same time of the program that said it is one."""
        once: dict[tuple[str, str], Word] = {}
        for word in self._words.of(event):
            if word.uid in self._uids:
                once.setdefault((word.uid, str(word.data) if "t" in word.data else word.key), word)
        return tuple(once.values())


FLAPS = 3
"""Worlds in a row without a new step from which on a job flaps: one loss costs one, and a second one at once two."""


def flapping(training: Training) -> tuple[World, ...]:
    """Return the longest row of worlds of a job that made no progress, () where no row is long enough to matter.

    Progress is a step with a number that no step before had: what is done again after a checkpoint is none.
    """
    best = 0
    row: list[World] = []
    longest: list[World] = []
    for world in training.worlds:
        last = world.last
        if last is not None and last.step > best:
            best, row = last.step, []
            continue
        row.append(world)
        longest = max(longest, list(row), key=len)
    return tuple(longest) if len(longest) >= FLAPS else ()


def _worlds(words: _Told) -> tuple[World, ...]:
    formed: dict[str, dict[str, Word]] = {}
    for word in words.of("elastic-formed"):
        formed.setdefault(str(word.data.get("name")), {})[word.uid] = word
    steps: dict[str, list[Step]] = {}
    for word in words.of("elastic-step"):
        if (number := word.number("step")) is not None:
            steps.setdefault(str(word.data.get("name")), []).append(_step(word, number))
    broken: dict[str, dict[str, Word]] = {}
    for word in words.of("elastic-broken"):
        broken.setdefault(str(word.data.get("name")), {}).setdefault(word.uid, word)
    found = [
        World(
            name,
            max(word.number("world") or 0 for word in ranks.values()),
            ranks,
            tuple(steps.get(name, ())),
            broken.get(name, {}),
        )
        for name, ranks in formed.items()
    ]
    return tuple(sorted(found, key=lambda world: world.began))


def _step(word: Word, number: int) -> Step:
    return Step(
        word.t,
        number,
        _figure(word.data.get("loss")),
        _figure(word.data.get("unbroken")),
        word.number("rank"),
        word.uid,
        word.data.get("saved") is True,
        word.key,
    )


def _figure(value: object) -> float | None:
    """Return a number, None for what is none."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if real else None  # type: ignore[arg-type]


def _changes(evidence: Evidence, gang: Gang, uids: set[str]) -> tuple[Change, ...]:
    """Read what the driver did; pods that it killed one right after the other are one loss."""
    found: list[Change] = []
    for note in evidence.notes():
        word, uid = note.data.get("note"), str(note.data.get("uid") or "")
        if word == "deleted-by-us" and uid in uids:
            last = found[-1] if found else None
            if last is not None and last.what == LOST and note.t - last.t < TOGETHER:
                found[-1] = dataclasses.replace(last, uids=(*last.uids, uid))
            else:
                found.append(Change(note.t, LOST, (uid,), None, note.key))
        elif word == "scaled" and uid == gang.uid:
            found.append(Change(note.t, SCALED, (), fields.number(note.data, "members"), note.key))
        elif word == "slots-set" and _more(note.data):
            found.append(Change(note.t, BACK, (), None, note.key))
    return tuple(found)


TOGETHER = 1.0
"""Seconds within which pods that the driver kills are lost at once."""


def _more(told: fields.Object) -> bool:
    return (fields.number(told, "slots") or 0) > (fields.number(told, "was") or 0)


def ended(
    training: Training, uids: Sequence[str], t: float, end: float = math.inf
) -> list[tuple[PodStory, int | None]]:
    """Return the pods of some that came to an end of their own between two times, each with its exit code.

    The code is None where nobody reported one, as of a pod whose node was lost.
    """
    found = []
    for uid in uids:
        pod = training.pod(uid)
        if pod is not None and pod.finished is not None and t < pod.finished <= end:
            found.append((pod, max((code for _, code in pod.exit_codes), default=None)))
    return found
