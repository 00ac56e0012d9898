"""Lines of a log that may say something, cut from chunks of any size, at a good part of the speed of a search.

A log of gigabytes is mostly repetition: a step a line, a collective a line. Most bytes of a chunk are taken away, so
that such lines become equal, and each distinct remainder is looked at once: first by capital letters and points, which
most lines have few of, then, of what may be of interest, by more letters. Whether a line is let through is a function
of its own remainders: no line is lost because another resembled it.

The coarser look is left out at the head of a stream, where there is little to gain: there the halves of rows that were
cut are let through as well.
"""

import re
from collections.abc import Callable, Iterator

LONGEST = 1 << 18
"""A line longer than this many bytes is read in pieces of this size."""
HEAD = 1 << 20
"""Lines that begin in so many first bytes of a stream are looked at by the finer remainder alone."""
QUOTED = b"Last error"
"""Behind these words PyTorch quotes NCCL, on lines of any shape."""
_AFTER = 8
"""Lines behind them that are let through."""
_MEMO = 20_000
_SHORT = 300
_TELLING = 5

_COARSE = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ#.]\n"))
_FINE = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZghijklmnopqrstuvwxyz#\n"))

_CHATTER = re.compile(rb"(?:(?!NCCLINFO).)*NCCLINFO(?:AR|AG|RS|AA|B|R|S)(?:C\]?|BA[A-Z.\]]*)$")
"""What a line of one collective (`AllReduce: opCount 1f ...`, `AllReduce: 4 Bytes -> Algo ...`) leaves."""
_BARE = re.compile(
    rb"NCCL|WARN|ABORT|RCCL|#|(?:\.[A-Z\]]{0,8}){4}|(?:\.[A-Z\]]{0,8}){2}NA|C|\]$|[A-Z]E|IU|IA|AFINET|HINT"
    rb"|^\]{0,4}(?:T\.*|[AKPS]|E\]*)$|^\]{0,4}[EF]\.|^\]{0,4}L|GPU|PID|HIP|HSA|NVRM|X"
    rb"|ERROR|CRITICAL|MPI|AER|\.L$|OOM|\]\]A|\.A[A-Z.]{0,12}\.$|^[.\]]{0,6}[ABFIK]\.*$"
)
"""What a line without a record of NCCL must leave: words of PyTorch and of tables, rows of figures, a folded line."""

_QUOTES = re.compile(rb"\]{0,4}L")
"""What the line leaves behind which PyTorch quotes NCCL."""
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
    # programs, GPUs, daemons that end or fail
    "Error", "Traceback (most recent call last)", "exitcode", "Segmentation fault", "core dumped", "Killed process",
    "oom-kill", "Process received signal", "terminate called", "HIP failure", "HIP error", "HSA_STATUS",
    "Memory access fault", "unspecified launch",
    "device-side assert", "NVRM: Xid", "amdgpu", "GPU is lost", "GPU lost", "GPUs detected in", "RxDM",
    "socket interface found",
    "shared memory", "register memory", "version mismatch", "exited with code", "exited on signal", "died with",
    "srun: error", "HIP version", "ROCm version", "Librccl", "Kernel version", "CUDA_ERROR", "out of memory",
    "operations have failed", "entire process down", "unhandled",
    "NCCL ERROR", "FATAL", "CANCELLED", "Bus error", "atal error", "Test failure", "Link DOWN", "Link down", "Signal: ",
    "Killed", "Aborted", "Terminated", "Assertion", "oom_kill", "received by PID", "NCCL DIAG", "Timeout at NCCL",
    "MPI_ABORT", "processes exited with", "exits with return code", "ERROR", "CRITICAL",
    "AER: ", "Illegal instruction", "Floating point exception", "Cable error", "Link is Down",
)  # fmt: skip
_TROUBLES = (
    "event", "flap", "catastrophic", "corrupt", "degraded", "hung", "stuck", "is down", "went down", "goes down",
    "link", "port", "rail", "lane", "uncorrectable", "CRC", "symbol error", "packet", "timed out", "unreachable",
)  # fmt: skip
"""Words of trouble in an INFO record: letters behind f are few of them, and stand behind NCCL's own words alone."""
_TYPES = ("float", "half", "double", "bfloat", "int", "uint", "char", "f8e4m3", "f8e5m2", "fp8_e4m3")
_OPERATIONS = ("sum", "prod", "min", "max", "avg", "mulsum", "none", "all")


