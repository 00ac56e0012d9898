"""NCCL logs as the payloads print them: each rank's own, between two lines `nccl-log`, its lines behind `[rankN]: `."""

import dataclasses
import re
from collections.abc import Iterable

from pytest_gpucluster.evidence import payload
from pytest_gpucluster.evidence.model import Evidence

_OWN = re.compile(r"^(?:\[[\w.-]+\]:\s?)?\[rank(?P<rank>\d+)\]:\s?(?P<text>.*)$", re.DOTALL)
"""A launcher may put its own tag before ours."""


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


def read_logs(evidence: Evidence) -> tuple[Log, ...]:
    """Read the NCCL logs of all pods, in the order of ranks."""
    found: dict[tuple[str, int], Log] = {}
    for line in evidence.lines:
        if line.type != "LOG":
            continue
        uid = str(line.data.get("uid") or line.data.get("pod") or "")
        text, pod = str(line.data.get("line") or ""), str(line.data.get("pod") or "")
        if payload.MARKER in text:
            for told in payload.find(text)[0]:
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
