"""Classes of errors and warnings in the words of NCCL, RCCL, their plugins, and PyTorch about them.

A class says what failed, not why: causes are told by what else a message says (`remedies`). What belongs to no class
and is not stated to be harmless (`harmless`) is never good news.
"""

import re
from typing import NamedTuple

FOLLOWS = frozenset({
    "watchdog_timeout", "socket_closed", "proxy_failed", "async_error", "nccl_result", "process_ended",
})  # fmt: skip
"""Classes that follow from an error of another rank or layer, where one is seen."""
FATAL = FOLLOWS | {
    "net_init", "ib_completion_error", "ibv_modify_qp", "incompatible_hca", "socket_connect", "shm",
    "bad_socket_ifname", "imex", "mixed_versions", "memory_registration", "verbs_call", "ib_async_fatal",
    "ib_port_error", "ofi_error", "gpu_lost", "gpu_error", "driver_mismatch", "duplicate_gpu", "message_truncated",
    "nvls", "out_of_memory", "plugin_daemon", "daemon_gpus", "bootstrap_mismatch", "last_error",
}  # fmt: skip
"""Classes after which no collective works; the others are reasons or hints."""

KNOWN = (
    "no_ib_device", "no_libibverbs", "ib_open_failed", "ib_disabled_by_env", "plugin_init", "net_init", "gdr_disabled",
    "ib_completion_error", "ibv_modify_qp", "incompatible_hca", "socket_connect", "socket_closed", "shm",
    "mixed_net_count", "bad_socket_ifname", "imex", "hint", "watchdog_timeout", "network_name_mismatch",
    "single_rank_worlds", "mixed_versions", "memory_registration", "verbs_call", "ib_async_fatal", "ib_port_error",
    "ofi_error", "gpu_lost", "gpu_error", "driver_mismatch", "duplicate_gpu", "proxy_failed", "message_truncated",
    "nvls", "out_of_memory", "plugin_daemon", "daemon_gpus", "bootstrap_mismatch", "async_error", "process_ended",
    "nccl_result", "last_error",
)  # fmt: skip
"""All classes."""
PROGRAM = frozenset({"nccl_result", "process_ended"})
"""Classes of what a program says of its own end."""
OTHER_NETWORK = frozenset({"no_ib_device", "no_libibverbs", "plugin_init"})
"""A network did not start and NCCL took the next one, which is judged by its own lines."""


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
_CALL = re.compile(
    r"(?:Call to )?(?P<call>(?:ibv|mlx5dv|rdma|efadv|bnxt\w*|ionic\w*)_\w+)(?:\(\))? "
    r"(?:failed|returned -?[1-9])(?: with)?(?: error)? ?(?:(?P<errno>\d{1,12}) )?(?P<words>[^,]*)"
)
_REGISTERED = re.compile(
    r"ibv_reg\w*mr\w*(?:\(\))? (?:failed|returned)|(?:[Uu]nable|[Ff]ailed) to register (?:\w+ )?(?:memory|buffer|MR)\b"
    r"|fi_mr_reg\w*.*[Ff]ail"
)
_ASYNC = re.compile(
    r"NET/\S+ ?: (?:(?P<hca>[A-Za-z][\w.-]*):\d{1,12} )?(?:async fatal event"
    r"|Got async event ?: ?(?:.*\b(?:fatal|catastrophic|access violation)\b|CQ error))"
)
_PORT = re.compile(
    r"NET/\S+ ?: (?:(?P<hca>[A-Za-z][\w.-]*):\d{1,12} )?Got (?:non-fatal )?async event ?: ?port error"
)
ERRNO = {
    "connection timed out": 110, "operation timed out": 110, "timed out": 110, "no such device": 19,
    "invalid argument": 22, "cannot allocate memory": 12, "operation not permitted": 1, "no such file or directory": 2,
    "network is unreachable": 101, "no route to host": 113, "remote i/o error": 121, "bad address": 14,
    "permission denied": 13, "device or resource busy": 16, "input/output error": 5, "no space left on device": 28,
    "operation not supported": 95, "no data available": 61, "connection refused": 111, "protocol not supported": 93,
}  # fmt: skip
"""Words of the C library -> number."""
_WATCHDOG = re.compile(r"Rank (?P<rank>\d{1,12})\] +Watchdog caught collective operation timeout")
_WATCHDOG_ANY = re.compile(
    r"Watchdog caught collective operation timeout|Timeout at NCCL work: \d"
    r"|Exception \(either an error or timeout\) detected by watchdog"
)
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
_GPU = re.compile(
    r"\b(?:C[Uu][Dd][Aa]|HIP|ROCr) (?:failure|error)\b[:\s]|CUDA_ERROR_(?!\w*NOT_READY)\w+"
    r"|\bcudaError(?!_t\b)[A-Z]\w+|\bhipError(?!_t\b)[A-Z]\w+"
    r"|uncorrectable ECC|illegal memory access|CUDA driver error|device-side assert|NVRM: Xid"
    r"|unspecified launch failure|(?:CUDA|HIP) out of memory|Memory access fault by GPU|HSA_STATUS_ERROR_\w+"
    r"|\bamdgpu\b.*(?:GPU reset(?: begin|\(\d+\))|\bring \S+ timeout|[Uu]ncorrectable hardware error)"
)
_RESULT = re.compile(
    r"nccl(?:SystemError|InternalError|RemoteError|UnhandledCudaError|InvalidUsage|InvalidArgument)\b"
    r"|NCCL error in|NCCL error:|Test NCCL failure|Test timeout|Test failure|DistBackendError"
    r"|operations have failed or timed out|taking the entire process down"
    r"|NCCL watchdog thread terminated|watchdog thread terminated with exception"
    r"|unhandled (?:cuda|system|hip) error|ncclCommGetAsyncError|remote process exited or there was a network error"
)
_ENDED = re.compile(
    r"failed \(exitcode: (?!-15\b)(?P<code>-?\d{1,6})\)|exitcode *: (?!0\b|-15\b)-?\d"
    r"|exited with (?:exit )?code (?P<exit>[1-9]\d{0,5})"
    r"|Segmentation fault|core dumped|Fatal Python error|Out of memory: Killed process|oom-kill"
    r"|Process received signal|terminate called after throwing|Bus error \(|died with <Signals"
    r"|(?:oom_kill|OOM[- ]kill\w*|oom-killer) event|OOM Killed|\bSIG(?:ABRT|BUS|FPE|ILL|KILL|SEGV)\) received by PID"
    r"|: line \d{1,7}: +\d{1,10} (?:Killed|Aborted|Bus error|Illegal instruction|Floating point exception)(?: {2,}\S|$)"
    r"|MPI_ABORT was invoked on rank|processes exited with (?:non-zero|nonzero) status|exits with return code = -?[1-9]"
    r"|\bChildFailedError\b"
    r"|exited on signal|Root Cause \(first observed failure\)|oom_reaper|srun: error: .*(?:Killed|Exited|Aborted)"
)

