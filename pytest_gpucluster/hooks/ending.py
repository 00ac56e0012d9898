"""The end of a run, in the process that owns it."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_gpucluster.hooks import state

INTERRUPTED = int(pytest.ExitCode.INTERRUPTED)


@dataclasses.dataclass(frozen=True)
class Ended:
    """What the terminal tells at the end.

    Attributes:
        folder: the run's folder.
        files: what was written.
        left_overs: what is still on the cluster.
    """

    folder: Path
    files: tuple[Path, ...]
    left_overs: tuple[str, ...]


ENDED = pytest.StashKey[Ended]()


def never_green(session: pytest.Session, exit_status: int, left_out: Mapping[str, str]) -> int:
    """Return the exit status of a run, made red where selected rows were not run: not measured is never a pass."""
    empty = {int(pytest.ExitCode.OK), int(pytest.ExitCode.NO_TESTS_COLLECTED)}
    if left_out and int(exit_status) in empty and not session.config.option.collectonly:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return int(session.exitstatus if left_out else exit_status)


def end(
    config: pytest.Config,
    folder: Path,
    *,
    exit_status: int,
    left_overs: list[str],
) -> None:
    """Stop what was started for the run, end its record, write the reports."""
    from pytest_gpucluster import provider
    from pytest_gpucluster.hooks import run as runs

    left_overs = left_overs + provider.stop(folder)
    if not (folder / "run.jsonl").exists():
        # Nothing was reached: no folder was made, so there is nothing to tell.
        return
    interrupted = exit_status == INTERRUPTED
    stopped = "the run was interrupted before it" if interrupted else "not reached: the run stopped before it"
    selection = state.selection_of(config)
    files = runs.finish(
        folder, exit_status=exit_status, interrupted=interrupted, selected=selection.selected, stopped=stopped
    )
    config.stash[ENDED] = Ended(folder, tuple(files), tuple(left_overs))
