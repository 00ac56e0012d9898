"""Reading the gate anew, in a process of its own: what judging takes in memory is given back when it ends."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_gpucluster.plain import times

ACCEPTED, CLOSED, EXPIRED, UNREADABLE, UNREAD = (
    "EvidenceAccepted", "GateClosed", "EvidenceExpired", "EvidenceUnreadable", "NotReadYet",
)  # fmt: skip
"""Reasons of the condition Active."""

JOURNAL, REPORT = "run.jsonl", "report.json"
"""Files by which the folder of a run is known (`report.record`, which is not imported here: it takes the memory)."""
SECONDS = 300.0
"""Longest time of one reading."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """What one reading of the gate said.

    Attributes:
        open: whether the gate is open.
        until: when the first evidence becomes too old; None for a closed gate.
        reason: one of the reasons above.
        message: in one line.
    """

    open: bool
    until: datetime | None
    reason: str
    message: str

    def at(self, now: datetime) -> "Reading":
        """Return what it says later: an open gate closes when its evidence becomes too old."""
        if self.open and self.until is not None and now >= self.until:
            text = f"the evidence was accepted until {times.format_time(self.until)}: run again"
            return Reading(open=False, until=None, reason=EXPIRED, message=text)
        return self


NOTHING = Reading(open=False, until=None, reason=UNREAD, message="the gate was not read yet")


def finished(folder: Path) -> list[Path]:
    """Return the folders of the runs that have ended: the folder itself, or those in it.

    A link such as `latest` is the run that it points to.
    """
    if (folder / REPORT).is_file():
        return [folder]
    found = {each.resolve() for each in folder.iterdir() if (each / REPORT).is_file()}
    return sorted(found)


def stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what changes when a run is added, removed or written; without reading any."""
    try:
        files = [each / REPORT for each in finished(folder)]
        return tuple((str(file), (seen := file.stat()).st_mtime_ns, seen.st_ino) for file in files)
    except OSError:
        return ()


def reader(folder: Path, options: Sequence[str]) -> Callable[[], Reading]:
    """Return what reads the gate.

    Args:
        folder: folder of a run, or of the folders of runs.
        options: options of `gpucluster gate` that say which policy and which profile.
    """

    def read() -> Reading:
        try:
            runs = [str(run) for run in finished(folder)]
        except OSError as error:
            return _unreadable(f"{folder}: {error.strerror}")
        if not runs:
            return _unreadable(f"{folder} has no run that has ended")
        return _ask([*runs, *options])

    return read


def _ask(words: Sequence[str]) -> Reading:
    command = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"
    try:
        done = subprocess.run(
            [sys.executable, "-c", command, "gate", *words, "--json"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return _unreadable(f"the gate could not be read: {type(error).__name__}")
    if done.returncode not in (0, 1):
        said = done.stderr.strip().splitlines()
        return _unreadable(said[-1] if said else f"the gate ended with {done.returncode}")
    try:
        return of_decision(json.loads(done.stdout))
    except (ValueError, KeyError, TypeError) as error:
        return _unreadable(f"the gate said nothing that can be read: {error}")


def of_decision(said: Mapping[str, Any]) -> Reading:
    """Return the reading that a decision is, as `gpucluster gate --json` prints it."""
    if said["open"] is not True:
        first, *more = said["closers"]
        text = f"{first['what']}: {first['why']}"
        message = f"{text}; and {len(more)} more" if more else text
        return Reading(open=False, until=None, reason=CLOSED, message=message)
    until = times.parse_time(said["until"]) if said["until"] else None
    counted = [run for run in said["runs"] if run not in said["runs_ignored"]]
    end = f" until {times.format_time(until)}" if until else ""
    message = f"policy {said['policy']['name']}, runs {', '.join(counted)}: accepted{end}"
    return Reading(open=True, until=until, reason=ACCEPTED, message=message)


def _unreadable(why: str) -> Reading:
    return Reading(open=False, until=None, reason=UNREADABLE, message=" ".join(why.split()))
