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

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Stop after all that is done at the end, before the summary is written."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._output is not None:
            self._output.end()

    def _watch(self, output: "_Output") -> None:
        while not self._over.wait(output.pause):
            boards = [self._board] if self._board is not None else progress.read(self._folder())
            told = progress.line(boards, frozenset(self._decided), time.monotonic())
            if told:
                with contextlib.suppress(OSError, ValueError):
                    output.show(f"gpucluster: {told}")


def watch(config: pytest.Config, board: progress.Board | None, folder: Callable[[], Path | None]) -> None:
    """Show how far the run is, unless nobody is to see it: -q, no terminal reporter."""
    if config.getoption("verbose") >= 0 and config.pluginmanager.hasplugin("terminalreporter"):
        config.pluginmanager.register(Progress(config, board, folder), NAME)


class _Output:
    """Where lines go: a copy of standard output, which pytest does not capture."""

    pause = EVERY

    def __init__(self, reporter: Any, terminal: Any, descriptor: int) -> None:
        self._reporter = reporter
        self._terminal = terminal
        self._descriptor = descriptor

    def show(self, text: str) -> None:
        """Write a line of its own; pytest names the file again before the next result."""
        self._terminal.flush()
        begun = self._terminal.width_of_current_line > 0
        # Both remember what stands on the line that we ended.
        self._terminal._current_line = ""  # noqa: SLF001 - see `_output`
        self._reporter.currentfspath = None
        self._write("\n" * begun + f"{text}\n")

    def end(self) -> None:
        """Let go of the copy."""
        os.close(self._descriptor)

    def _write(self, text: str) -> None:
        os.write(self._descriptor, text.encode("utf-8", "replace"))


class _Line(_Output):
    """A line below what pytest writes, cleared before each of its words and drawn again."""

    pause = EACH

    def __init__(self, reporter: Any, terminal: Any, descriptor: int) -> None:
        super().__init__(reporter, terminal, descriptor)
        self._lock = threading.Lock()
        self._shown = False
        self._file = terminal._file  # noqa: SLF001 - see `_output`
        terminal._file = _Clearing(self._file, self)  # noqa: SLF001

    def show(self, text: str) -> None:
        """Draw the line, cut to the width of the terminal."""
        with self._lock:
            width = os.get_terminal_size(self._descriptor).columns
            self._write(f"{_ROOM}{_SAVE}{_BELOW}{text[: max(0, width - 1)]}{_RESTORE}")
            self._shown = True

    def write(self, text: str) -> int:
        """Write what pytest says, where the line is not."""
        with self._lock:
            if self._shown:
                self._write(f"{_SAVE}{_BELOW}{_RESTORE}")
                self._shown = False
            written: int = self._file.write(text)
            self._file.flush()
            return written

    def end(self) -> None:
        """Take the line away."""
        self.write("")
        self._terminal._file = self._file  # noqa: SLF001
        super().end()


class _Clearing:
    """The terminal's file; its `write` takes the line away first."""

    def __init__(self, file: Any, line: _Line) -> None:
        self._file = file
        self.write = line.write

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
