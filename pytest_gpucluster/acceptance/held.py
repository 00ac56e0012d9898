"""A training queue that is held: what can only be shown once it is open is pending, neither green nor excused."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from pytest_gpucluster.acceptance.runs import Run

ROWS = {"INV-005": "not_applicable", "GANG-001": "pass"}
"""That the queue is open, and that a gang runs whole in it -> verdict while it is held, the gang then runs elsewhere.
`gpucluster promote` runs both when it has opened the queue."""
KEY = "conformance_queue"
"""Key of a profile that declares its queue held."""


def pending(profile: Any, rows: Iterable[str], runs: Iterable[Run]) -> dict[str, str]:
    """Return the rows that are pending promotion, each with the reason.

    The newest attempt decides: what an older one showed in the open queue may have been another queue then.

    Args:
        profile: the profile for which it is asked (`profile.Profile`).
        rows: what the policy asks for.
        runs: the runs that count.
    """
    if profile.conformance_queue is None:
        return {}
    asked, counted = {*rows}, [*runs]
    return {row: _why(row, profile) for row in ROWS if row in asked and _waits(row, counted)}


def in_queue(profile: Any, run: Run) -> Run:
    """Return a run without the pass of a gang in another queue, if the profile does not declare its queue held.

    No promotion follows that would run it in the queue itself, so it is not decided.
    """
    other, attempt = run.profile.get(KEY), run.attempts.get("GANG-001")
    if profile.conformance_queue is not None or not other or attempt is None or attempt.verdict != "pass":
        return run
    observed = f"it passed in the queue {other}; nothing ran in {profile.queue}"
    changed = dataclasses.replace(attempt, verdict="inconclusive", observed=observed)
    return dataclasses.replace(run, attempts={**run.attempts, "GANG-001": changed})


def _waits(row: str, runs: Iterable[Run]) -> bool:
    tried = [(run.attempts[row], run) for run in runs if row in run.attempts]
    if not tried:
        return False
    attempt, run = max(tried, key=lambda pair: pair[0].at.timestamp() if pair[0].at is not None else 0.0)
    return bool(run.profile.get(KEY)) and attempt.verdict == ROWS[row]


def _why(row: str, profile: Any) -> str:
    if row == "GANG-001":
        return f"it passed in {profile.conformance_queue}; in {profile.queue}, which is held, promote runs it"
    return f"{profile.queue} is held: promote judges it when it is open"
