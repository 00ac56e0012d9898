"""Run programs from argument lists: no shell, what they say on standard error is in the error, nothing outlives us."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_gpucluster.plain import private
from pytest_gpucluster.provider.protocol import ProviderError

SHOWN_LINES = 4
SHOWN_LETTERS = 600
"""How much of what a program said an error line shows; the rest is in the log."""

STOP_GRACE = 5.0
"""Seconds that a program gets to end when we are interrupted."""


def run(
    command: Sequence[str],
    *,
    limit: float,
    log: Path | None = None,
    text: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program to its end and return what it wrote to standard output.

    It runs in a session of its own: Ctrl-C at a terminal reaches us, and we end it before we go on.

    Args:
        command: program and arguments.
        limit: seconds after which it is ended.
        log: file to which all that it said is appended.
        text: its standard input.
        environment: variables beside ours.

    Raises:
        ProviderError: it does not exist, fails or takes too long; one line with what it said.
    """
    shown = " ".join((Path(command[0]).name, *command[1:3]))
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ProviderError(f"{shown}: cannot be run: {error.strerror or error}") from None
    try:
        out, said = process.communicate(text, timeout=limit)
    except subprocess.TimeoutExpired:
        out, said = _end(process)
        _write(log, command, out, said)
        raise ProviderError(f"{shown}: did not end within {limit:.0f} s{_tail(said or out, log)}") from None
    except BaseException:
        out, said = _end(process)
        _write(log, command, out, said)
        raise
    _write(log, command, out, said)
    if process.returncode != 0:
        raise ProviderError(f"{shown}: exit status {process.returncode}{_tail(said or out, log)}")
    return out


def _end(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """End a program with all that it started; return what it said."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=STOP_GRACE)
    return "", ""


def _write(log: Path | None, command: Sequence[str], out: str, said: str) -> None:
    if log is None:
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with private.opened(log, "a") as file:
        file.write(f"$ {' '.join(command)}\n{out}{said}\n")


def _tail(said: str, log: Path | None) -> str:
    """Return the lines that name the error, or the last ones, as the end of an error line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    first = next((i for i, line in enumerate(lines) if line.lower().startswith("error")), None)
    kept = lines[first:][:SHOWN_LINES] if first is not None else lines[-SHOWN_LINES:]
    text = " | ".join(kept)
    text = text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]} ..."
    where = f" (log: {log})" if log is not None else ""
    return (f": {text}" if text else ": it printed nothing") + where
