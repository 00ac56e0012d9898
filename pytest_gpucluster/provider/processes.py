"""Start and end the processes of the embedded cluster by their protocol.

A process reads one JSON line from its standard input, answers one JSON line when it is ready, and ends at
end-of-file of its input, on SIGTERM, or with the process `owner_pid`.

They are spawned and not kept as `Popen`: a process may outlive the one that started it, and is then ended by
another, which knows it by pid and start time.
"""

import contextlib
import dataclasses
import json
import os
import select
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from pytest_gpucluster.provider.protocol import ProviderError, Running

END_GRACE = 10.0
"""Seconds that a process gets after its input was closed, and again after SIGTERM."""

TAIL_LINES = 8
"""Lines of a process's log that an error shows."""


@dataclasses.dataclass
class Pipe:
    """The open input of a process; closing it asks the process to end.

    Attributes:
        running: the process.
        descriptor: our end, None when it is closed or was left to the process itself.
    """

    running: Running
    descriptor: int | None

    def close(self) -> None:
        """Close the input if we hold it and wait for the end within the grace; a second call does nothing."""
        if self.descriptor is None:
            return
        os.close(self.descriptor)
        self.descriptor = None
        wait(self.running, END_GRACE)


@dataclasses.dataclass(frozen=True)
class Launched:
    """A process that said it is ready."""

    running: Running
    ready: Mapping[str, Any]
    pipe: Pipe


def launch(
    role: str,
    command: Sequence[str],
    config: Mapping[str, Any],
    log: Path,
    *,
    limit: float,
    held: bool,
    begun: list[Pipe] | None = None,
) -> Launched:
    """Start a process, give it its configuration, wait for its ready line.

    Args:
        role: what it is, for messages.
        command: absolute path of a program, and arguments.
        config: the configuration line.
        log: file for its standard error.
        limit: seconds until it must be ready.
        held: its input is held open by this process, whose end ends it. Otherwise it holds its own input open and
            ends with `owner_pid` or on SIGTERM, since the starting process may end earlier.
        begun: takes the pipe as soon as there is a process, so that whatever interrupts its start can end it.

    Raises:
        ProviderError: it does not start, says an error, ends, or is not ready in time.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    source, sink = os.pipe()
    answer, answered = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, answer)
        # An interrupt between the start of a process and its entry here would leave one that nobody ends.
        with _interrupts_deferred():
            pipe = _spawn(role, command, log, (source, sink, answered), held=held)
            stack.enter_context(_ended_on_error(pipe))
            if begun is not None:
                begun.append(pipe)
        with contextlib.suppress(BrokenPipeError):
            os.write(sink, json.dumps(config).encode() + b"\n")
        ready = _ready_line(role, answer, log, limit)
        if not held:
            os.close(sink)
            pipe.descriptor = None
        return Launched(pipe.running, ready, pipe)


def _spawn(role: str, command: Sequence[str], log: Path, ends: tuple[int, int, int], *, held: bool) -> Pipe:
    source, sink, answered = ends
    errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    given = [(source, 0), (answered, 1), (errors, 2)] + ([] if held else [(sink, 3)])
    try:
        pid = os.posix_spawn(
            command[0],
            list(command),
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, ours, theirs) for ours, theirs in given],
            # Ctrl-C at a terminal reaches the whole group: the cluster must outlive it for the cleanup.
            setsid=True,
        )
    except OSError as error:
        os.close(sink)
        raise ProviderError(f"the {role} did not start: {error}") from None
    finally:
        for descriptor in (source, answered, errors):
            os.close(descriptor)
    return Pipe(Running(role, pid, born(pid) or 0, str(log)), sink)


@contextlib.contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Let what SIGINT and SIGTERM do in this process happen at the end of the block."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        came.append(number)

    handlers: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        present = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        handlers = {number: handler for number, handler in present.items() if callable(handler)}
    try:
        for number in handlers:
            signal.signal(number, note)
        yield
    finally:
        # Whatever comes while the first is given back is raised when all are.
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        for each in came:
            signal.raise_signal(each)


@contextlib.contextmanager
def _ended_on_error(pipe: Pipe) -> Iterator[None]:
    try:
        yield
    except BaseException:
        end_now(pipe)
        raise


def _ready_line(role: str, answer: int, log: Path, limit: float) -> Mapping[str, Any]:
    deadline = time.monotonic() + limit
    text = b""
    while not text.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([answer], [], [], left)[0]:
            raise ProviderError(f"the {role} was not ready within {limit:.0f} s{tail(log)}")
        piece = os.read(answer, 65536)
        if not piece:
            raise ProviderError(f"the {role} ended before it was ready{tail(log)}")
        text += piece
    try:
        said = json.loads(text)
    except ValueError:
        raise ProviderError(f"the {role} did not answer with JSON: {text[:200]!r}{tail(log)}") from None
    if not isinstance(said, dict) or not said.get("ready"):
        reason = said.get("error") if isinstance(said, dict) else None
        raise ProviderError(f"the {role} did not start: {reason or said}")
    return said


def end_now(pipe: Pipe) -> None:
    """End a process of a start that failed; what it does with its input no longer matters."""
    if pipe.descriptor is not None:
        os.close(pipe.descriptor)
        pipe.descriptor = None
    end(pipe.running)


def end(running: Running) -> None:
    """End a process that this or another process started: SIGTERM, then SIGKILL after the grace."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if born(running.pid) == running.born:
            with contextlib.suppress(ProcessLookupError):
                os.kill(running.pid, sign)
        if wait(running, END_GRACE):
            return


def wait(running: Running, limit: float) -> bool:
    """Wait until a process has ended, at most `limit` seconds; report whether it has. Reaps a child of ours."""
    try:
        descriptor = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return True
    try:
        alive = born(running.pid) == running.born
        ended = not alive or bool(select.select([descriptor], [], [], limit)[0])
    finally:
        os.close(descriptor)
    if ended:
        # A child of another process is not ours to reap.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(running.pid, os.WNOHANG)
    return ended


def born(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when there is none, or only a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may hold spaces and brackets; the fields after it do not.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def tail(log: Path) -> str:
    """Return the end of a process's log for an error line, and that it is empty where it is."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    kept = [line.strip() for line in lines if line.strip()][-TAIL_LINES:]
    return f"; its log {log} ends: {' | '.join(kept)}" if kept else f"; its log {log} is empty"
