"""Shows how far a run is: at a terminal as one line below pytest's that changes, elsewhere as a line now and then."""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.hooks import progress, state

NAME = "gpucluster-progress"

EACH = 1.0
"""Seconds between two pictures of the changing line."""
EVERY = 30.0
"""Seconds between two plain lines: a log shows that the run is alive, and short runs have none."""

# DEC VT100: index (down, scrolling at the bottom) and up again make sure of a line below; then save, go there, clear.
_ROOM, _SAVE, _BELOW, _RESTORE = "\x1bD\x1b[A", "\x1b7", "\r\n\x1b[2K", "\x1b8"


class Progress:
    """Watches a run in the process that has the terminal."""

    def __init__(
        self, config: pytest.Config, board: progress.Board | None, folder: Callable[[], Path | None]
    ) -> None:
        """Take what to watch.

        Args:
            config: pytest's configuration.
            board: what this process does, None for one that only leads workers.
            folder: returns the run's folder, None while it has no name.
        """
        self._config = config
        self._board = board
        self._folder = folder
        self._decided: set[str] = set()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._output: _Output | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Begin: pytest captures nothing at this moment, so that the terminal is what standard output is."""
        self._output = _output(self._config)
        if self._output is not None:
            self._thread = threading.Thread(target=self._watch, args=(self._output,), daemon=True, name=NAME)
            self._thread.start()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a row when its test is over."""
        row = next((str(v) for k, v in report.user_properties if k == state.REQUIREMENT_PROPERTY), "")
        if row and report.when == "teardown":
            self._decided.add(row)

    def pytest_enter_pdb(self) -> None:
        """Stop for good: a debugger has the terminal."""
        self._stop()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Stop after all that is done at the end, before the summary is written."""
        self._stop()

    def _stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        output, self._thread, self._output = self._output, None, None
        if output is not None:
            output.end()

    def _watch(self, output: "_Output") -> None:
        began: float | None = None
        while not self._over.wait(output.pause):
            boards = [self._board] if self._board is not None else progress.read(self._folder())
            began = began or min((board.step.began for board in boards if board.step), default=None)
            told = progress.line(boards, frozenset(self._decided), time.monotonic(), began)
            if told:
                with contextlib.suppress(OSError, ValueError):
                    output.show(f"gpucluster: {told}")


def watch(config: pytest.Config, board: progress.Board | None, folder: Callable[[], Path | None]) -> None:
    """Show how far the run is, unless nobody is to see it: -q, no terminal reporter."""
    if config.getoption("verbose") >= 0 and config.pluginmanager.hasplugin("terminalreporter"):
        config.pluginmanager.register(Progress(config, board, folder), NAME)


class _Output:
    """Where lines go: a copy of standard output, which pytest does not capture.

    What pytest writes goes through `write`, so that it and our lines do not mix.
    """

    pause = EVERY

    def __init__(self, reporter: Any, terminal: Any, descriptor: int) -> None:
        self._reporter = reporter
        self._terminal = terminal
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._begun = terminal.width_of_current_line > 0
        self._file = terminal._file  # noqa: SLF001 - see `_output`
        terminal._file = _Through(self._file, self.write)  # noqa: SLF001

    def show(self, text: str) -> None:
        """Write a line of its own; pytest names the file again before the next result."""
        with self._lock:
            self._put("\n" * self._begun + f"{text}\n")
            self._begun = False
            # Both remember what stands on the line that we ended.
            self._terminal._current_line = ""  # noqa: SLF001
            self._reporter.currentfspath = None

    def write(self, text: str) -> int:
        """Write what pytest says."""
        with self._lock:
            self._make_way()
            written: int = self._file.write(text)
            self._file.flush()
            self._begun = not text.endswith("\n") if text else self._begun
            return written

    def end(self) -> None:
        """Give pytest its terminal back."""
        self.write("")
        self._terminal._file = self._file  # noqa: SLF001
        os.close(self._descriptor)

    def _make_way(self) -> None:
        """Take away what is in the way of pytest's words."""

    def _put(self, text: str) -> None:
        os.write(self._descriptor, text.encode("utf-8", "replace"))


class _Line(_Output):
    """A line below what pytest writes, cleared before each of its words and drawn again."""

    pause = EACH
    _shown = False

    def show(self, text: str) -> None:
        """Draw the line, cut to the width of the terminal."""
        with self._lock:
            width = os.get_terminal_size(self._descriptor).columns
            self._put(f"{_ROOM}{_SAVE}{_BELOW}{text[: max(0, width - 1)]}{_RESTORE}")
            self._shown = True

    def _make_way(self) -> None:
        if self._shown:
            self._put(f"{_SAVE}{_BELOW}{_RESTORE}")
            self._shown = False


class _Through:
    """The terminal's file, of which the output writes."""

    def __init__(self, file: Any, write: Callable[[str], int]) -> None:
        self._file = file
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _output(config: pytest.Config) -> _Output | None:
    """Return where the run may be watched, None if standard output is no file of the system."""
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    terminal = config.get_terminal_writer()
    try:
        descriptor = os.dup(terminal._file.fileno())  # noqa: SLF001 - pytest has no public way to write while it captures
    except (OSError, ValueError, AttributeError):
        return None
    if os.isatty(descriptor) and os.environ.get("TERM", "dumb") != "dumb":
        return _Line(reporter, terminal, descriptor)
    return _Output(reporter, terminal, descriptor)
