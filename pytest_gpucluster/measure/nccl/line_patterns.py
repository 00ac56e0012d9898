"""Shapes of the lines that say what a rank is, what connects it and what it was told, of all versions read.

Each function reads one message and returns None where it is of another shape or is cut.
"""

import re
from typing import NamedTuple

NET = "NET"
COLLNET = "COLLNET"
INTRA = "INTRA"

_HEAD = r"(?:Channel|Ring|Coll|CollNet) (?P<channel>\d{1,12})(?:/(?P<index>\d{1,12}))? : "
_FROM_TO = r"(?P<left>\d{1,7})(?:\[[0-9a-fx]+\])? -> (?P<right>\d{1,7})(?:\[[0-9a-fx]+\])? "
_NET = (
    r"NET/(?P<net>[A-Za-z][\w.;+ -]{0,79}?)/(?P<device>\d{1,5})(?P<proxy>\(\d{1,12}\))?"
    r"(?P<gdr>/GDRDMA(?:\([^()]{0,40}\))?)?(?:/Shared)?"
)
_COLLNET = (
    r"COLLNET/(?P<coll>[A-Za-z][\w.;+ -]{0,79}?)/(?P<colldev>\d{1,5})"
    r"(?P<collgdr>/GDRDMA(?:\([^()]{0,40}\))?)?(?:/Shared)?"
)
_P2P = (
    r"(?P<p2p>P2P/(?:IPC|CUMEM|MNNVL|direct pointer|indirect))"
    r"(?:/\d{1,12}\[[0-9a-fx]+\])?(?:\[[^\]]*\])?(?:/read)?(?:/CE)?"
)
_SHM = r"(?P<shm>SHM(?:/(?:direct|CE)){1,2}|direct shared memory)"
_CHANNEL = re.compile(
    rf"{_HEAD}(?:{_FROM_TO}(?:\[(?P<way>send|receive)\] )?via (?:{_NET}|{_P2P}|{_SHM})"
    rf"|(?P<one>\d{{1,7}})(?:\[[0-9a-fx]+\])? \[(?P<collway>send|receive)\] via {_COLLNET})"
)
_RCCL_TAIL = re.compile(r" comm (?P<comm>0x[0-9a-f]+) n[rR]anks 0*(?P<nranks>\d{1,12})(?: busId [0-9a-f]+)?$")
_RING_DUMP = re.compile(
    r"(?:Channel|Ring|CollNet|Coll) \d{1,12}(?:/\d{1,12})? :\s+-?\d{1,12}(?:(?:\s+->)?\s+-?\d{1,12})*$"
)
"""`Channel 00/24 : 0 1 2 3`, and `Ring 00 : 3 -> 0 -> 1`: a rank between its neighbours."""
_CHANNEL_START = re.compile(
    r"(?i:(?:Channel|Ring|Coll|CollNet) \d{1,12}(?:/\d{1,12})? ?(?::|$))|C(?:h(?:a(?:n(?:n(?:el?)?)?)?)?)?$"
)


class Channel(NamedTuple):
    """One connection of a rank in one direction."""

    kind: str
    """NET, COLLNET or INTRA."""
    name: str
    """Network, or path inside a node."""
    rank: int
    """Rank that printed it."""
    peer: int
    """-1 for the in-network reduction."""
    way: str
    """send, receive; "" inside a node."""
    device: int
    gdr: bool
    proxied: bool
    comm: str
    nranks: int


def end_of_channel(text: str) -> int | None:
    """Return where a connection line ends that begins a text; None where none does."""
    match = _CHANNEL.match(text)
    return match.end() if match else None


def rccl_tail(text: str) -> tuple[str, str, int]:
    """Return a message without the communicator that RCCL puts at the end, that communicator and its ranks."""
    match = _RCCL_TAIL.search(text)
    return (text[: match.start()], match["comm"], int(match["nranks"])) if match else (text, "", 0)


def channel(text: str, *, clean: bool) -> Channel | None:
    """Read a connection line.

    A line that something else was glued to, or that has not ended, may lack its tail: without the sign of GPUDirect
    it is no evidence that there is none.
    """
    text, comm, nranks = rccl_tail(text)
    match = _CHANNEL.match(text)
    if match is None:
        return None
    whole = clean or bool(comm)
    if text[match.end() :].strip():
        if not text[match.end()].isspace():
            return None
        whole = False
    if match["coll"] is not None:
        found = Channel(
            kind=COLLNET,
            name=match["coll"],
            rank=int(match["one"]),
            peer=-1,
            way=match["collway"],
            device=int(match["colldev"]),
            gdr=match["collgdr"] is not None,
            proxied=False,
            comm=comm,
            nranks=nranks,
        )
        return found if whole or found.gdr else None
    left, right, way = int(match["left"]), int(match["right"]), match["way"]
    if match["net"] is None:
        path = match["p2p"] or "SHM"
        inside = Channel(
            INTRA, path, left, right, "", device=-1, gdr=False, proxied=False, comm=comm, nranks=nranks
        )
        return inside if way is None else None
    if way is None:
        return None
    found = Channel(
        kind=NET,
        name=match["net"],
        rank=right if way == "receive" else left,
        peer=left if way == "receive" else right,
        way=way,
        device=int(match["device"]),
        gdr=match["gdr"] is not None,
        proxied=match["proxy"] is not None,
        comm=comm,
        nranks=nranks,
    )
    return found if whole or found.gdr or found.name == "Socket" else None


