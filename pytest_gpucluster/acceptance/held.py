"""A training queue that is held: what can only be shown once it is open is pending, neither green nor excused."""

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_gpucluster.acceptance.runs import Run
from pytest_gpucluster.acceptance.shown import Shown

ROWS = ("INV-005", "GANG-001")
"""That the queue is open, and that a gang runs whole in it: `gpucluster promote` runs both when it has opened it."""
KEY = "conformance_queue"
"""Key of a profile that declares its queue held."""


def pending(
    profile: Any, rows: Iterable[str], shown: Mapping[str, Shown], runs: Iterable[Run]
) -> dict[str, str]:
    """Return the rows that are pending promotion, each with the reason.

    Args:
        profile: the profile for which it is asked (`profile.Profile`).
        rows: what the policy asks for.
        shown: what the runs show of each row.
        runs: the runs that count.
    """
    if profile.conformance_queue is None:
        return {}
    elsewhere = {run.id for run in runs if run.profile.get(KEY)}
    asked = {*rows}
    return {
        row: _why(row, profile)
        for row in ROWS
        if row in asked and shown[row].run in elsewhere and _waits(row, shown[row])
    }


def _waits(row: str, found: Shown) -> bool:
    """Report whether a row waits for the queue: a run saw it closed, as declared, or ran the gang in another one."""
    return found.state == ("pass" if row == "GANG-001" else "not applicable")


def _why(row: str, profile: Any) -> str:
    if row == "GANG-001":
        return f"it passed in {profile.conformance_queue}; in {profile.queue}, which is held, promote runs it"
    return f"{profile.queue} is held: promote judges it when it is open"
