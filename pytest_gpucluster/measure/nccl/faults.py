"""Classes of errors and warnings in NCCL's words and in those of PyTorch about NCCL."""

import re
from typing import NamedTuple

FATAL = frozenset({
    "net_init", "ib_completion_error", "ibv_modify_qp", "incompatible_hca", "socket_connect", "socket_closed", "shm",
    "bad_socket_ifname", "imex", "watchdog_timeout", "mixed_versions",
})  # fmt: skip
"""Classes after which no collective works; the others are reasons or hints."""

KNOWN = (
    "no_ib_device", "no_libibverbs", "ib_open_failed", "ib_disabled_by_env", "plugin_init", "net_init", "gdr_disabled",
    "ib_completion_error", "ibv_modify_qp", "incompatible_hca", "socket_connect", "socket_closed", "shm",
    "mixed_net_count", "bad_socket_ifname", "imex", "hint", "watchdog_timeout", "network_name_mismatch",
    "single_rank_worlds", "mixed_versions",
)  # fmt: skip
"""All classes."""


class Fault(NamedTuple):
    """One error or warning."""

    kind: str
    detail: str = ""
    status: int = -1
    """Status of a work completion, or errno."""
    hca: str = ""
    peer: str = ""
    rank: int = -1


_STATUS = (
    re.compile(
        r"Got completion (?:from peer (?P<peer>\S+) )?with (?:error|status[=:]?) ?(?P<status>\d{1,12})"
    ),
    re.compile(
        r"Got completion (?:from peer (?P<peer>\S+) )?with (?:error|status)[= ]?\s?\w+ ?\((?P<status>\d{1,12})\)"
    ),
)
_HCA_AT_END = re.compile(r"\bhca (?P<hca>[\w.-]+)")
_MODIFY = re.compile(
    r"Call to ibv_modify_qp failed with (?:error (?P<text>[^,]*)"
    r"|(?P<errno>\d{1,12}) (?P<words>[^,]*))(?:,.*?on dev (?P<hca>[\w.-]+?):\d{1,12})?"
)
_ERRNO = {
    "connection timed out": 110, "operation timed out": 110, "timed out": 110, "no such device": 19,
    "invalid argument": 22, "cannot allocate memory": 12, "operation not permitted": 1, "no such file or directory": 2,
    "network is unreachable": 101, "no route to host": 113, "remote i/o error": 121, "bad address": 14,
}  # fmt: skip
_WATCHDOG = re.compile(r"Rank (?P<rank>\d{1,12})\] +Watchdog caught collective operation timeout")
_WATCHDOG_ANY = re.compile(r"Watchdog caught collective operation timeout")
_DUMP = re.compile(r"dump signal due to a collective timeout|due to a collective timeout from +rank \d{1,12}")
_HEARTBEAT = re.compile(r"watchdog got stuck for \d{1,12}|Heartbeat monitor timed out", re.IGNORECASE)
_WORK = re.compile(
    r"SeqNum=(?P<seq>\d{1,12}), OpType=(?P<op>\w+).*?"
    r"Timeout\(ms\)=(?P<limit>\d{1,12})\) ran for (?P<ran>\d{1,12}) milliseconds"
)
_LAST = re.compile(
    r"last enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,12}), last completed (?:NCCL )?work: (?P<completed>-?\d{1,12})",
    re.IGNORECASE,
)
_OFI_INIT = re.compile(
    r"NET/OFI .*(?:[Oo]nly \S+ provider|[Cc]ould not find any|[Nn]o eligible|[Nn]o (?:suitable|usable"
    r"|matching) (?:provider|device|nic)"
    r"|not find any (?:device|provider|nic)|[Ff]ailed to (?:initiali[sz]e|find|load)"
    r"|[Ii]nitiali[sz]ation failed|fi_getinfo)"
)
_PLUGIN_INIT = re.compile(
    r"Failed to initialize (?:external )?(?:network|NET) plugin (?!(?:IB|Socket)\b)\S"
    r"|NET/Plugin ?:? .*(?:Failed to (?:load|open)|Unable to (?:load|open)|[Ii]nit(?:iali[sz]ation)? failed"
    r"|undefined symbol)"
    r"|NET/Plugin ?:? .*?dlerror=(?!lib\w*nccl-net[\w.-]*\.so)\S+\.so[\w.]*: cannot open"
)
_OUTCOME = re.compile(
    r"nccl(?:SystemError|InternalError|RemoteError|UnhandledCudaError|InvalidUsage|InvalidArgument)\b"
    r"|NCCL error in"
    r"|Test (?:NCCL|CUDA) failure|Test timeout|CUDA error: |Cuda failure|uncorrectable ECC"
    r"|illegal memory access"
    r"|fallen off the bus"
)

