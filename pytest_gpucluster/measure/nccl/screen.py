"""Lines of a log that may say something, cut from chunks of any size, at the speed of a search.

A log of gigabytes is mostly repetition: a step a line, a collective a line. A chunk's bytes are masked (digits, hex
letters and punctuation go) so that such lines become equal, and each distinct mask is looked at once. Whether a line
is looked at is a function of its mask alone: no line is lost because another resembled it.
"""

import re
from collections.abc import Iterator

LONGEST = 1 << 18
"""A line longer than this many bytes is read in pieces of this size."""
_MEMO = 20_000
_SHORT = 300

_KEEP = b"ABCDEFGHIJKLMNOPQRSTUVWXYZghijklmnopqrstuvwxyz#\n"
_DROP = bytes(set(range(256)) - set(_KEEP))

_WORDS = (
    # connections, communicators, networks
    "Channel", "INFO Ring", "INFO Coll", "via NET/", "via P2P/", "via SHM/", "via COLLNET/", "via direct shared memory",
    "Init START", "Init COMPLETE", "Destroy COMPLETE", "Abort COMPLETE", "Init timings", "MNNVL", "NVLS", "Connected",
    "Using", "set by environment", "NCCL_IB_HCA set to", "lugin", "PLUGIN", "NET/OFI", "GPU Direct RDMA", "GDRDMA",
    "No device found", "libibverbs", "qpn", "Made virtual device", "elected provider", "elected Provider",
    "NCCL version", "RCCL version", "HINT",
    # what went wrong
    "WARN", "ABORT", "NCCL work", "atchdog", "Last error", "Connect to", "connect to", "Connection closed",
    "Connection reset", "mixed local Net", "dump signal", "light recorder", "light Recorder", "lightRecorder",
    "eartbeat monitor", "ncclSystemError", "ncclInternalError", "ncclRemoteError", "ncclUnhandledCudaError",
    "ncclInvalidUsage", "ncclInvalidArgument", "NCCL error", "NCCL failure", "CUDA failure", "CUDA error",
    "Test timeout",
    "illegal memory access", "uncorrectable ECC", "fallen off the bus", "Cuda failure",
    # launchers and tables
    "x across cluster", "busbw", "bus bandwidth", "Out of bounds values", "nccl-tests version", "nccl-library",
    "Collective test starting", "# Rank", "# Using devices",
)  # fmt: skip
_TYPES = ("float", "half", "double", "bfloat", "int", "uint", "char", "f8e4m3", "f8e5m2", "fp8_e4m3")
_OPERATIONS = ("sum", "prod", "min", "max", "avg", "mulsum", "none", "all")


def mask(line: bytes) -> bytes:
    """Return what the screen looks at: upper-case letters and those behind f."""
    return line.translate(None, _DROP)


def _shape() -> "re.Pattern[bytes]":
    words = {mask(word.encode()) for word in _WORDS}
    words |= {mask(f"{kind}{what}".encode()) for kind in _TYPES for what in _OPERATIONS}
    # Tables of old builds have a type and no operation: nothing else stands in such a line.
    bare = {mask(kind.encode()) for kind in _TYPES}
    ends = b"|".join(sorted(re.escape(word) for word in bare))
    listed = b"|".join(sorted(map(re.escape, words)))
    return re.compile(listed + b"|^(?:stout|ult)?(?:" + ends + b")(?:NA)*$")


_WANTED = _shape()


class Screen:
    """Cuts chunks into lines and lets through those that may say something."""

    def __init__(self) -> None:
        """Start before the first byte."""
        self._boring: set[bytes] = set()
        self._rest: list[bytes] = []
        self._held = 0
        self.long = False
        """Whether a line was longer than `LONGEST`."""

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bool]]:
        """Return the lines that a chunk ends, each with whether it ended with a line feed."""
        end = chunk.rfind(b"\n")
        if end < 0:
            yield from self._hold(chunk)
            return
        if self._held:
            first = chunk.find(b"\n")
            yield from self._hold(chunk[: first + 1])
            whole = b"".join(self._rest)
            self._rest, self._held = [], 0
            yield from self._through(whole)
            if first < end:
                yield from self._through(chunk[first + 1 : end + 1])
        else:
            yield from self._through(chunk[: end + 1])
        yield from self._hold(chunk[end + 1 :])

    def close(self) -> Iterator[tuple[bytes, bool]]:
        """Return the last line, if it did not end."""
        whole = b"".join(self._rest)
        self._rest, self._held = [], 0
        if whole and _WANTED.search(mask(whole)):
            yield whole, False

    def _hold(self, part: bytes) -> Iterator[tuple[bytes, bool]]:
        """Keep the begin of a line; what is longer than a piece goes on."""
        if not part:
            return
        self._rest.append(part)
        self._held += len(part)
        if self._held <= LONGEST:
            return
        whole = b"".join(self._rest)
        ended = whole.endswith(b"\n")
        while len(whole) - ended > LONGEST:
            self.long = True
            piece, whole = whole[:LONGEST], whole[LONGEST:]
            if _WANTED.search(mask(piece)):
                yield piece, False
        self._rest, self._held = [whole], len(whole)

    def _through(self, block: bytes) -> Iterator[tuple[bytes, bool]]:
        """Return what is wanted of whole lines."""
        masks = block.translate(None, _DROP).split(b"\n")
        fresh = set(masks) - self._boring
        if not fresh:
            return
        wanted = {one for one in fresh if _WANTED.search(one)}
        boring = {one for one in fresh if len(one) < _SHORT} - wanted
        if len(self._boring) + len(boring) > _MEMO:
            self._boring.clear()
        if len(boring) <= _MEMO:
            self._boring |= boring
        long = _has_long(block)
        self.long |= long
        if not wanted and not long:
            return
        for line, masked in zip(block.split(b"\n"), masks, strict=True):
            if len(line) > LONGEST:
                for at in range(0, len(line), LONGEST):
                    piece = line[at : at + LONGEST]
                    if _WANTED.search(mask(piece)):
                        yield piece, at + LONGEST >= len(line)
            elif masked in wanted:
                yield line, True


def _has_long(block: bytes) -> bool:
    """Say whether a line of a block that ends with a line feed is longer than `LONGEST`."""
    start = 0
    while len(block) - start > LONGEST + 1:
        end = block.rfind(b"\n", start, start + LONGEST + 1)
        if end < 0:
            return True
        start = end + 1
    return False
