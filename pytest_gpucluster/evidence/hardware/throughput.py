"""What the payloads `gemm`, `train_step` and `smoke` told: one line a rank, and what became of ranks without one.

A rank that was started anew says who it is again: what it said before belongs to another life of it and does not
count. Two lines of one life that differ are kept as a problem, so that nobody chooses between them.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.objects.pods import PodStory, pods

PROGRAMS: Mapping[str, str] = {"gemm": "gemm", "train": "train_step", "smoke": "smoke"}
"""Event of the line with the figures -> the program that prints it."""


@dataclasses.dataclass(frozen=True)
class Rank:
    """One rank in its newest life.

    Attributes:
        rank: its number.
        start: the line in which it said who it is, None where only its figures were seen.
        line: the line with its figures, None where there is none.
        failed: the line in which it said what went wrong.
        pod: its pod, None where the watch did not show it.
        twice: it told figures twice in one life, and not the same.
    """

    rank: int
    start: Word | None
    line: Word | None
    failed: Word | None
    pod: PodStory | None
    twice: bool = False

    @property
    def told(self) -> Mapping[str, Any]:
        """Return its figures, an empty mapping where there are none."""
        return self.line.data if self.line is not None else {}

    @property
    def device(self) -> Mapping[str, Any]:
        """Return what its device says of itself."""
        word = self.line or self.failed
        return fields.sub(word.data, "device") if word is not None else {}

    @property
    def cpu(self) -> bool:
        """Report whether it computed on a CPU."""
        if self.device:
            return self.device.get("kind") == "cpu"
        return self.start is not None and self.start.data.get("gpus") == 0

    @property
    def node(self) -> str:
        """Return the node of its pod, else the host that it says."""
        own = self.pod.node if self.pod is not None else ""
        word = self.line or self.failed or self.start
        return own or str((word.data.get("host") if word is not None else "") or "")

    @property
    def place(self) -> str:
        """Return `rank 3, GPU 3 (GPU-1f..) on Pod/x on gpu-1`."""
        word = self.line or self.failed or self.start
        where = self.pod.where if self.pod is not None else f"Pod/{word.pod if word is not None else '?'}"
        index, uuid = self.device.get("index"), str(self.device.get("uuid") or "")
        gpu = "" if index is None else f", GPU {index}" + (f" ({uuid})" if uuid else "")
        return f"rank {self.rank}{gpu} on {where}"

    @property
    def key(self) -> str:
        """Return the key of its deciding line."""
        word = self.line or self.failed or self.start
        return word.key if word is not None else ""


@dataclasses.dataclass(frozen=True)
class Told:
    """All ranks of one gang.

    Attributes:
        ranks: by number.
        torn: markers without an object that can be read.
        odd: lines that name no rank.
    """

    ranks: tuple[Rank, ...]
    torn: int
    odd: int

    @property
    def world(self) -> int | None:
        """Return the largest world that a rank names."""
        words = [w for rank in self.ranks for w in (rank.start, rank.line, rank.failed) if w is not None]
        return max((n for w in words if (n := w.number("world")) is not None), default=None)

    @property
    def measured(self) -> tuple[Rank, ...]:
        """Return the ranks that told figures."""
        return tuple(rank for rank in self.ranks if rank.line is not None)

    def missing(self, world: int) -> list[int]:
        """Return the ranks of a world that told no figures."""
        return payload_lines.absent(world, {rank.rank for rank in self.measured})


def read(evidence: Evidence, event: str, uids: Iterable[str] | None = None) -> Told:
    """Return what the ranks of some pods told with an event; of all pods where no uids are given."""
    said = payload_lines.words(evidence)
    chosen = None if uids is None else set(uids)
    stories = {story.uid: story for story in pods(evidence)}
    own = [w for w in said.words if chosen is None or w.uid in chosen]
    program = PROGRAMS.get(event, event)
    lives: dict[int, list[Word]] = {}
    odd = 0
    for word in own:
        if word.event not in {"rank", event, "failed"}:
            continue
        if word.event == "rank" and word.data.get("program") not in (program, None):
            continue
        rank = word.number("rank")
        if rank is None or rank < 0:
            odd += 1
            continue
        lives.setdefault(rank, []).append(word)
    ranks = [_rank(number, words, event, stories) for number, words in sorted(lives.items())]
    torn = sum(count for uid, count in said.torn.items() if chosen is None or uid in chosen)
    return Told(tuple(rank for rank in ranks if rank is not None), torn, odd)


def _rank(number: int, words: list[Word], event: str, stories: Mapping[str, PodStory]) -> Rank | None:
    newest = max(word.attempt for word in words)
    life: list[Word] = []
    for word in words:
        if word.attempt == newest:
            # A rank that says who it is begins a life, unless another process says that it is the same rank.
            again = word.event == "rank" and any(w.event == "rank" and w.uid == word.uid for w in life)
            life = [word] if again else [*life, word]
    lines = [word for word in life if word.event == event]
    start = next((word for word in life if word.event == "rank"), None)
    failed = next((word for word in reversed(life) if word.event == "failed"), None)
    if start is None and not lines and failed is None:
        return None
    last = lines[-1] if lines else None
    of = last or failed or start
    twice = any(_plain(word) != _plain(lines[-1]) for word in lines[:-1])
    return Rank(number, start, last, failed, stories.get(of.uid) if of is not None else None, twice)


def _plain(word: Word) -> tuple[str, dict[str, Any]]:
    """Return pod and facts of a line without its time; NaN as text, so that it equals itself."""
    return word.uid, {key: repr(value) for key, value in word.data.items() if key != "t"}