def is_ring_dump(text: str) -> bool:
    """Say whether a line lists the order of a ring: it looks like a connection and is none."""
    return _RING_DUMP.match(rccl_tail(text)[0]) is not None


def looks_like_channel(text: str) -> bool:
    """Say whether a message begins as a connection line does."""
    return _CHANNEL_START.match(text) is not None


class Comm(NamedTuple):
    """One line about a communicator."""

    comm: str
    rank: int
    nranks: int
    unique: str
    """commId; "" where the line has none."""
    function: str
    phase: str
    """START, COMPLETE, DESTROY, ABORT or NODES."""
    split: bool
    nodes: int
    mnnvl: int
    """-1 where the line does not say."""
    local: int
    """Ranks of the same node as NCCL counts them; 0 where the line does not say."""


_COMM = re.compile(
    r"(?:\[Rank \d{1,12}\] )?(?:(?P<function>nccl\w+) )?comm (?P<comm>0x[0-9a-f]+|\(nil\)) (?P<middle>.{0,300}?)"
    r"rank (?P<rank>\d{1,7}) n[rR]anks 0*(?P<nranks>\d{1,7}) (?P<rest>.*)$"
)
_PHASE = re.compile(
    r"(?P<tail>.*?) ?- +(?:(?P<init>Init) (?P<phase>START|COMPLETE)|(?P<end>Destroy|Abort) COMPLETE)$"
)
_NODES = re.compile(
    r"nNodes (?P<nodes>\d{1,12}) localRanks (?P<local>\d{1,12}) localRank \d{1,12}(?: MNNVL (?P<mnnvl>\d))?$"
)
_UNIQUE = re.compile(r"commId (0x[0-9a-f]+)")
_TIMINGS = re.compile(
    r"Init timings(?::| -) (?:nccl\w+: )?rank (?P<rank>\d{1,7}) nranks (?P<nranks>\d{1,7}) total"
)


def comm(text: str) -> Comm | None:
    """Read a line about a communicator to its end."""
    match = _COMM.match(text)
    if match is None:
        return None
    function = match["function"] or ""
    everything = match["middle"] + match["rest"]
    split = "Split" in function or "Shrink" in function or "parent 0x" in everything
    rank, nranks = int(match["rank"]), int(match["nranks"])
    nodes = _NODES.match(match["rest"])
    if nodes:
        mnnvl = int(nodes["mnnvl"]) if nodes["mnnvl"] is not None else -1
        return Comm(
            match["comm"], rank, nranks, "", function, "NODES", split, int(nodes["nodes"]), mnnvl, int(nodes["local"])
        )  # fmt: skip
    phase = _PHASE.match(match["rest"])
    if phase is None:
        return None
    unique = _UNIQUE.search(everything)
    name = phase["phase"] or phase["end"].upper()
    return Comm(match["comm"], rank, nranks, unique[1] if unique else "", function, name, split, 0, -1, 0)


def timings(text: str) -> tuple[int, int] | None:
    """Return rank and nranks of the line about the time that the set-up took."""
    match = _TIMINGS.match(text)
    return (int(match["rank"]), int(match["nranks"])) if match else None


def looks_like_comm(text: str) -> bool:
    """Say whether a message begins as a line about a communicator does."""
    return re.match(r"(?:\[Rank \d{1,12}\] )?(?:nccl\w+ )?comm 0x", text) is not None


_USING_NETWORK = re.compile(
    r"(?:Using network (?P<net>.{1,80}?)|Assigned NET plugin (?P<assigned>.{1,80}?) to comm)\s*$"
)
_USING_LIST = re.compile(r"NET/(?P<net>[^/:]{1,60}?) ?: Using (?P<list>.*)$")
_BARE_LIST = re.compile(r"Using (?P<list>\[\d{1,12}\].*)$")
_VIRTUAL = re.compile(r"NET/\S+ ?: Made virtual device \[(?P<index>\d{1,12})\] name=(?P<name>\S+)")
_PORT = r"(?P<hca>[\w.-]+?):\d{1,12}(?::[^/\s,\]}]*)?/(?P<link>IB|RoCE)(?:/SHARP)?(?![A-Za-z])"
_ENTRY = re.compile(rf"\[(?P<index>\d{{1,12}})\](?:=\{{(?P<merged>[^{{}}]*)\}}|\s?{_PORT})")
_INNER = re.compile(rf"\[\d{{1,12}}\]\s?{_PORT}")


