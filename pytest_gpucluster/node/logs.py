"""Container logs in the format that a kubelet keeps: time, stream, full-line mark, text."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

from pytest_gpucluster.plain.times import format_time, now, parse_time

# A line longer than this is cut into parts, as container runtimes do.
PART_BYTES = 16 * 1024


class ContainerLog:
    """The log of one run of one container: written here, read by the kubelet server."""

    def __init__(self, path: Path) -> None:
        """Open the file for writing, with its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file: IO[bytes] | None = path.open("ab", buffering=0)
        self._rest = {"stdout": b"", "stderr": b""}
        self._grew = asyncio.Event()

    def feed(self, stream: str, data: bytes) -> None:
        """Add output of one stream; whole lines are written at once, the rest when it is complete."""
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        for whole in lines:
            line = whole
            while len(line) > PART_BYTES:
                self._write(stream, line[:PART_BYTES], b"P")
                line = line[PART_BYTES:]
            self._write(stream, line, b"F")
        while len(rest) > PART_BYTES:
            self._write(stream, rest[:PART_BYTES], b"P")
            rest = rest[PART_BYTES:]
        self._rest[stream] = rest
        self._wake()

    def close(self) -> None:
        """Write what is left without a newline and end the log."""
        for stream, rest in self._rest.items():
            if rest:
                self._write(stream, rest, b"P")
        self._rest = {"stdout": b"", "stderr": b""}
        if self._file is not None:
            self._file.close()
            self._file = None
        self._wake()

    def _write(self, stream: str, line: bytes, mark: bytes) -> None:
        if self._file is not None:
            stamp = format_time(now(), micro=True).encode()
            self._file.write(b"%b %b %b %b\n" % (stamp, stream.encode(), mark, line))

    def _wake(self) -> None:
        event, self._grew = self._grew, asyncio.Event()
        event.set()

    def tail(self, limit: int) -> str:
        """Return the last part of the output as text, at most `limit` bytes."""
        text = b"".join(_plain(line, timestamps=False) for line in self.path.read_bytes().splitlines())
        return text[-limit:].decode(errors="replace")

    async def read(
        self,
        *,
        follow: bool = False,
        tail_lines: int | None = None,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """Yield the output, decoded from the kept format.

        Args:
            follow: Go on until the container has ended.
            tail_lines: Begin with so many of the last lines.
            since: Leave out older lines.
            timestamps: Put the time before each line.
        """
        with self.path.open("rb") as file:
            # The event is taken before the file is read: what is written in between wakes the next wait.
            grew, ended = self._grew, self._file is None
            lines = file.read().splitlines(keepends=True)
            if since is not None:
                lines = [line for line in lines if _time(line) >= since]
            if tail_lines is not None:
                lines = lines[max(0, len(lines) - tail_lines) :]
            yield b"".join(_plain(line.rstrip(b"\n"), timestamps=timestamps) for line in lines)
            while follow and not ended:
                await grew.wait()
                grew, ended = self._grew, self._file is None
                more = file.read().splitlines()
                yield b"".join(_plain(line, timestamps=timestamps) for line in more)


def _plain(line: bytes, *, timestamps: bool) -> bytes:
    stamp, _stream, mark, text = line.split(b" ", 3)
    end = b"\n" if mark == b"F" else b""
    return (stamp + b" " if timestamps else b"") + text + end


def _time(line: bytes) -> datetime:
    return parse_time(line.split(b" ", 1)[0].decode())


def since_seconds(seconds: float) -> datetime:
    """Return the moment `seconds` ago."""
    return now() - timedelta(seconds=seconds)