_TEXTS: tuple[tuple[str, "re.Pattern[str]"], ...] = (
    ("plugin_daemon", re.compile(
        r"[Rr][Xx][Dd][Mm].*(?:[Rr]efused|[Nn]o such file|[Uu]navailable|UNAVAILABLE|[Ff]ail|timed out)"
        r"|NET/(?:FasTrak|GPUDirectTCPX)\S* .*(?:UNAVAILABLE|[Cc]onnect\w*\(\) error|[Rr]efused|rxdm_\w+)"
        r"|(?:UNAVAILABLE|[Rr]efused).*rxdm_\w+")),
    ("daemon_gpus", re.compile(
        r"GPUs detected in the PCI tree \d+ is not equal to|[Nn]umber of (?:GPUs|NICs)\b.*\bis not equal to\b")),
    ("gpu_lost", re.compile(r"GPU is lost|fallen off the bus|GPU (?:has been )?lost|GPU requires (?:a )?reset")),
    ("driver_mismatch", re.compile(
        r"[Dd]river/library version mismatch|CUDA driver version is insufficient|Driver Version found is")),
    ("incompatible_hca", re.compile(
        r"Attempted to (?:connect|merge) incompatible devices|device is incompatible with the local")),
    ("message_truncated", re.compile(r"[Mm]essage truncated")),
    ("socket_closed", re.compile(
        r"Connection closed by remote peer|Connection reset by peer"
        r"|Call to \w+ \w+ \S+ failed : Broken pipe")),
    ("bad_socket_ifname", re.compile(
        r"with family -?\d{1,12} is neither AF_INET|[Nn]o socket interface found|[Nn]o usable listening interface"
        r"|no interface found matching|NET/Socket : no interface found|[Nn]o IP interface found"
        r"|no device found (?:matching|after excluding)|No interface found in the same subnet"
    )),
    ("socket_connect", re.compile(
        r"[Cc]onnect returned .*exceeded error retry count|socket\w*Connect: exceeded retries"
        r"|[Cc]onnect to \S+ failed\b|connect to \S+ returned .*(?:exceeded error retry count"
        r"|after \d{1,12} attempts)"
        r"|[Cc]onnect to \S+ .*exceeded error retry count|PollConnect to \S+ failed"
    )),
    ("shm", re.compile(
        r"[Ee]rror while (?:\w+|attaching to) shared memory segment|failed to extend /dev/shm"
        r"|posix_fallocate failed|failed to (?:open|create) shared memory"
        r"|(?:shm_open|ftruncate|shm_unlink) failed|/dev/shm/nccl-\S+ .*(?:No space left|failed)"
        r"|unable to allocate shared memory|Call to shm_\w+ .*failed"
    )),
    ("imex", re.compile(
        r"MNNVL .*(?:not supported on this system|not working on this system)"
        r"|IMEX (?:channel|configuration|daemon|domain)|nvidia-imex")),
    ("duplicate_gpu", re.compile(r"Duplicate GPU detected|Multiple Ranks are using the same GPU")),
    ("mixed_versions", re.compile(
        r"Mismatched NCCL version|NCCL version mismatch|library is too old|library is not backwards compatible"
        r"|compiled with too old version of NCCL|version mismatch \(Magic")),
    ("bootstrap_mismatch", re.compile(r"Bootstrap Root : (?:mismatch|rank \d+ of \d+ ranks has already)")),
    ("nvls", re.compile(
        r"Failed to (?:bind|create|add|map|allocate|import)\b.*(?:NVLink SHARP|NVLS|[Mm]ulticast)"
        r"|\bNVLS\b[^,;]{0,80}(?:cannot|[Ff]ailed|[Ee]rror)|cuMulticast\w+\b.*(?:[Ff]ail|[Ee]rror)")),
    ("out_of_memory", re.compile(
        r"Failed to (?:CUDA|HIP) \w+(?: \w+)? -?\d+ bytes|Failed to malloc|malloc\(size=\d+\) returned null"
        r"|(?:[Cc]uda|CUDA|HIP) failure (?:2 )?'out of memory'|(?:CUDA|HIP) (?:error: )?out of memory")),
    ("ofi_error", re.compile(
        r"NET/OFI .*(?:completed with error|fi_cq_readerr|CQ error|Error polling)")),
    ("proxy_failed", re.compile(
        r"Failed to execute operation \w+ from rank|\[(?:Proxy|Service)[^\]]{0,40}\] .*"
        r"(?:[Ff]ail|[Ee]rror|Could not|Too many)|ncclProxy\w+ call to .*failed|UDS: .*failed")),
    ("async_error", re.compile(
        r"communicator encountered a fatal error|ncclCommSetAsyncError: error comm|is in abort state"
        r"|ncclAsyncJobComplete: job \S+ failed|in (?:destroy/)?abort, error")),
    ("mixed_net_count", re.compile(r"Detected mixed local (?:Net|CollNet) device counts")),
    ("net_init", re.compile(r"Failed to initialize any NET plugin|Error: network .{1,80} not found")),
    ("no_ib_device", re.compile(r"NET/\S+ ?: No device found")),
    ("no_libibverbs", re.compile(r"(?:Failed to open|Could not open|Count not open) libibverbs")),
    ("ib_open_failed", re.compile(r"NET/\S+ ?: Unable to (?:open|query) (?:device|port)")),
    ("gdr_disabled", re.compile(r"GDRDMA not enabled")),
    ("hint", re.compile(r"HINT: ")),
    ("plugin_init", _OFI_INIT),
    ("plugin_init", _PLUGIN_INIT),
)  # fmt: skip
_ONLY_LOUD = frozenset({"imex", "proxy_failed", "async_error", "ofi_error", "plugin_daemon", "nvls"})
"""Classes whose words an INFO record may have without anything being wrong."""


