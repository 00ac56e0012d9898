"""What the drivers of GPUs and the kernel's log said of their health."""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.measure import shipped

GPU, LOG = "gpu-health", "kernel-log"
"""Events of the payload."""
ROLE = "subject"
TABLE, FOLDER = "xids", "health"
_HEAD = r"^(?:<(?P<level>\d+)>)?(?:\[[^\]]*\]\s*)*"
"""What the kernel puts before a line: facility and level, the time, and with PRINTK_CALLER which task wrote it."""
XID = re.compile(_HEAD + r"NVRM: Xid \((?:(?P<where>[^()]*)\): (?P<number>\d+)\b)?")
"""A line of NVIDIA's driver: where (a slice of a GPU is named behind its bus id), and the number of the error."""
KERNEL = 8
"""Facility and level of lines that the kernel itself wrote are below this number; others were written into its log."""
RAS = re.compile(_HEAD + r"amdgpu \S+: .*(?:uncorrectable|GPU reset begin)", re.IGNORECASE)
"""A line of AMD's driver that tells of a fault."""
COUNTS = ("uncorrected", "pending", "failed")


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU, as its driver tells of it; None for what it does not tell.

    Attributes:
        uuid: its id, "" where it does not answer.
        bus: where it is.
        ecc: whether errors of its memory are corrected and counted.
        uncorrected: errors that could not be corrected, since the driver was loaded.
        pending: rows or pages that wait for a reset to be remapped.
        failed: rows or pages that could not be.
        recovery: what the driver says must be done: 0 for nothing, else a number or a word.
        lost: it does not answer.
        key: of the line of evidence.
    """

    uuid: str
    bus: str
    ecc: bool | None
    uncorrected: int | None
    pending: int | None
    failed: int | None
    recovery: int | str | None
    lost: bool
    key: str

    @property
    def name(self) -> str:
        """Return how findings name it."""
        return self.uuid or self.bus or "a GPU that does not answer"


@dataclasses.dataclass(frozen=True)
class Xid:
    """One error of NVIDIA's driver in the kernel's log: its number, None where the line has none, and the line."""

    number: int | None
    line: str


@dataclasses.dataclass(frozen=True)
class View:
    """What one pod told of its node.

    Attributes:
        pod: the pod.
        gpus: the GPUs that it told of.
        whole: whether it told of as many as it counted, each once, and of the kernel's log.
        how: how they were read.
        problems: ways in which they could not be read.
        log: whether the kernel's log was read; None where nothing was told of it.
        why: why not.
        from_boot: whether it reaches back to the boot of the node: older lines may have made room for newer ones.
        xids: errors of NVIDIA's driver in it.
        resets: lines of AMD's driver in it that tell of a fault.
        cut: whether it has more lines about GPUs than were told.
        key: of the line of evidence.
    """

    pod: PodStory
    gpus: tuple[Gpu, ...]
    whole: bool
    how: str
    problems: tuple[str, ...]
    log: bool | None
    why: str
    from_boot: bool
    xids: tuple[Xid, ...]
    resets: tuple[str, ...]
    cut: bool
    key: str


@functools.cache
def xids() -> Mapping[str, Mapping[int, str]]:
    """Return what Xid errors stand for: `application` and `fault` -> number -> meaning."""
    return shipped.load(TABLE, FOLDER)  # type: ignore[no-any-return]


def views(evidence: Evidence, given: Mapping[str, Any]) -> tuple[View, ...]:
    """Return what the pods told that hold the GPUs of a node each."""
    cast = {str(one.get("uid")) for one in fields.items(fields.sub(given, "roles"), ROLE)}
    words = payload_lines.words(evidence)
    return tuple(_view(pod, words) for pod in pods(evidence) if pod.uid in cast)


def _view(pod: PodStory, words: payload_lines.Words) -> View:
    told = words.of(GPU, pod.uid)
    logs = words.of(LOG, pod.uid)
    last = logs[-1] if logs else None
    numbers = sorted(n for word in told if (n := word.number("index")) is not None)
    counts = {word.number("count") for word in told}
    # Each GPU is told once; the line on the kernel's log comes last and says how many there were.
    whole = len(logs) == 1 and numbers == list(range(len(told))) and counts <= {len(told)}
    whole = whole and logs[0].number("gpus") == len(told)
    data: Mapping[str, Any] = last.data if last is not None else {}
    lines = [str(line) for line in _listed(data.get("lines"))]
    counted = last.number("count") if last is not None else None
    return View(
        pod,
        tuple(_gpu(word) for word in told),
        whole,
        str(told[0].data.get("how") or "") if told else "",
        tuple(map(str, _listed(data.get("problems")))),
        data["readable"] if isinstance(data.get("readable"), bool) else None,
        str(data.get("why") or ""),
        data.get("from_boot") is True,
        tuple(_xids(lines)),
        tuple(line for line in lines if _of_kernel(RAS.search(line))),
        counted is None or counted != len(lines),
        last.key if last is not None else "",
    )


def _xids(lines: Sequence[str]) -> Iterator[Xid]:
    """Yield errors of the driver: what a program wrote into the log, whatever it says, is none."""
    for line in lines:
        found = XID.search(line)
        if found is not None and _of_kernel(found):
            yield Xid(None if found["number"] is None else int(found["number"]), line)


def _of_kernel(found: re.Match[str] | None) -> bool:
    """Report whether a line is a driver's, and was written by the kernel itself."""
    return found is not None and (found["level"] is None or int(found["level"]) < KERNEL)


def _gpu(word: payload_lines.Word) -> Gpu:
    told = fields.sub(word.data, "gpu")
    counts = {name: _count(told.get(name)) for name in COUNTS}
    recovery = told.get("recovery")
    ecc = _count(told.get("ecc"))
    return Gpu(
        str(told.get("uuid") or ""),
        str(told.get("bus") or ""),
        None if ecc is None else bool(ecc),
        counts["uncorrected"],
        counts["pending"],
        counts["failed"],
        recovery if isinstance(recovery, str) and recovery else _count(recovery),
        told.get("lost") is not False,
        word.key,
    )


def _count(value: object) -> int | None:
    """Return a whole number that may be a count, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []
