"""Child processes whose end and output are events of the loop (pidfd and pipes; no thread, no polling)."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress


class Process:
    """A started child process."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        """Watch an already started child."""
        self._child = child
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._pidfd = os.pidfd_open(child.pid)
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Report whether it has not been seen to end."""
        return not self._ended.done()

    def kill_group(self) -> None:
        """Kill it and all that it started in its session."""
        if self.running:
            os.killpg(self._child.pid, signal.SIGKILL)

    async def wait(self) -> int:
        """Return the exit code as a shell tells it: 128 + N after signal N."""
        return await asyncio.shield(self._ended)

    def _reap(self) -> None:
        code = self._child.poll()
        if code is None:
            return
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if not self._ended.done():
            self._ended.set_result(128 - code if code < 0 else code)


class _Feed(asyncio.Protocol):
    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if not self.closed.done():
            self.closed.set_result(None)


class Pipe:
    """A pipe whose writing end goes to a child, and whose content is handed over as it comes."""

    def __init__(self) -> None:
        """Make the pipe."""
        self._read, self.write = os.pipe()
        self._feed: _Feed | None = None

    async def listen(self, take: Callable[[bytes], None]) -> None:
        """Close the writing end here and hand over all that comes from now on."""
        os.close(self.write)
        loop = asyncio.get_running_loop()
        reading = os.fdopen(self._read, "rb", buffering=0)
        _, self._feed = await loop.connect_read_pipe(lambda: _Feed(take), reading)

    async def ended(self) -> None:
        """Return when every writing end is closed and all content was handed over."""
        if self._feed is not None:
            await asyncio.shield(self._feed.closed)

    def on_end(self, call: Callable[[], None]) -> None:
        """Have a function called when the pipe has ended."""
        if self._feed is not None:
            self._feed.closed.add_done_callback(lambda _closed: call())

    def discard(self) -> None:
        """Close both ends of a pipe that was never used."""
        for end in (self._read, self.write):
            with suppress(OSError):
                os.close(end)


async def run(command: Sequence[str], seconds: float) -> tuple[int | None, str]:
    """Run a command to its end.

    Returns:
        Exit code (None when it had to be killed after `seconds`) and what it said on both streams.
    """
    pipe = Pipe()
    said: list[bytes] = []
    process = Process(
        subprocess.Popen(  # noqa: ASYNC220 - a fork, some milliseconds; its end is awaited through the pidfd
            command, stdin=subprocess.DEVNULL, stdout=pipe.write, stderr=pipe.write, start_new_session=True
        )
    )
    await pipe.listen(said.append)
    code: int | None = None
    try:
        # Not `asyncio.wait_for`: that of Python 3.11 loses a cancellation that arrives in the moment in which the
        # process ends, as that of a probe does whose container ends.
        async with asyncio.timeout(seconds):
            code = await process.wait()
    except TimeoutError:
        code = None
    finally:
        process.kill_group()
    return code, b"".join(said).decode(errors="replace")
