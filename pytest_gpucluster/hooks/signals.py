"""SIGTERM ends a run as Ctrl-C does, in the controller and in its workers."""

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from pytest_gpucluster.plain import private

_INSTALLED = pytest.StashKey[bool]()

_CAME = pytest.StashKey[bool]()
"""SIGTERM came; Python forgets what a handler raises while an object is finalised."""

_PATTERN = "worker-*.pid"


def interrupt_on_sigterm(config: pytest.Config, on_signal: Callable[[], bool] | None = None) -> None:
    """Let SIGTERM interrupt the run, so that cleanup happens; a second one changes nothing.

    Args:
        config: pytest's configuration; the handler is put back when it ends.
        on_signal: called first; False says that there is no run of ours, and SIGTERM keeps its default.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        del frame
        if on_signal is not None and not on_signal():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        signal.signal(number, signal.SIG_IGN)
        config.stash[_CAME] = True
        raise KeyboardInterrupt("SIGTERM")

    # Whoever installed a handler of their own keeps it; only the main thread may install one.
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, interrupt)
            config.stash[_INSTALLED] = True


def end_if_told(config: pytest.Config) -> None:
    """Interrupt a run whose SIGTERM was swallowed; called before each test.

    Raises:
        KeyboardInterrupt: SIGTERM came and the run goes on.
    """
    if config.stash.get(_CAME, False):
        raise KeyboardInterrupt("SIGTERM")


def restore_sigterm(config: pytest.Config) -> None:
    """Give SIGTERM its default back where it was taken."""
    if config.stash.get(_INSTALLED, False):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        config.stash[_INSTALLED] = False


def announce(folder: Path, worker: str) -> Path:
    """Write down the process of a worker, so that its controller can pass SIGTERM on; return the file."""
    path = folder / _PATTERN.replace("*", worker)
    private.write(path, f"{os.getpid()}\n")
    return path


def pass_on(folder: Path) -> None:
    """Send SIGTERM to the workers of a run that are still at work."""
    for path in folder.glob(_PATTERN):
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(path.read_text(encoding="utf-8")), signal.SIGTERM)
