"""What the ranks of the payload `collectives` said of themselves and of what they measured.

A rank that was started anew says who it is again: what it said before belongs to another life of it and does not count.
What cannot be counted is kept as a problem, so that a judge never takes half a table for a whole one.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.measure import samples

MOST = 1 << 63
"""What no count of bytes, elements or ranks reaches."""
CHECKED = ("size", "mean", "algbw", "busbw", "factor")
"""What every figure must have as a finite number, none of them below zero."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What one rank measured of one collective at one size, or of its exchange with one peer.

    Attributes:
        collective: its name, `sendrecv` for an exchange.
        size: bytes.
        busbw: bus bandwidth in GB/s; None where the line has no such number.
        data: the whole line.
        wrong: elements that were not right; None where the line does not say.
        peer: the other rank of an exchange.
        skipped: why it was not measured, "" where it was.
        problem: why it cannot be counted, "" where it can.
    """

    collective: str
    size: int
    busbw: float | None
    data: Mapping[str, Any]
    wrong: int | None
    peer: int | None = None
    skipped: str = ""
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Rank:
    """One rank as it told of itself in its newest life.

    Attributes:
        rank: its number; -1 where the line has none.
        word: the line in which it said who it is.
        pod: the pod; None for one that the watch did not show.
        results: of the collectives.
        pairs: of the sweep over pairs.
        whole: whether all parts of its results were read, each once.
        stalled: its line about a collective that did not end.
        failed: its line about an error.
        first: seconds from the start of the `pod` and of the `process` to its first checked collective, as far as it
            told them.
        done: whether it came to its end.
        lasted: seconds from its first line to its last figures, by the clock of its machine; None where nobody knows.
        problems: what cannot be counted, and why.
    """

    rank: int
    word: Word
    pod: PodStory | None
    results: tuple[Result, ...] = ()
    pairs: tuple[Result, ...] = ()
    whole: bool = False
    stalled: Word | None = None
    failed: Word | None = None
    first: Mapping[str, float] = dataclasses.field(default_factory=dict)
    done: bool = False
    lasted: float | None = None
    problems: tuple[str, ...] = ()

    @property
    def world(self) -> int | None:
        """Return the ranks of the world that it is in."""
        return self.word.number("world")

    @property
    def node(self) -> str:
        """Return the node by the pod's own spec; where the watch did not show the pod, what the rank says."""
        own = self.pod.node if self.pod is not None else ""
        return own or self.says("node")

    @property
    def where(self) -> str:
        """Return `rank 3 on Pod/x on gpu-1`."""
        place = self.pod.where if self.pod is not None else f"Pod/{self.word.pod}"
        return f"rank {self.rank} on {place}"

    @property
    def cpu(self) -> bool:
        """Report whether it computes on a CPU."""
        return self.says("device") == "cpu"

    @property
    def environment(self) -> Mapping[str, str] | None:
        """Return the variables of NCCL in its process; None where it does not tell them."""
        env = self.word.data.get("env")
        return {str(name): str(value) for name, value in env.items()} if isinstance(env, Mapping) else None

    def says(self, name: str) -> str:
        """Return a text of its first line."""
        return str(self.word.data.get(name) or "")


@dataclasses.dataclass(frozen=True)
class Told:
    """All ranks of one gang.

    Attributes:
        ranks: one for each process that said who it is, by rank.
        failed: errors of processes that never said who they are.
        torn: lines with a marker and no object that can be read.
    """

    ranks: tuple[Rank, ...]
    failed: tuple[Word, ...]
    torn: int

    @property
    def world(self) -> int | None:
        """Return the largest world that a rank names."""
        return max((r.world for r in self.ranks if r.world is not None), default=None)

    @property
    def cpu(self) -> bool:
        """Report whether the ranks compute on CPUs."""
        return bool(self.ranks) and all(rank.cpu for rank in self.ranks)


def read(evidence: Evidence, uids: Iterable[str] | None = None) -> Told:
    """Return what the ranks in these pods said; None for all pods."""
    return evidence.derived(_Reading(None if uids is None else frozenset(uids)))


@dataclasses.dataclass(frozen=True)
class _Reading:
    """The pods whose ranks are read, or None for all; each judge of the area asks for the same."""

    uids: frozenset[str] | None

    def __call__(self, evidence: Evidence) -> Told:
        """Read what their ranks said."""
        return _told(evidence, self.uids)


