"""Faults planted one by one, and a table of what the rows said: `gpu-kubernetes plant`.

A fault of which nothing shows that it happened is `not planted`, whatever the rows say beside it.
"""

import dataclasses
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from pytest_gpucluster.kube import errors

from .failure import Failed
from .trials import Rows, Trial

NOT_PLANTED, NOT_RUN, EXPECTED, OTHERWISE = "not planted", "not run", "as expected", "NOT as expected"
HEAD = ("planted", "shown by", "row", "verdict", "expected", "result")
CAUGHT = (Failed, errors.GpuClusterError, OSError)
"""What ends a trial and not those after it: nobody looks on."""
LEAST = 20.0
"""Seconds without which no trial is begun."""


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the table: a row beside a fault."""

    planted: str
    shown: str
    row: str
    verdict: str
    expected: str
    result: str

    def cells(self) -> tuple[str, ...]:
        """Return its cells."""
        return self.planted, self.shown, self.row, self.verdict, self.expected, self.result


def judged(trial: Trial, shown: str, wrong: str, said: dict[str, tuple[str, str]]) -> list[Line]:
    """Return the lines of a trial.

    Args:
        trial: it.
        shown: what shows that its fault happened, "" if nothing does.
        wrong: what went wrong, "" if nothing did.
        said: row -> verdict and finding.
    """
    lines = []
    for each in trial.rows:
        verdict, finding = said.get(each.row, ("none", ""))
        met = EXPECTED if each.is_met(verdict, finding) and not wrong else OTHERWISE
        text = "; ".join(part for part in (shown, wrong) if part)
        lines.append(Line(trial.fault, text, each.row, verdict, str(each), met if shown else NOT_PLANTED))
    return lines


def run(
    chosen: Iterable[Trial], suite: tuple[str, ...], out: Path, seconds: float, say: Callable[[str], None]
) -> list[Line]:
    """Plant each fault and run its rows, as far as the time goes; write the table after each; return its lines.

    Args:
        chosen: the faults.
        suite: arguments of pytest that name the suite.
        out: a folder.
        seconds: for all of them.
        say: is told of each.
    """
    end = time.monotonic() + seconds
    lines: list[Line] = []
    for trial in chosen:
        left = end - time.monotonic()
        if left < LEAST:
            lines += [
                Line(
                    trial.fault, f"{left:.0f} s of {seconds:.0f} were left", each.row, "", str(each), NOT_RUN
                )
                for each in trial.rows
            ]
        else:
            lines += _run(trial, suite, out / trial.name, time.monotonic() + min(left, trial.seconds))
        write(lines, out)
        for line in lines[-len(trial.rows) :]:
            say(f"{trial.name}: {line.row} {line.verdict or 'none'}: {line.result}")
    return lines


def _run(trial: Trial, suite: tuple[str, ...], out: Path, end: float) -> list[Line]:
    rows = Rows(trial.command(suite, out), out, end)
    shown, wrong = "", ""
    try:
        shown = trial.planting(rows)
    except CAUGHT as error:
        wrong = str(error)
    finally:
        rows.stop()
        try:
            trial.undoing()
        except CAUGHT as error:
            wrong = f"{wrong}; not taken back: {error}".removeprefix("; ")
    return judged(trial, shown, wrong, rows.verdicts())


def write(lines: Iterable[Line], out: Path) -> None:
    """Write the table, for people and for programs."""
    every = list(lines)
    rows = [HEAD, ("---",) * len(HEAD), *(line.cells() for line in every)]
    text = "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)
    (out / "planted.md").write_text(text, encoding="utf-8")
    (out / "planted.json").write_text(
        json.dumps([dataclasses.asdict(line) for line in every], indent=1), encoding="utf-8"
    )


def choose(every: Iterable[Trial], only: list[str]) -> list[Trial]:
    """Return the trials of some names; all without any.

    Raises:
        Failed: a name is of none.
    """
    found = list(every)
    names = [trial.name for trial in found]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise Failed(f"--only {unknown[0]}: there are {', '.join(names)}")
    return [trial for trial in found if not only or trial.name in only]