_TEXTS: tuple[tuple[str, "re.Pattern[str]"], ...] = (
    ("incompatible_hca", re.compile(r"Attempted to connect incompatible devices")),
    ("socket_closed", re.compile(
        r"Connection closed by remote peer|Connection reset by peer"
        r"|Call to \w+ \w+ \S+ failed : Broken pipe")),
    ("bad_socket_ifname", re.compile(
        r"with family -?\d{1,12} is neither AF_INET|[Nn]o socket interface found|[Nn]o usable listening interface"
        r"|no interface found matching"
    )),
    ("socket_connect", re.compile(
        r"[Cc]onnect to \S+ failed\b|connect to \S+ returned .*(?:exceeded error retry count"
        r"|after \d{1,12} attempts)"
        r"|[Cc]onnect to \S+ .*exceeded error retry count"
    )),
    ("shm", re.compile(
        r"[Ee]rror while (?:creating|attaching to) shared memory segment|failed to extend /dev/shm"
        r"|posix_fallocate failed"
        r"|(?:shm_open|ftruncate|shm_unlink) failed|/dev/shm/nccl-\S+ .*(?:No space left|failed)"
        r"|unable to allocate shared memory"
    )),
    ("imex", re.compile(
        r"MNNVL .*(?:not supported on this system|not working on this system)"
        r"|IMEX (?:channel|configuration|daemon|domain)|nvidia-imex")),
    ("mixed_net_count", re.compile(r"Detected mixed local Net device counts")),
    ("net_init", re.compile(r"Failed to initialize any NET plugin|Error: network .{1,80} not found")),
    ("no_ib_device", re.compile(r"NET/\S+ ?: No device found")),
    ("no_libibverbs", re.compile(r"(?:Failed to open|Could not open|Count not open) libibverbs")),
    ("ib_open_failed", re.compile(r"NET/\S+ ?: Unable to open device")),
    ("gdr_disabled", re.compile(r"GDRDMA not enabled")),
    ("hint", re.compile(r"HINT: ")),
    ("plugin_init", _OFI_INIT),
    ("plugin_init", _PLUGIN_INIT),
)  # fmt: skip


_SIGNS = (
    "ompletion", "ibv_", "incompatible", "onnect", "Call to", "AF_INET", "interface", "shared memory", "dev/shm",
    "failed", "ailed to", "MNNVL", "IMEX", "imex", "mixed local", "not found", "No device", "libibverbs", "Unable to",
    "GDRDMA not", "HINT", "NET/OFI", "dlerror", "undefined symbol",
)  # fmt: skip
"""Words of which one stands in every text of a class; an INFO record without them is none."""


def of(text: str, level: str = "") -> Fault | None:
    """Return what a message says went wrong, if it says so in words of a known class.

    Args:
        text: a message, or a line without a record of NCCL.
        level: level of the message; "" for a line without one.
    """
    if level == "INFO" and not any(word in text for word in _SIGNS):
        return None
    if "Got completion" in text:
        for shape in _STATUS:
            match = shape.search(text)
            if match:
                hca = _HCA_AT_END.search(text, match.end())
                name, peer = hca["hca"] if hca else "", match["peer"] or ""
                return Fault("ib_completion_error", text[:200], int(match["status"]), name, peer)
    if "ibv_modify_qp" in text:
        match = _MODIFY.search(text)
        if match:
            words = (match["text"] or match["words"] or "").strip()
            number = int(match["errno"]) if match["errno"] else _ERRNO.get(words.lower(), -1)
            return Fault("ibv_modify_qp", text[:200], number, match["hca"] or "")
    if "retrying" in text and level == "INFO":
        return None
    for kind, shape in _TEXTS:
        if kind == "imex" and level == "INFO":
            continue
        if shape.search(text):
            return Fault(kind, text[:200])
    return None


class Stall(NamedTuple):
    """A collective that did not end, in the words of PyTorch."""

    rank: int
    operation: str
    sequence: int
    ran: float
    """Seconds."""
    completed: int
    """Number of the last work that ended; -1 for none; -2 where it is not said."""


def watchdog(text: str) -> tuple[Fault, Stall | None] | None:
    """Read a line of PyTorch's watchdog or flight recorder."""
    match = _WATCHDOG.search(text)
    if match or _WATCHDOG_ANY.search(text):
        rank = int(match["rank"]) if match else -1
        work = _WORK.search(text)
        stall = Stall(rank, work["op"], int(work["seq"]), int(work["ran"]) / 1000, -2) if work else None
        return Fault("watchdog_timeout", text[:300], rank=rank), stall
    if _DUMP.search(text) or _HEARTBEAT.search(text):
        return Fault("watchdog_timeout", text[:300]), None
    return None


def last_work(text: str) -> tuple[int, int] | None:
    """Return numbers of the last enqueued and the last completed work of a rank."""
    match = _LAST.search(text)
    return (int(match["enqueued"]), int(match["completed"])) if match else None


def outcome(text: str) -> str | None:
    """Return the words by which a program says that NCCL or a GPU failed it."""
    match = _OUTCOME.search(text)
    return text[max(0, match.start() - 40) : match.end() + 80].strip() if match else None