_SIGNS = (
    "ompletion", "ibv_", "incompatible", "onnect", "Call to", "AF_INET", "interface", "shared memory", "dev/shm",
    "failed", "ailed to", "MNNVL", "IMEX", "imex", "mixed local", "not found", "No device", "libibverbs", "Unable to",
    "GDRDMA not", "HINT", "NET/OFI", "dlerror", "undefined symbol", "lost", "truncated", "ersion mismatch", "event",
)  # fmt: skip
"""Words of which one stands in every text of a class; an INFO record without them is none."""


_ODD = re.compile(
    r"async(?:hronous)? (?:\w+ )?event|\bflap|catastrophic|corrupt|\bdegraded\b|\bhung\b|\bstuck\b"
    r"|\b(?:is|went|goes) down\b|\buncorrectable\b|\bCRC\b|symbol error|\bpackets? (?:loss|lost|dropped)"
    r"|\b(?:link|port|rail|lane)\b[^,;]{0,40}\b(?:down|lost|errors?|failed|inactive|disabled)\b"
    r"|\btimed out\b|\bunreachable\b|\bNVLS\b[^,;]{0,60}\bfailed\b",
    re.IGNORECASE,
)
"""Words of trouble that an INFO record has for no harmless reason but those that are listed."""


_LINK = re.compile(
    r"\b(?:mlx[45]_\w+|bnxt_\w+|ionic|irdma|ice|i40e|efa|ib\d+|NVLink)\b.*"
    r"(?:\b[Ll]ink (?:is )?(?:[Dd]own|DOWN)|[Cc]able error|[Cc]able unplugged|module event\[error\]|\bdown\b)"
)
"""How kernels say that a link went down; a log may have such lines beside those of programs."""