class Hca(NamedTuple):
    """One host channel adapter of a list."""

    slot: int
    name: str
    link: str


def selected(text: str) -> str | None:
    """Return the network that a process would use, if this line says so."""
    match = _USING_NETWORK.match(text)
    return (match["net"] or match["assigned"]).strip() if match else None


def using_list(text: str) -> tuple[str, tuple[Hca, ...]] | None:
    """Return the network and the adapters that a line lists; without what was cut at its end."""
    match = _USING_LIST.match(text) or _BARE_LIST.match(text)
    if match is None:
        return None
    found: list[Hca] = []
    for entry in _ENTRY.finditer(match["list"].partition("; OOB")[0]):
        index = int(entry["index"])
        if entry["merged"] is not None:
            found += [Hca(index, inner["hca"], inner["link"]) for inner in _INNER.finditer(entry["merged"])]
        else:
            found.append(Hca(index, entry["hca"], entry["link"]))
    return match.groupdict().get("net") or "", tuple(found)


def virtual(text: str) -> tuple[int, tuple[str, ...]] | None:
    """Return index and adapters of a device made of several ports."""
    match = _VIRTUAL.match(text)
    return (int(match["index"]), tuple(match["name"].split("+"))) if match else None


_SET = re.compile(r"(?P<name>[A-Z][A-Z0-9_]{2,60}) set by environment to ?(?P<value>.*?)\.?$")
_HCA_SET = re.compile(r"NCCL_IB_HCA set to (?P<value>.*?)\.?$")


def setting(text: str) -> tuple[str, str] | None:
    """Return a setting that comes from the environment or a configuration file."""
    match = _SET.match(text)
    if match:
        return match["name"], match["value"]
    match = _HCA_SET.match(text)
    return ("NCCL_IB_HCA", match["value"]) if match else None


_PROVIDER = re.compile(r"NET/OFI .*?[Ss]elected [Pp]rovider is (?P<provider>[\w;-]+)")
_VERSION = re.compile(r"\b(?P<product>NCCL|RCCL) version ?:? ?(?P<version>\d{1,12}\.\d{1,12}(?:\.\d{1,12})?)")
_LIBRARY = re.compile(r"nccl-library=(?P<code>\d{4,6})")
_ADAPTER_GDR = re.compile(
    r"NET/[^:]{1,60}: GPU Direct RDMA (?P<word>Enabled|Disabled) for HCA (?P<index>\d{1,12})(?: '(?P<hca>[^']*)')?"
)
_PAIR_GDR = re.compile(
    r"GPU Direct RDMA (?P<word>Enabled|Disabled) for GPU (?P<gpu>\w+) / HCA (?P<hca>\w+) \(distance "
    r"(?P<distance>[^)]*)\)"
)
_QP_MTU = re.compile(r"\bmtu (?P<code>[1-5])\b")
_MTU = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
_NVLS_USED = re.compile(r"NVLS comm 0x[0-9a-f]+ headRank|Connected NVLS tree")
_MNNVL_IN_USE = re.compile(r"MNNVL 1 cliqueId \S+ cliqueSize \d{1,12}")


def provider(text: str) -> str | None:
    """Return the libfabric provider that a line says was chosen."""
    match = _PROVIDER.match(text)
    return match["provider"] if match else None


def version(text: str) -> tuple[str, str] | None:
    """Return product and version."""
    match = _VERSION.search(text)
    if match:
        return match["product"], match["version"]
    match = _LIBRARY.search(text)
    if match:
        code = int(match["code"])
        major, rest = divmod(code, 10_000) if code >= 10_000 else divmod(code, 1_000)
        minor, patch = divmod(rest, 100)
        return "NCCL", f"{major}.{minor}.{patch}"
    return None


def adapter_gdr(text: str) -> tuple[bool, str] | None:
    """Return whether an adapter can do GPUDirect RDMA, and which; ability is no use."""
    match = _ADAPTER_GDR.match(text)
    return (match["word"] == "Enabled", match["hca"] or match["index"]) if match else None


def pair_gdr(text: str) -> tuple[bool, str] | None:
    """Return whether a GPU and an adapter are near enough, and the words that say how far."""
    match = _PAIR_GDR.match(text)
    if match is None:
        return None
    return match[
        "word"
    ] == "Enabled", f"GPU {match['gpu']} / HCA {match['hca']}: distance {match['distance']}"


def rdma_mtu(text: str) -> int | None:
    """Return the path MTU in bytes of the line about a queue pair, which states it as a code."""
    if "qpn" not in text:
        return None
    match = _QP_MTU.search(text)
    return _MTU[int(match["code"])] if match else None


def nvls(text: str) -> str | None:
    """Return whether NVLink SHARP is used or only available."""
    if _NVLS_USED.match(text):
        return "used"
    return "available" if text.startswith("NVLS multicast support is available") else None


def mnnvl_in_use(text: str) -> bool:
    """Say whether a line shows that machines are joined by NVLink."""
    return _MNNVL_IN_USE.match(text) is not None
