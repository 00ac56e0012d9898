"""What NCCL and RCCL say of themselves: reports of their active diagnostics and of their RAS diagnostics.

Both exist from NCCL 2.31 on (`NCCL_RUN_DIAGNOSTICS`, `NCCL_RUN_RAS_DIAGNOSTICS`) and are printed to standard output,
whatever NCCL_DEBUG says: `HOST:PID NCCL DIAG [OK]   p2p: ...`. Their tags are OK and INFO alone, nothing in them fails
a job, and what was not tested is not mentioned. Failed edges may be told by another process than the summary. The
shapes are those of NCCL's own source, of 2.31 and of what came after it.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator

NEAR = 0.7
"""Share of the median below which the check of the network names a rank."""
SINCE = (2, 31)
"""First version of NCCL, and of RCCL, that has them."""
MARK = "NCCL DIAG"
OWN = frozenset({"NCCL_DEBUG_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE"})
"""Variables that are meant to differ between processes: each writes a file of its own."""
ALWAYS = ("GPU inventory", "driver version", "ECC", "NCCL environment")
"""Checks of RAS that print a line on every system; that of the links does so if there are some."""

_LINE = re.compile(r"(?P<host>[\w.-]+):(?P<pid>\d+) NCCL DIAG (?P<text>.*?)(?=[\w.-]+:\d+ NCCL DIAG |$)")
_TAGGED = re.compile(r"\[(?P<tag>OK|INFO)\] +(?P<text>.*)$")
_HEADER = re.compile(r"=== (?P<what>RAS|NCCL) Diagnostics ===\s*$")
_DONE = re.compile(
    r"(?P<what>RAS|NCCL) diagnostics completed in [\d.]+ ms across (?P<ranks>\d+) (?:ranks|RAS peers)\s*$"
)
_SKIPPED = r"(?: \(skipped indirect=(?P<skipped>\d+)\))?\s*$"
_ALL = re.compile(
    rf"p2p: (?:all (?P<a>\d+) directed GPU P2P edges verified"
    rf"|verified P2P access in both directions between every GPU pair \((?P<b>\d+) peer accesses\)){_SKIPPED}"
)
_PART = re.compile(
    rf"p2p: (?:only )?(?P<passed>\d+)/(?P<tested>\d+) (?:directed GPU P2P edges verified"
    rf"|GPU-to-GPU peer accesses passed verification){_SKIPPED}"
)
_EDGE = re.compile(
    r"p2p: (?P<kind>[^=;]+?) srcRank=(?P<src>\d+) .*?dstRank=(?P<dst>\d+) .*?path=(?P<path>\S+)"
    r"(?: handle=(?P<handle>\S+))?"
)
_NOTICE = re.compile(r"p2p: temporarily enabled context-wide \S+ peer access ")
_BANDWIDTH = re.compile(
    r"net bw: (?P<least>\d+(?:\.\d+)?)/(?P<median>\d+(?:\.\d+)?)/(?P<most>\d+(?:\.\d+)?) Gbit/s min/median/max "
    r"(?P<mode>\S+) bw "
    r"\(across (?P<ranks>\d+) ranks\) in comm "
)
_OUTLIER = re.compile(
    r"net bw: (?P<mode>\S+) rank (?P<rank>\d+) \((?P<host>[^)]*)\): (?P<rate>[\d.]+) Gbit/s, >30% off median "
    r"(?P<median>[\d.]+) Gbit/s"
)
_CHECK = re.compile(r"(?P<label>[A-Za-z][\w -]*): (?P<text>.*)$")
_ACROSS = re.compile(r"across (?:(?P<part>\d+) of )?(?P<ranks>\d+) ranks in comm (?P<comm>0x[0-9a-f]+)")
_VALUE = re.compile(r"(?P<name>NCCL_\w+)=.* on rank\(s\) \{")
_MISMATCH = re.compile(
    r"mismatch across (?P<ranks>\d+) ranks in comm (?P<comm>0x[0-9a-f]+) for (?P<name>NCCL_\w+)"
)
_DIFFER = re.compile(r"(?P<count>\d+) NCCL_\* env var\(s\) differ across ranks in comm ")
_BAD = (
    "uncorrected volatile errors on rank(s)",
    "at or above threshold",
    "inactive link(s)",
    "mismatch across",
)
"""Words of what a check of RAS found wrong."""


@dataclasses.dataclass(frozen=True)
class Edges:
    """A summary of the check of peer-to-peer paths: directed pairs of GPUs.

    Attributes:
        tested: pairs that NCCL tried.
        passed: pairs whose data arrived in both ways.
        skipped: pairs that only reach each other through a third GPU, which nobody tries.
    """

    tested: int
    passed: int
    skipped: int = 0


@dataclasses.dataclass(frozen=True)
class Active:
    """A report of the active diagnostics of one communicator.

    Attributes:
        process: who printed it: host and process.
        edges: the summary of peer-to-peer paths; None if it has none, so that nothing was tried.
        ranks: ranks of the communicator; None if the report has no end.
    """

    process: str
    edges: Edges | None
    ranks: int | None


@dataclasses.dataclass(frozen=True)
class Check:
    """A line of the RAS diagnostics.

    Attributes:
        label: what was compared, such as ECC.
        ok: whether its tag is OK.
        text: what it says.
        ranks: ranks that it speaks of; None if it does not say.
        partial: whether it has the data of some ranks only.
    """

    label: str
    ok: bool
    text: str
    ranks: int | None
    partial: bool

    @property
    def bad(self) -> bool:
        """Report whether something wrong was found."""
        return not self.ok and any(word in self.text for word in _BAD)


@dataclasses.dataclass(frozen=True)
class Diagnostics:
    """All that was said.

    Attributes:
        active: reports of the active diagnostics.
        edges: failed edges, each in one text.
        stopped: what says that a check itself did not run to its end.
        bandwidths: (mode, ranks, median in Gbit/s) of the network check.
        contradictions: figures of the network check that cannot be, or that its own lines contradict.
        outliers: ranks that the network check found off the median.
        untested: what says that the network was not measured.
        checks: lines of RAS.
        ras_begun: reports of RAS that were begun.
        ras_ended: ranks, or processes, of those that came to their end.
        differing: variables of NCCL that differ between ranks, without those that must.
        strange: lines that nobody understands.
    """

    active: tuple[Active, ...] = ()
    edges: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    bandwidths: tuple[tuple[str, int, float], ...] = ()
    outliers: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    ras_begun: int = 0
    ras_ended: tuple[int, ...] = ()
    differing: tuple[str, ...] = ()
    strange: tuple[str, ...] = ()


class _Reading:
    """Collects what lines say."""

    def __init__(self) -> None:
        self.found: dict[str, list[object]] = {}
        self.open: dict[str, Edges | None] = {}
        self.begun = 0
        self.named: set[str] = set()
        self.counted = 0
        self.compared: int | None = None
        self.off: list[str] = []

    def put(self, where: str, what: object) -> None:
        self.found.setdefault(where, []).append(what)

    def line(self, process: str, text: str) -> None:
        header, done, tagged = _HEADER.match(text), _DONE.match(text), _TAGGED.match(text)
        if header and header["what"] == "RAS":
            self.begun += 1
        elif header:
            self._end(process, None)
            self.open[process] = None
        elif done and done["what"] == "RAS":
            self.put("ras_ended", int(done["ranks"]))
        elif done and process in self.open:
            self._end(process, int(done["ranks"]))
        elif tagged:
            self._result(process, tagged["text"].strip(), ok=tagged["tag"] == "OK")
        else:
            self.put("strange", text)

    def _end(self, process: str, ranks: int | None) -> None:
        if process in self.open:
            self.put("active", Active(process, self.open.pop(process), ranks))

    def finish(self) -> None:
        for process in list(self.open):
            self._end(process, None)
        if self.off and "outliers" not in self.found:
            # The least is off the median, and the line that names its rank is lost.
            self.found["contradictions"] = [*self.found.get("contradictions", ()), *self.off]

    def _result(self, process: str, text: str, *, ok: bool) -> None:
        if text.startswith("p2p: "):
            self._path(process, text, ok=ok)
        elif text.startswith("net bw: "):
            self._network(text)
        elif not ok and (text.startswith("transport detect returned ")):
            self.put("stopped", text)
        else:
            self._check(text, ok=ok)

    def _path(self, process: str, text: str, *, ok: bool) -> None:
        whole, part, edge = _ALL.match(text), _PART.match(text), _EDGE.match(text)
        edges = None
        if whole and ok:
            count = int(whole["a"] or whole["b"])
            edges = Edges(count, count, int(whole["skipped"] or 0))
        elif part:
            edges = Edges(int(part["tested"]), int(part["passed"]), int(part["skipped"] or 0))
        if edges is not None and self.open.get(process, edges) is None:
            self.open[process] = edges
        elif edges is not None:
            # A summary outside of a report, or the second of one.
            self.put("strange", text)
        elif edge:
            how = f"{edge['path']}, {edge['handle']}" if edge["handle"] else edge["path"]
            self.put("edges", f"rank {edge['src']} to rank {edge['dst']} ({how}): {edge['kind']}")
        elif _NOTICE.match(text):
            return
        elif not ok:
            self.put("stopped", text)
        else:
            self.put("strange", text)

    def _network(self, text: str) -> None:
        figure, outlier = _BANDWIDTH.match(text), _OUTLIER.match(text)
        if figure:
            least, median, most = (float(figure[name]) for name in ("least", "median", "most"))
            self.put("bandwidths", (figure["mode"], int(figure["ranks"]), median))
            if not 0 < least <= median <= most:
                self.put("contradictions", f"{text.partition(' (')[0]}: no such figures can be")
            elif least < median * NEAR:
                self.off.append(text.partition(" (")[0])
        elif outlier:
            self.put(
                "outliers",
                f"rank {outlier['rank']} ({outlier['host']}): {outlier['rate']} Gbit/s {outlier['mode']}, median "
                f"{outlier['median']}",
            )
        elif "more ranks >30% off median" in text:
            self.put("outliers", text.removeprefix("net bw: "))
        else:
            self.put("untested", text)

    def _check(self, text: str, *, ok: bool) -> None:
        value = _CHECK.match(text)
        if value is None:
            self.put("strange", text)
            return
        label, said = value["label"], value["text"]
        if label == "NCCL environment" and not ok:
            shown = _VALUE.match(said)
            if shown:
                self.named.add(shown["name"])
                return
            mismatch, differ = _MISMATCH.match(said), _DIFFER.match(said)
            if mismatch:
                self.named.add(mismatch["name"])
                self.compared = int(mismatch["ranks"])
                return
            if differ:
                self.counted = max(self.counted, int(differ["count"]))
                # What differs is told by name; that it was compared is told here.
                self.put("checks", Check(label, ok=True, text=said, ranks=self.compared, partial=False))
                return
        across = _ACROSS.search(said)
        ranks = int(across["ranks"]) if across else None
        self.put(
            "checks", Check(label, ok, said, ranks, partial=across is None or across["part"] is not None)
        )


def read(lines: Iterable[str]) -> Diagnostics:
    """Return what the lines of any number of processes say; other lines are passed over."""
    reading = _Reading()
    for process, text in _messages(lines):
        reading.line(process, text)
    reading.finish()
    found = {name: tuple(some) for name, some in reading.found.items()}
    strange = found.pop("strange", ())
    if reading.counted > len(reading.named):
        unnamed = reading.counted - len(reading.named)
        strange = (*strange, f"{unnamed} variables of NCCL differ and are not named")
    return Diagnostics(
        **found,  # type: ignore[arg-type]
        ras_begun=reading.begun,
        differing=tuple(sorted(reading.named - OWN)),
        strange=strange,  # type: ignore[arg-type]
    )


def _messages(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield host and process, and the text, of each message; several may stand in one line."""
    for line in lines:
        if MARK not in line:
            continue
        matches = list(_LINE.finditer(line))
        for match in matches:
            yield f"{match['host']}:{match['pid']}", match["text"].rstrip()
        if line.count(MARK) > len(matches):
            yield "", line[:200]
