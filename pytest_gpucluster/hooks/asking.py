"""Before a run makes anything on a cluster that exists: what it will take and do, and at a terminal whether it may."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpucluster.hooks import preflight, settings, state

if TYPE_CHECKING:
    from pytest_gpucluster.hooks.run import Run

QUESTION = "May this run begin? [y/N] "
YES = frozenset({"y", "yes"})
FIRST = "gw0"
"""The worker that tells its controller what the run will do: all of them collected the same."""


class Asking:
    """Says and asks when pytest has told of its collection, before the first test."""

    def __init__(self, block: list[str]) -> None:
        """Take the block."""
        self._block = block

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Ask; registered after what draws the progress, and so called before it.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_runtestloop

        Raises:
            pytest.exit.Exception: the answer is no.
        """
        if not session.testsfailed:
            ask(session.config, self._block)


def prepare(config: pytest.Config, run: "Run") -> None:
    """Let a run on a cluster that exists say what it will do, and ask, before its first test.

    A worker has no terminal: it leaves the block to its controller, see `hooks.workers`.
    """
    block = list(preflight.lines(run, state.selection_of(config)))
    if not block:
        return
    if not state.is_worker(config):
        config.pluginmanager.register(Asking(block), "gpucluster-asking")
    elif run.worker == FIRST:
        preflight.hand_over(run.folder, block)


def ask(config: pytest.Config, lines: list[str]) -> None:
    """Print what a run will do; at a terminal ask whether it may, unless that was told.

    Without a terminal nobody could answer: a pipeline has its bounds in its options, and goes on.

    Raises:
        pytest.exit.Exception: the answer is no.
    """
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.ensure_newline()
        for line in lines:
            terminal.write_line(line)
    if settings.resolve(config).yes or not _refused(config):
        return
    pytest.exit(
        "gpucluster: the run was not begun, and nothing was made on the cluster",
        returncode=int(pytest.ExitCode.INTERRUPTED),
    )


def _refused(config: pytest.Config) -> bool:
    """Report whether somebody is there to be asked, and does not say yes."""
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if capture is not None:
        capture.suspend(in_=True)
    try:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return False
        return input(QUESTION).strip().lower() not in YES
    except EOFError:
        return True
    finally:
        if capture is not None:
            capture.resume()


def ask_for_workers(config: pytest.Config, folder: Path) -> None:
    """Ask in the controller, once the first worker has collected.

    Raises:
        pytest.exit.Exception: the answer is no.
    """
    lines = preflight.taken_over(folder)
    if lines:
        ask(config, lines)