def link(text: str) -> bool:
    """Say whether a line that is no record of NCCL tells of a link that went down."""
    return _LINK.search(text) is not None


def odd(text: str) -> bool:
    """Say whether an INFO record of no known class tells of trouble: an adapter's event, a link that comes and goes."""
    return _ODD.search(text) is not None and "retry" not in text


def of(text: str, level: str = "") -> Fault | None:
    """Return what a message says went wrong, if it says so in words of a known class.

    Args:
        text: a message, or a line without a record of NCCL.
        level: level of the message; "" for a line without one.
    """
    if level == "INFO" and not any(word in text for word in _SIGNS):
        return None
    verbs = _verbs(text)
    if verbs is not None:
        return verbs
    if "retrying" in text and level == "INFO":
        return None
    for kind, shape in _TEXTS:
        if level == "INFO" and kind in _ONLY_LOUD:
            continue
        if shape.search(text):
            return Fault(kind, text)
    if level != "INFO":
        if _GPU.search(text):
            return Fault("gpu_error", text)
        if not level and _RESULT.search(text):
            return Fault("nccl_result", text)
        if not level and _ENDED.search(text):
            return Fault("process_ended", text)
    return None


def _verbs(text: str) -> Fault | None:
    """Return what a message says of a call of the verbs library, or of an event of an adapter."""
    if "Got completion" in text:
        for shape in _STATUS:
            match = shape.search(text)
            if match:
                hca = _HCA_AT_END.search(text, match.end())
                name, peer = hca["hca"] if hca else "", match["peer"] or ""
                return Fault("ib_completion_error", text, int(match["status"]), name, peer)
    if "ibv_modify_qp" in text:
        match = _MODIFY.search(text)
        if match:
            words = (match["text"] or match["words"] or "").strip()
            number = int(match["errno"]) if match["errno"] else ERRNO.get(words.lower(), -1)
            return Fault("ibv_modify_qp", text, number, match["hca"] or "")
    if "event" in text:
        for kind, shape in (("ib_async_fatal", _ASYNC), ("ib_port_error", _PORT)):
            match = shape.search(text)
            if match:
                return Fault(kind, text, hca=match["hca"] or "")
    call = _CALL.search(text) if "_" in text else None
    if _REGISTERED.search(text):
        return Fault("memory_registration", text, _number(call))
    return Fault("verbs_call", text, _number(call)) if call else None


def _number(call: "re.Match[str] | None") -> int:
    """Return the errno of a call that failed, -1 where it does not tell one."""
    if call is None:
        return -1
    return int(call["errno"]) if call["errno"] else ERRNO.get(call["words"].strip().lower(), -1)


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
        return Fault("watchdog_timeout", text, rank=rank), stall
    if _DUMP.search(text) or _HEARTBEAT.search(text):
        return Fault("watchdog_timeout", text), None
    return None


def last_work(text: str) -> tuple[int, int] | None:
    """Return numbers of the last enqueued and the last completed work of a rank."""
    match = _LAST.search(text)
    return (int(match["enqueued"]), int(match["completed"])) if match else None


def outcome(text: str) -> str | None:
    """Return the words by which a program says that NCCL or a GPU failed it."""
    match = _RESULT.search(text) or _GPU.search(text)
    return text[max(0, match.start() - 40) : match.end() + 80].strip() if match else None
