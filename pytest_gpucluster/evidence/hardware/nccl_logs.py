"""NCCL logs as the payloads print them: each rank's own, between two lines `nccl-log`, its lines behind `[rankN]: `."""

import dataclasses
import re
from collections.abc import Iterable

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence

_STRAY = re.compile(
    r"NCCL (?:INFO|WARN|ABORT|ERROR)\b|(?:Channel|Ring) \d{1,6}(?:/\d{1,6})? : .* via (?:NET|P2P|SHM)/"
)
"""A line of NCCL that no rank's log holds: a process wrote it past the file."""
_OWN = re.compile(
    r"^(?:\d{4}-\d\d-\d\dT\S+ )?(?:\[[\w.-]+\]:\s?)?\[rank(?P<rank>\d+)\]:\s?(?P<text>.*?)\r?$", re.DOTALL
)
"""A launcher may put its own tag before ours, and what collects the logs a time before that."""


@dataclasses.dataclass
class Log:
    """What was read of one rank's NCCL log.

    Attributes:
        rank: the rank.
        uid: uid of its pod.
        pod: its pod.
        lines: the lines, without the prefix.
        expected: lines that the rank said it prints; None where that line was not read.
        cut: bytes that the rank left out of the middle of a long log.
        key: of the line at which it begins.
    """

    rank: int
    uid: str
    pod: str
    lines: list[str]
    expected: int | None = None
    cut: int = 0
    key: str = ""

    @property
    def whole(self) -> bool:
        """Report whether all lines came that the rank said it prints."""
        return self.expected == len(self.lines) and self.cut == 0


def read(evidence: Evidence, uids: Iterable[str] | None = None) -> tuple[Log, ...]:
    """Return the NCCL logs in the order of ranks; of all pods where no uids are given. Read once per evidence."""
    every = evidence.derived(read_logs)
    if uids is None:
        return every
    wanted = set(uids)
    return tuple(log for log in every if log.uid in wanted)


@dataclasses.dataclass(frozen=True)
class Strays:
    """Lines of NCCL in a pod's output that stand in no rank's log.

    Attributes:
        pod: the pod.
        uid: its uid.
        lines: the lines.
        key: of the first.
    """

    pod: str
    uid: str
    lines: tuple[str, ...]
    key: str


def strays(evidence: Evidence, uids: Iterable[str] | None = None) -> tuple[Strays, ...]:
    """Return the lines of NCCL that pods print outside of their ranks' logs; of all pods where no uids are given."""
    wanted = None if uids is None else set(uids)
    return tuple(one for one in evidence.derived(read_strays) if wanted is None or one.uid in wanted)


def read_strays(evidence: Evidence) -> tuple[Strays, ...]:
    """Read the lines of NCCL that stand in no rank's log."""
    found: dict[str, tuple[str, str, list[str]]] = {}
    for line in evidence.lines:
        text = str(line.data.get("line") or "") if line.type == "LOG" else ""
        if text and payload_lines.MARKER not in text and not _OWN.match(text) and _STRAY.search(text):
            pod = str(line.data.get("pod") or "")
            uid = str(line.data.get("uid") or pod)
            found.setdefault(uid, (pod, f"LOG:{pod}@{line.t:.3f}", []))[2].append(text)
    return tuple(Strays(pod, uid, tuple(lines), key) for uid, (pod, key, lines) in found.items())


def read_logs(evidence: Evidence) -> tuple[Log, ...]:
    """Read the NCCL logs of all pods, in the order of ranks."""
    found: dict[tuple[str, int], Log] = {}
    for line in evidence.lines:
        if line.type != "LOG":
            continue
        uid = str(line.data.get("uid") or line.data.get("pod") or "")
        text, pod = str(line.data.get("line") or ""), str(line.data.get("pod") or "")
        if payload_lines.MARKER in text:
            for told in payload_lines.find(text)[0]:
                rank = told.get("rank")
                if told.get("event") != "nccl-log" or not isinstance(rank, int):
                    continue
                if told.get("part") == "begin":
                    # A rank that was started anew prints its log anew.
                    expected, cut = told.get("lines"), told.get("cut")
                    found[uid, rank] = Log(
                        rank, uid, pod, [], expected if isinstance(expected, int) else None,
                        cut if isinstance(cut, int) else 0, f"LOG:{pod}@{line.t:.3f}",
                    )  # fmt: skip
            continue
        match = _OWN.match(text)
        if match:
            key = uid, int(match["rank"])
            log = found.setdefault(key, Log(key[1], uid, pod, [], key=f"LOG:{pod}@{line.t:.3f}"))
            log.lines.append(match["text"])
    return tuple(sorted(found.values(), key=lambda log: (log.rank, log.uid)))
