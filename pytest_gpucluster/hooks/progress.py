"""How far a run is: what each process of it is doing, what is decided, and about how long the rest takes.

Workers have no terminal: each keeps what it does in a file of the run's folder, which the controller reads.
"""

import contextlib
import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PATTERN = "progress-*.json"


@dataclasses.dataclass(frozen=True)
class Step:
    """What one process is doing.

    Attributes:
        scenario: name of the scenario, "" if it is about none.
        what: what is done, in a few words.
        limit: how long it may take at most, in seconds; None if it has no bound.
        since: when it began, in seconds of the machine's monotonic clock.
        began: when the scenario began, on the same clock.
    """

    scenario: str
    what: str
    limit: float | None
    since: float
    began: float


@dataclasses.dataclass(frozen=True)
class Part:
    """One scenario of a run: the rows that it decides, and about how many seconds it takes."""

    rows: tuple[str, ...]
    seconds: float


class Board:
    """What this process is doing.

    Attributes:
        parts: scenario -> what of the run it is.
        step: what is being done now, None before the first step and after the last.
    """

    def __init__(self, parts: Mapping[str, Part]) -> None:
        """Take what the run is made of; nothing is done yet."""
        self.parts = dict(parts)
        self.step: Step | None = None
        self._path: Path | None = None

    def share(self, folder: Path, worker: str) -> None:
        """Keep what is done in a file, for the controller."""
        self._path = folder / _PATTERN.replace("*", worker)
        self._write()

    def tell(self, scenario: str, what: str, limit: float | None = None) -> None:
        """Begin a step."""
        now, last = time.monotonic(), self.step
        began = last.began if last is not None and last.scenario == scenario else now
        self.step = Step(scenario, what, limit, now, began)
        self._write()

    def clear(self) -> None:
        """Nothing more is done."""
        self.step = None
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            self._path = None

    def _write(self) -> None:
        if self._path is None:
            return
        partial = self._path.with_suffix(".partial")
        data = {
            "parts": {name: dataclasses.asdict(part) for name, part in self.parts.items()},
            "step": dataclasses.asdict(self.step) if self.step else None,
        }
        # Whoever watches can do without; a full disk is told by what must be written.
        with contextlib.suppress(OSError):
            partial.write_text(json.dumps(data), encoding="utf-8")
            partial.replace(self._path)


def read(folder: Path | None) -> list[Board]:
    """Return what the workers of a run do; what is just being replaced or is gone is left out."""
    found = []
    for path in sorted(folder.glob(_PATTERN)) if folder is not None else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            data: Any = json.loads(path.read_text(encoding="utf-8"))
            board = Board({n: Part(tuple(p["rows"]), p["seconds"]) for n, p in data["parts"].items()})
            board.step = Step(**data["step"]) if data["step"] else None
            found.append(board)
    return found


def line(boards: Sequence[Board], decided: frozenset[str], now: float, began: float | None = None) -> str:
    """Return how far a run is, in one line; "" while nothing is done.

    Args:
        boards: what each of its processes does.
        decided: ids of the rows that are decided.
        now: seconds of the machine's monotonic clock.
        began: when the first step began, on the same clock; None if nobody knows.
    """
    steps = sorted((board.step for board in boards if board.step is not None), key=lambda one: one.since)
    if not steps:
        return ""
    parts = boards[0].parts
    rows = {row for part in parts.values() for row in part.rows}
    head = (
        f"{len(rows & decided)} of {len(rows)} rows decided, {_left(parts, steps, decided, now, began)}"
        if rows
        else ""
    )
    first = steps[0]
    named = (
        f"{first.scenario} ({_ids(parts[first.scenario].rows)})"
        if first.scenario in parts
        else first.scenario
    )
    bound = f" of at most {_seconds(first.limit)}" if first.limit is not None else ""
    doing = f"{named}{': ' if named else ''}{first.what}, {_seconds(now - first.since)}{bound}"
    others = f"; {len(steps) - 1} more at work" if len(steps) > 1 else ""
    return f"{head}{'; ' if head else ''}{doing}{others}"


def _left(
    parts: Mapping[str, Part], steps: Sequence[Step], decided: frozenset[str], now: float, began: float | None
) -> str:
    """Return about how long the rest takes: what scenarios declare, shared among those at work.

    They declare what they take on the embedded cluster; a slower one is known by what is over. Of a scenario that takes
    longer than that nobody knows when it ends.
    """
    running = {step.scenario: now - step.began for step in steps}
    over = sum(p.seconds for n, p in parts.items() if n not in running and decided.issuperset(p.rows))
    taken = max(0.0, (now - began) * len(steps) - sum(running.values())) if began is not None else 0.0
    slower = max(1.0, taken / over) if over else 1.0
    seconds = sum(
        max(0.0, slower * part.seconds - running.get(name, 0.0))
        for name, part in parts.items()
        if name in running or not decided.issuperset(part.rows)
    ) / len(steps)
    late = any(name in parts and spent > slower * parts[name].seconds for name, spent in running.items())
    if late and seconds < 1:
        return "longer than expected"
    about = "at least" if late else "about"
    return (
        f"{about} {seconds / 60:.0f} min left"
        if seconds >= 90
        else f"{about} {max(1, round(seconds))} s left"
    )


def _ids(rows: Sequence[str], most: int = 3) -> str:
    more = f" and {len(rows) - most} more" if len(rows) > most else ""
    return f"{', '.join(rows[:most])}{more}"


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 1 else "under 1 s"
