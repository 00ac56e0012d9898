"""Files of checkpoints: what they are on, how many bytes a rank wrote, and how fast raw bytes are written and read.

Rules of a figure: what is written is synchronised before the clock stops; before it is read, its pages are dropped from
the cache of this node, and `mincore` must show that none is left. Standard library only, but for `Memory`.
"""

import contextlib
import ctypes
import mmap
import os
import random
import threading
import time
import zlib
from pathlib import Path

BLOCK = 16 << 20
"""Bytes that are written and read at a time."""


def mount(folder: Path) -> dict[str, object]:
    """Return what a folder is on: mount point, file system, source, options; free bytes of it."""
    path, found = str(folder.resolve()), ("", "", "", "")
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        words = line.split()
        dash = words.index("-")
        point = words[4].encode().decode("unicode_escape")
        inside = path == point or path.startswith(f"{point.rstrip('/')}/")
        if inside and len(point) >= len(found[0]):
            found = (point, words[dash + 1], words[dash + 2], words[5])
    free = os.statvfs(folder)
    return {
        "path": path, "point": found[0], "fs": found[1], "source": found[2][:120], "options": found[3][:80],
        "free": free.f_bavail * free.f_frsize,
    }  # fmt: skip


def written() -> int:
    """Return the bytes that this process has handed to `write` so far, -1 where it may not be asked."""
    try:
        lines = Path("/proc/self/io").read_text(encoding="utf-8").splitlines()
    except OSError:
        return -1
    return next((int(line.split()[1]) for line in lines if line.startswith("wchar:")), -1)


class Memory:
    """The most memory that this process had resident since it was asked last."""

    def __init__(self) -> None:
        """Look whether the kernel counts it; else a thread looks every millisecond."""
        self.how = "kernel" if self._reset() else "sampled"
        self._most, self._done = 0, threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin anew; what is resident now is what growth is counted from."""
        # What was freed and not given back would be taken again, and not be seen as growth.
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
        self.before = self._now("VmRSS:")
        if not self._reset():
            self._most, self._done = self.before, threading.Event()
            self._thread = threading.Thread(target=self._sample, args=(self._done,), daemon=True)
            self._thread.start()

    def growth(self) -> int:
        """Return by how many bytes the process had grown at most since `begin`."""
        if self.how == "kernel":
            return max(0, self._now("VmHWM:") - self.before)
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        return max(0, self._most - self.before)

    def _sample(self, done: threading.Event) -> None:
        while not done.wait(0.001):
            self._most = max(self._most, self._now("VmRSS:"))

    @staticmethod
    def _reset() -> bool:
        try:
            # 5: the kernel forgets the most that was resident.
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return False
        return True

    @staticmethod
    def _now(key: str) -> int:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), 0)


def resident(path: Path) -> int:
    """Return how many bytes of a file are in the cache of this node, -1 where the kernel does not tell."""
    size = path.stat().st_size
    if not size:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as pages:
        count = -(-size // mmap.PAGESIZE)
        told = (ctypes.c_ubyte * count)()
        start = (ctypes.c_char * size).from_buffer(pages)
        try:
            wrong = libc.mincore(ctypes.byref(start), ctypes.c_size_t(size), told)
        finally:
            del start
    return -1 if wrong else sum(flag & 1 for flag in told) * mmap.PAGESIZE


def drop(paths: list[Path]) -> int:
    """Synchronise files and drop their pages from the cache; returns the bytes that are still there, -1 for unknown."""
    left = 0
    for path in paths:
        with path.open("r+b") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        still = resident(path)
        if still < 0:
            return -1
        left += still
    return left


def raw_write(path: Path, size: int, seed: int) -> tuple[list[float], int]:
    """Write bytes that no disk can compress; returns seconds of each block and of synchronising, and the checksum."""
    block = random.Random(seed).randbytes(BLOCK)  # noqa: S311 - bytes that differ, no secret
    check, left, spent = 0, size, []
    # The parts of a block are turned, so that no two blocks are alike; that is not timed.
    with path.open("wb", buffering=0) as file:
        turn = 0
        while left:
            part = memoryview(block[turn:] + block[:turn])[: min(left, BLOCK)]
            check = zlib.crc32(part, check)
            began = time.perf_counter()
            done = 0
            while done < len(part):
                done += file.write(part[done:])
            spent.append(time.perf_counter() - began)
            left -= len(part)
            turn = (turn + 4099) % BLOCK
        began = time.perf_counter()
        os.fsync(file.fileno())
        spent.append(time.perf_counter() - began)
    return spent, check


def raw_read(path: Path) -> tuple[list[float], int]:
    """Read a file from its start to its end; returns seconds of each block, and the checksum, which is not timed."""
    block = bytearray(BLOCK)
    view, check, spent = memoryview(block), 0, []
    with path.open("rb", buffering=0) as file:
        while True:
            began = time.perf_counter()
            got = file.readinto(view)
            spent.append(time.perf_counter() - began)
            if not got:
                return spent, check
            check = zlib.crc32(view[:got], check)


def move(path: Path, text: str) -> None:
    """Let a small file hold a text from one moment to the next: whoever reads it finds the old or the new one."""
    side = path.with_name(f".{path.name}.new")
    with side.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    side.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