def mask(line: bytes) -> bytes:
    """Return the finer remainder: capital letters and those behind f."""
    return line.translate(None, _FINE)


def _may(coarse: bytes) -> bool:
    """Say whether a line with this coarser remainder may be of interest."""
    if b"NCCLINFO" in coarse:
        return _CHATTER.match(coarse) is None
    return _BARE.search(coarse) is not None


def _fine(line: bytes) -> bool:
    return _WANTED.search(mask(line)) is not None


def _shape() -> "re.Pattern[bytes]":
    """Return what a mask must hold.

    A call of NCCL that failed leaves its file alone, and a line of PyTorch at level E or F begins with that letter.
    Rows of a table have a type and an operation side by side, or only a type in tables of old builds. Behind them
    stand numbers, and at times the output of somebody else; short masks count only at the end of the line.
    """
    words = {mask(word.encode()) for word in _WORDS}
    rows = {mask(f"{kind}{what}".encode()) for kind in _TYPES for what in _OPERATIONS}
    words |= {row for row in rows if len(row) >= _TELLING}
    ends = {row for row in rows if len(row) < _TELLING}
    bare = {mask(kind.encode()) for kind in _TYPES}
    listed = b"|".join(sorted(map(re.escape, words)))
    last = b"|".join(sorted(map(re.escape, ends)))
    alone = b"|".join(sorted(map(re.escape, bare)))
    trace = b"NCCLINFO[g-z]{0,40}$"
    troubles = (
        b"NCCLINFO[A-Za-z]*?(?:" + b"|".join(sorted({mask(word.encode()) for word in _TROUBLES})) + b")"
    )
    logged = b"^[g-z]{0,40}[EF](?!oh|v|st|in|oun)"
    return re.compile(
        listed + b"|(?:" + last + b")(?:NA)*[A-Za-z]{0,30}$|^(?:stout|ult)?(?:" + alone + b")(?:NA)*$"
        b"|" + trace + b"|" + troubles + b"|" + logged
    )


_WANTED = _shape()


class _Memo:
    """Remainders that are known to be of no interest, within a bound."""

    def __init__(self, may: Callable[[bytes], object]) -> None:
        self._may = may
        self._dull: set[bytes] = set()

    def chosen(self, remainders: list[bytes]) -> set[bytes]:
        """Return those of interest."""
        if self._dull.issuperset(remainders):
            return set()
        fresh = set(remainders) - self._dull
        found = {one for one in fresh if self._may(one)}
        dull = {one for one in fresh if len(one) < _SHORT} - found
        if len(self._dull) + len(dull) > _MEMO:
            self._dull.clear()
        if len(dull) <= _MEMO:
            self._dull |= dull
        return found


