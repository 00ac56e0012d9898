"""The guard of a trial: a process of its own that closes the queue if the promotion that opened it is killed.

SIGKILL runs no code of the process that it ends. The guard lives in a session of its own, so that a signal to the
promotion's group does not reach it, and waits at a pipe whose other end only the promotion has: when that one is gone,
however it ended, the pipe ends. While it waits it renews the claim on the queue, so that others know a trial that goes
on from one whose machine is gone.
"""

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any, Self

from pytest_gpucluster.kube import connection, errors, objects
from pytest_gpucluster.plain import times
from pytest_gpucluster.promotion import records, switching
from pytest_gpucluster.promotion.targets import Refused, Target

READY = "ready"
RENEW = records.ALIVE / 4
"""Seconds between two renewals of the claim."""
TRY_AGAIN = 5.0
"""Seconds before a queue that could not be closed is tried again."""
AT_MOST = 3600.0
"""Seconds for which that is done; by then whoever looks finds a claim that has lapsed."""
_START = "from pytest_gpucluster.promotion import guard; guard.main()"


class Guard:
    """A guard beside this process, in a `with` block; afterwards no guard is needed, or it closes the queue."""

    def __init__(
        self, switch: switching.Switch, target: Target, kubeconfig: str, context: str | None
    ) -> None:
        """Take the promotion, its queue, and how the guard reaches the API server."""
        self._switch, self._target = switch, target
        self._reached = {"kubeconfig": str(kubeconfig), "context": context}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start it.

        Raises:
            Refused: it cannot be started; nothing was opened.
        """
        process = subprocess.Popen(
            [sys.executable, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._process = process
        said = ""
        if process.stdin is not None and process.stdout is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(_order(self._switch, self._target, self._reached)) + "\n")
                process.stdin.flush()
            said = process.stdout.readline().strip()
        if said != READY:
            self._end()
            raise Refused(
                f"{self._target.title} is not opened on trial: its guard did not start: {said or 'no word'}"
            )
        return self

    def __exit__(self, *_: object) -> None:
        """Let it go: it closes the queue if our claim is on it still."""
        self._end()

    def follow(self, pid: int) -> None:
        """Let it end the process of the trial too, if this one is killed."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(f"{pid}\n")
            self._process.stdin.flush()

    def _end(self) -> None:
        process = self._process
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        # One that cannot close the queue goes on trying, whatever becomes of us.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2 * TRY_AGAIN)


def _order(switch: switching.Switch, target: Target, reached: Mapping[str, Any]) -> dict[str, Any]:
    record = dataclasses.asdict(switch.record)
    record["at"] = times.format_time(switch.record.at)
    record["until"] = times.format_time(switch.record.until) if switch.record.until else None
    more = {"seconds": switch.seconds, "namespace": switch.namespace, "token": switch.token}
    return {**reached, "kind": target.kind, "obj": target.obj, "record": record, "switch": more}


def main() -> None:
    """Wait for the end of the promotion, and close its queue if its claim is on it still."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Its end is that of the promotion, which takes such a signal itself.
        signal.signal(number, signal.SIG_IGN)
    order = json.loads(sys.stdin.readline())
    try:
        switch, target = _of_order(order)
    except errors.GpuClusterError as error:
        sys.stdout.write(f"{' '.join(str(error).split())}\n")
        return
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    trial = _wait(switch, target, sys.stdin)
    if trial is not None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(trial, signal.SIGTERM)
    _close(switch, target)


def _of_order(order: Mapping[str, Any]) -> tuple[switching.Switch, Target]:
    told = dict(order["record"])
    told["at"] = times.parse_time(told["at"])
    told["until"] = times.parse_time(told["until"]) if told["until"] else None
    opened = connection.Connection.open(order["kubeconfig"], order["context"])
    switch = switching.Switch(objects.Objects(opened), records.Record(**told), **order["switch"])
    return switch, Target(objects.table_row(order["kind"]), order["obj"])


def _wait(switch: switching.Switch, target: Target, pipe: IO[str]) -> int | None:
    """Wait until the promotion is gone; return a handle of the trial's process, None if it did not begin one."""
    trial: int | None = None
    while True:
        ready, _, _ = select.select([pipe], [], [], RENEW)
        if not ready:
            # A claim that could not be renewed lapses: then others may close the queue too.
            with contextlib.suppress(errors.GpuClusterError):
                switch.renew(target)
            continue
        line = pipe.readline()
        if not line:
            return trial
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(ProcessLookupError):
                trial = os.pidfd_open(int(line))


def _close(switch: switching.Switch, target: Target) -> None:
    """Close the queue, if our claim is on it; tried again until it is closed."""
    clock = switch.api.connection.clock
    never, end = threading.Condition(), clock.monotonic() + AT_MOST
    while clock.monotonic() < end:
        try:
            closed = switch.close_after(target)
        except errors.GpuClusterError as error:
            _tell(f"gpucluster: {target.title} is not closed yet: {' '.join(str(error).split())}")
            with never:
                clock.wait(never, TRY_AGAIN)
            continue
        if closed is not None:
            said = "closed: its promotion was killed while it was tried out"
            records.event(switch.api, closed, "Held", said, warning=True)
            _tell(f"gpucluster: {closed.title} is {closed.state}: {said.partition(': ')[2]}")
        return


def _tell(line: str) -> None:
    """Tell whoever still listens."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
