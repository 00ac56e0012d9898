"""What ranks told of checkpoints: what each saved, and what each loaded, by checkpoint."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.measure import samples


@dataclasses.dataclass(frozen=True)
class Told:
    """One line of one rank.

    Attributes:
        rank: its number in its world.
        word: the line.
        pod: its pod, None where the watch did not show it.
    """

    rank: int
    word: Word
    pod: PodStory | None

    @property
    def data(self) -> Mapping[str, Any]:
        """Return what it tells."""
        return self.word.data

    @property
    def node(self) -> str:
        """Return the node of its pod, else the host that it names."""
        return (self.pod.node if self.pod is not None else "") or str(self.data.get("host") or "")

    @property
    def place(self) -> str:
        """Return `rank 1 on Pod/x on gpu-1`."""
        return f"rank {self.rank} on {self.pod.where if self.pod is not None else f'Pod/{self.word.pod}'}"

    @property
    def step(self) -> int | None:
        """Return the step of the checkpoint that it speaks of; None where it names none."""
        named = str(self.data.get("name") or "").partition("-")[2]
        return int(named) if named.isdigit() else self.word.number("step")

    @property
    def digests(self) -> tuple[str, ...]:
        """Return the digest of each layer."""
        told = self.data.get("digests")
        return tuple(str(one) for one in told) if isinstance(told, list) else ()

    def amount(self, *path: str) -> float | None:
        """Return a number that is not negative, None where it is absent or was not measured."""
        found = samples.number(fields.sub(self.data, *path[:-1]).get(path[-1]))
        return None if found is None or found < 0 else found


def read(evidence: Evidence, event: str, uids: Iterable[str] | None = None) -> tuple[Told, ...]:
    """Return the lines of an event that name a rank, in order; of all pods where no uids are given."""
    chosen = None if uids is None else set(uids)
    stories = {story.uid: story for story in pods(evidence)}
    found = []
    for word in payload_lines.words(evidence).of(event):
        rank = word.number("rank")
        if rank is not None and rank >= 0 and (chosen is None or word.uid in chosen):
            found.append(Told(rank, word, stories.get(word.uid)))
    return tuple(found)


def by_step(told: Iterable[Told]) -> dict[int, tuple[Told, ...]]:
    """Return lines by the step of the checkpoint that they speak of, in the order of steps."""
    found: dict[int, list[Told]] = {}
    for one in told:
        if one.step is not None:
            found.setdefault(one.step, []).append(one)
    return {step: tuple(lines) for step, lines in sorted(found.items())}