def _told(evidence: Evidence, wanted: frozenset[str] | None) -> Told:
    words = payload_lines.words(evidence)
    stories = {pod.uid: pod for pod in pods(evidence)}
    by_process: dict[tuple[str, str], list[Word]] = {}
    for word in words.words:
        if wanted is None or word.uid in wanted:
            by_process.setdefault((word.uid, str(word.data.get("rank"))), []).append(word)
    ranks: list[Rank] = []
    failed: list[Word] = []
    for (uid, _), said in by_process.items():
        life = _newest(said)
        if life and life[0].event == "who":
            ranks.append(_rank(life, stories.get(uid)))
        else:
            failed += [word for word in life if word.event == "failed"]
    torn = sum(n for uid, n in words.torn.items() if wanted is None or uid in wanted)
    return Told(tuple(sorted(ranks, key=lambda r: (r.rank, r.word.t))), tuple(failed), torn)


def _newest(said: list[Word]) -> list[Word]:
    """Return what a process said since it last said who it is."""
    starts = [n for n, word in enumerate(said) if word.event == "who"]
    return said[starts[-1] :] if starts else said


def _rank(life: list[Word], pod: PodStory | None) -> Rank:
    number = life[0].number("rank")
    measured, whole, problems = _parts([w for w in life if w.event == "measured"], "figures")
    swept, _, more = _parts([w for w in life if w.event == "pairs"], "pairs")

    def last(event: str) -> Word | None:
        return next((w for w in reversed(life) if w.event == event), None)

    results = tuple(_result(one, "") for one in measured)
    pairs = tuple(_result(one, "sendrecv") for one in swept)
    found = [f"{r.collective} of {r.size}: {r.problem}" for r in (*results, *pairs) if r.problem]
    return Rank(
        rank=-1 if number is None else number,
        word=life[0],
        pod=pod,
        results=results,
        pairs=pairs,
        whole=whole,
        stalled=last("stalled"),
        failed=last("failed"),
        first=_first([w for w in life if w.event == "measured"]),
        done=last("done") is not None,
        lasted=lasted(life[0], last("pairs") or last("measured")),
        problems=(*problems, *more, *found),
    )


def lasted(first: Word | None, figures: Word | None) -> float | None:
    """Return the seconds from one word of a rank to another, by the clock of its machine; None where it tells none."""
    begun, told = (
        samples.number(word.data.get("t")) if word is not None else None for word in (first, figures)
    )
    return None if begun is None or told is None or begun < payload_lines.EPOCH else told - begun


def _first(words: list[Word]) -> dict[str, float]:
    """Return how long a rank took from each start to its first collective."""
    found = {}
    for name in ("pod", "process"):
        value = words[-1].data.get(f"first_{name}") if words else None
        seconds = samples.number(value)
        if seconds is not None:
            found[name] = seconds
    return found


def _parts(words: list[Word], what: str) -> tuple[list[Mapping[str, Any]], bool, list[str]]:
    """Return the results of numbered lines, whether all lines were read once, and what is wrong with them."""
    found: dict[int, Word] = {}
    problems = []
    for word in words:
        part = word.number("part") or 0
        if part in found and found[part].data.get("results") != word.data.get("results"):
            problems.append(f"part {part} of its {what} was told twice, not the same")
        found[part] = word
    expected = max((word.number("parts") or 0 for word in words), default=0)
    missing = [str(part) for part in range(1, expected + 1) if part not in found]
    if missing:
        problems.append(f"part {', '.join(missing)} of {expected} of its {what} is missing")
    rows: list[Mapping[str, Any]] = []
    for part in sorted(found):
        listed = found[part].data.get("results")
        rows += [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return rows, bool(expected) and not problems, problems


def _result(row: Mapping[str, Any], name: str) -> Result:
    whole = {key: row.get(key) for key in ("size", "wrong", "peer")}
    numbers = {
        key: v if isinstance(v, int) and not isinstance(v, bool) and abs(v) < MOST else None
        for key, v in whole.items()
    }
    rate = row.get("busbw")
    good = isinstance(rate, float) or samples.number(rate) is not None
    skipped = str(row.get("skipped") or "")
    return Result(
        collective=str(row.get("collective") or name),
        size=numbers["size"] or 0,
        busbw=float(rate) if good and rate is not None else None,
        data=row,
        wrong=numbers["wrong"],
        peer=numbers["peer"],
        skipped=skipped,
        problem="" if skipped else _problem(row),
    )


def _problem(row: Mapping[str, Any]) -> str:
    """Return why a figure cannot be counted."""
    for name in CHECKED:
        value = row.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"it has no {name}"
        if samples.number(value) is None:
            return f"{name} is {value if isinstance(value, float) else 'beyond all numbers'}"
        if value < 0:
            return f"{name} is below zero"
    return ""
