"""What the rows of checkpoints share: who told what, what a rank failed of, and what a volume is."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.hardware import checkpoints
from pytest_gpucluster.evidence.hardware.checkpoints import Told
from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding

MB, GB = 1e6, 1e9

NO_LINE = Cause(
    "a rank ended before it reported: it was killed (memory, eviction), or another rank ended first and torchrun "
    "ended all",
    "read the log of the rank that is missing, and the events of its pod",
)
IN_MEMORY = Cause(
    "the volume is memory and no disk: it keeps nothing over the loss of its node",
    "declare a volume on a disk (storage.durable)",
)
FULL = Cause(
    "the volume has no room for the checkpoint",
    "look at its free space and inodes (df -h, df -i in a pod that mounts it) and at quotas; remove old "
    "checkpoints, or make the claim larger",
)
READ_ONLY = Cause(
    "the volume is mounted read-only: so it is declared, or the file system was remounted after an error",
    "look at readOnly of the claim's mount and at the access modes of the volume; on the node: dmesg, and findmnt "
    "for the flag ro",
)
DENIED = Cause(
    "the pods' user may not write to the volume",
    "set fsGroup or runAsUser of the pods, or the owner of the folder on the volume",
)
STALE = Cause(
    "the file system answered with an error of its own: a server was restarted, a disk fails, a lease was lost",
    "read dmesg of the node that the rank ran on, and the log of the storage's client there",
)
NO_MEMORY = Cause(
    "memory ran out while a checkpoint was made",
    "look at which rank it was: if rank 0 alone, it gathers the state, which torch.distributed.checkpoint does not; "
    "else raise the memory limit by the size of a shard, which an asynchronous save holds until it is written",
)
ERRORS: Sequence[tuple[tuple[str, ...], Cause]] = (
    (("No space left on device", "Errno 28", "Disk quota exceeded", "Errno 122"), FULL),
    (("Read-only file system", "Errno 30"), READ_ONLY),
    (("Permission denied", "Errno 13", "Operation not permitted"), DENIED),
    (("Stale file handle", "Errno 116", "Input/output error", "Errno 5]"), STALE),
)
"""Parts of what an operating system answers -> what it says of the volume."""


def told(
    evidence: Evidence, given: subjects.Given, event: str, role: str
) -> tuple[tuple[Told, ...], Gang | None]:
    """Return what the ranks of a role told with an event, and their gang; of all pods where roles are not known."""
    gang = subjects.first(evidence, given, role)
    if gang is None and role in subjects.roles(evidence, given):
        return (), None
    return checkpoints.read(evidence, event, subjects.uids(gang)), gang


def of_volume(text: str) -> Cause | None:
    """Return what an error says of the volume, None where it says nothing of it."""
    return next((cause for parts, cause in ERRORS if any(part in text for part in parts)), None)


def nobody(evidence: Evidence, gang: Gang | None, say: wording.Findings, what: str) -> Finding:
    """Return what an evidence in which no rank told of something makes of a row."""
    failed = checkpoints.read(evidence, "failed", subjects.uids(gang))
    if failed:
        return of_failed(failed[0], say)
    expired = subjects.timed_out(evidence)
    ranks = checkpoints.read(evidence, "rank", subjects.uids(gang))
    text = f"no rank reported {what}"
    if ranks:
        text += f"; {wording.count(len({one.rank for one in ranks}), 'rank')} identified themselves"
    torn = sum(payload_lines.words(evidence).torn.values())
    if torn:
        text += f"; {wording.count(torn, 'line')} cut in the middle"
    if expired is not None:
        text += f"; waited for {expired[0]}"
    return say.inconclusive(text, NO_LINE)


def of_failed(one: Told, say: wording.Findings) -> Finding:
    """Return what a rank that said what went wrong makes of a row: a volume that fails it is a fault, else unknown."""
    error = str(one.data.get("error") or "")
    text = f"{one.place} failed while {one.data.get('during') or 'it ran'}: {wording.short(error, 300)}"
    more = {"where": (one.place,), "evidence": (one.word.key,)}
    cause = of_volume(error)
    if cause is not None:
        return say.fail(text, cause, violation=True, **more)
    if one.data.get("kind") == "memory":
        return say.inconclusive(text, NO_MEMORY, **more)
    return say.inconclusive(text, NO_LINE, **more)


def absent(lines: Iterable[Told], world: int | None) -> str:
    """Return which ranks of a world are missing among some lines, or there twice; "" for none."""
    ranks = [one.rank for one in lines]
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
    if twice:
        return f"rank {wording.listed([str(rank) for rank in twice])} reported twice"
    if world is None:
        return "no rank reports the number of ranks"
    missing = payload_lines.absent(world, set(ranks))
    if missing:
        return f"rank {wording.listed([str(rank) for rank in missing])} of {world} reported nothing"
    beyond = [rank for rank in ranks if rank >= world]
    return f"rank {beyond[0]} does not belong to a world of {world}" if beyond else ""


MEMORY = ("tmpfs", "ramfs", "hugetlbfs", "devtmpfs")
DISKS_IN_MEMORY = re.compile(r"^/dev/z?ram\d")


def in_memory(mount: Mapping[str, Any]) -> bool:
    """Report whether a mount is memory, under whatever file system."""
    kind, source = str(mount.get("fs") or "").lower(), str(mount.get("source") or "")
    return kind in MEMORY or DISKS_IN_MEMORY.match(source) is not None


def mount(one: Told) -> str:
    """Return what a rank wrote to: `ext4 (/dev/vda) at /checkpoints`."""
    found = fields.sub(one.data, "mount")
    return f"{found.get('fs') or '?'} ({found.get('source') or '?'}) at {found.get('point') or '?'}"


def mb(value: float) -> str:
    """Return bytes in MB or GB."""
    return f"{value / GB:.3g} GB" if value >= GB else f"{value / MB:.3g} MB"


def keys(lines: Iterable[Told]) -> tuple[str, ...]:
    """Return the keys of some lines."""
    return tuple(one.word.key for one in lines)[:12]


def places(lines: Iterable[Told]) -> tuple[str, ...]:
    """Return ranks with pod and node for `where`."""
    return wording.shown(list(dict.fromkeys(one.place for one in lines)))