class Screen:
    """Cuts chunks into lines and lets through those that may say something."""

    def __init__(self) -> None:
        """Start before the first byte."""
        self._coarse = _Memo(_may)
        self._fine = _Memo(_WANTED.search)
        self._rest: list[bytes] = []
        self._held = 0
        self._taken = 0
        self._pieces = False
        self._after = 0
        self.long = False
        """Whether a line was longer than `LONGEST`."""

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bool]]:
        """Return the lines that a chunk ends, each with whether it ended with a line feed."""
        end = chunk.rfind(b"\n")
        if end < 0:
            yield from self._hold(chunk)
            return
        if not self._held:
            yield from self._through(chunk[: end + 1])
        elif self._held + end < LONGEST and not self._pieces:
            block = b"".join([*self._rest, chunk[: end + 1]])
            self._rest, self._held = [], 0
            yield from self._through(block)
        else:
            first = chunk.find(b"\n")
            yield from self._hold(chunk[: first + 1])
            whole = b"".join(self._rest)
            self._rest, self._held = [], 0
            if self._pieces:
                self._pieces = False
                self._taken += len(whole)
                yield from _parts(whole[:-1])
            else:
                yield from self._through(whole)
            yield from self._through(chunk[first + 1 : end + 1])
        yield from self._hold(chunk[end + 1 :])

    def close(self) -> Iterator[tuple[bytes, bool]]:
        """Return the last line, if it did not end."""
        whole = b"".join(self._rest)
        self._rest, self._held = [], 0
        coarse = self._pieces or self._taken < HEAD or _may(whole.translate(None, _COARSE))
        if whole and (self._after or (coarse and _fine(whole))):
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
            self._pieces = True
            self._taken += LONGEST
            piece, whole = whole[:LONGEST], whole[LONGEST:]
            if _fine(piece):
                yield piece, False
        self._rest, self._held = [whole], len(whole)

    def _through(self, block: bytes) -> Iterator[tuple[bytes, bool]]:
        """Return what is wanted of whole lines."""
        if not block:
            return
        begin, self._taken = self._taken, self._taken + len(block)
        if _has_long(block):
            self.long = True
            for line in block.split(b"\n")[:-1]:
                if begin < HEAD or len(line) > LONGEST or _may(line.translate(None, _COARSE)):
                    yield from _parts(line)
                begin += len(line) + 1
            return
        if self._after or (begin < HEAD and QUOTED in block):
            yield from self._around(block, begin)
            return
        if begin < HEAD:
            end = len(block) if self._taken <= HEAD else block.find(b"\n", HEAD - 1 - begin) + 1
            yield from (
                (line, ended)
                for line, ended in self._finely(block[:end].split(b"\n"))
                if _CHATTER.match(line.translate(None, _COARSE)) is None
            )
            block = block[end:]
        remainders = block.translate(None, _COARSE).split(b"\n")
        chosen = self._coarse.chosen(remainders)
        if any(_QUOTES.match(remainder) for remainder in chosen) and QUOTED in block:
            yield from self._around(block, self._taken - len(block))
        elif chosen:
            pairs = zip(block.split(b"\n"), remainders, strict=True)
            yield from self._finely([line for line, remainder in pairs if remainder in chosen])

    def _around(self, block: bytes, begin: int) -> Iterator[tuple[bytes, bool]]:
        """Return what is wanted of whole lines, and the lines behind a quotation of NCCL."""
        for line in block.split(b"\n")[:-1]:
            quoted = QUOTED in line
            wanted = quoted or ((begin < HEAD or _may(line.translate(None, _COARSE))) and _fine(line))
            if wanted or self._after:
                yield line, True
            self._after = _AFTER if quoted else max(0, self._after - 1)
            begin += len(line) + 1

    def _finely(self, lines: list[bytes]) -> Iterator[tuple[bytes, bool]]:
        masks = b"\n".join(lines).translate(None, _FINE).split(b"\n")
        chosen = self._fine.chosen(masks)
        if chosen:
            yield from [(line, True) for line, masked in zip(lines, masks, strict=True) if masked in chosen]


def _parts(line: bytes) -> Iterator[tuple[bytes, bool]]:
    """Return the pieces of a line that are wanted, which is one piece of most lines."""
    for at in range(0, max(len(line), 1), LONGEST):
        piece = line[at : at + LONGEST]
        if _fine(piece):
            yield piece, at + LONGEST >= len(line)


def _has_long(block: bytes) -> bool:
    """Say whether a line of a block that ends with a line feed is longer than `LONGEST`."""
    start = 0
    while len(block) - start > LONGEST + 1:
        end = block.rfind(b"\n", start, start + LONGEST + 1)
        if end < 0:
            return True
        start = end + 1
    return False
