"""CKPT-004: the durable volume reaches its write and read floor on every node while all nodes work at once."""

import dataclasses
from collections.abc import Iterable

from pytest_gpucluster.evidence.hardware.checkpoints import Told
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.checkpoint import shared
from pytest_gpucluster.measure import samples
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = (
    "while all nodes work at once, every node writes and reads the declared GB/s, no block takes longer than declared, "
    "and what is read is what was written"
)
MEMORY = ("tmpfs", "ramfs", "hugetlbfs")
OWN = ("overlay", "overlayfs", "aufs")
"""File systems of a container's own layer."""

NOT_CLEARED = Cause(
    "the pages of the files stayed in the node's memory: the figure of reading is that of memory",
    "let the durable volume be on a disk; a client with a cache of its own needs the direct mode of its vendor",
)
IN_MEMORY = Cause(
    "the volume is memory and no disk: it keeps nothing over the loss of its node",
    "declare a volume on a disk (storage.durable)",
)
CONTAINER_DISK = Cause(
    "the folder is in the container's own layer: no volume is mounted there",
    "look at the pod's volumeMounts; declare storage.durable",
)
SHARED_LIMIT = Cause(
    "nodes share a limit: the server, its network, or the quota of the volume",
    "compare one node alone with all of them; look at the throughput class of the volume and at its server",
)
NODE_LIMIT = Cause(
    "a node alone is slower than the floor: its link, its client's settings or its disk",
    "compare the nodes; measure the disk with fio --direct=1; look at mount options (rsize, wsize, nconnect, stripes)",
)
TAIL = Cause(
    "some blocks take much longer than others: the storage flushes, throttles by credits, or fails over",
    "look at the latency of the volume at its server, and at burst credits of its class",
)
WRONG = Cause(
    "what was read back is not what was written: the storage or its network damages data",
    "take the volume out of use; look for checksum errors at the server and on the node's adapters",
)
UNTOLD = Cause(
    "times of single blocks are not reported: an average hides stalls",
    "run the shipped payload: it reports them",
)


@dataclasses.dataclass(frozen=True)
class Speed:
    """What one node reached.

    Attributes:
        node: its name.
        lines: its ranks.
        write: GB/s, synchronised: all bytes over the time of the slowest rank.
        read: GB/s with a cold cache, the same way; None where it was not read.
    """

    node: str
    lines: tuple[Told, ...]
    write: float | None
    read: float | None


@subjects.judge
def reaches_floor(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge CKPT-004."""
    told, gang = shared.told(evidence, given, "storage", "save")
    say = wording.Findings(REQUIRED, gang)
    together = tuple(one for one in told if one.data.get("part") == "together")
    if not together:
        return shared.nobody(evidence, gang, say, "speeds of the volume")
    nodes, alone = speeds(together), speeds(one for one in told if one.data.get("part") == "alone")
    floor = fields.sub(given, "storage", "floor")
    numbers = _numbers(nodes, alone, together, floor)
    more = {"evidence": shared.keys(together), "numbers": numbers}
    damaged = [one for one in told if one.data.get("same") is False]
    if damaged:
        text = f"{damaged[0].place} read back other bytes than it wrote"
        return say.fail(text, WRONG, violation=True, where=shared.places(damaged), **more)
    doubts = _doubts(together, given)
    slow = _slow(nodes, alone, floor)
    if slow is not None:
        text, causes, lines = slow
        return say.fail(text, *causes, violation=True, where=shared.places(lines), **more)
    if doubts:
        text, cause, lines = doubts[0]
        return say.inconclusive(text, cause, where=shared.places(lines), **more)
    text = _text(nodes, alone, together)
    if samples.number(floor.get("write")) is None and samples.number(floor.get("read")) is None:
        return say.not_applicable(f"no floor is declared (storage.floor); measured: {text}", **more)
    return say.passed(text, **more)


def speeds(lines: Iterable[Told]) -> tuple[Speed, ...]:
    """Return the speed of each node from the lines of ranks that moved bytes."""
    by_node: dict[str, list[Told]] = {}
    for one in lines:
        if one.amount("bytes"):
            by_node.setdefault(one.node, []).append(one)
    return tuple(
        Speed(node, tuple(own), _rate(own, "write"), _rate(own, "read"))
        for node, own in sorted(by_node.items())
    )


def _rate(lines: list[Told], what: str) -> float | None:
    times = [one.amount(what) for one in lines]
    moved = sum(one.amount("bytes") or 0.0 for one in lines)
    known = [time for time in times if time]
    return moved / max(known) / shared.GB if known and len(known) == len(times) else None


def _slow(
    nodes: tuple[Speed, ...], alone: tuple[Speed, ...], floor: subjects.Given
) -> tuple[str, tuple[Cause, ...], list[Told]] | None:
    """Return what is below its floor and why, None where nothing is.

    Reading that is too slow although pages may have been cached is too slow all the same.
    """
    for what, verb in (("write", "writes"), ("read", "reads")):
        least = samples.number(floor.get(what))
        below = [
            one
            for one in nodes
            if least is not None and (rate := getattr(one, what)) is not None and rate < least
        ]
        if below and least is not None:
            worst = min(below, key=lambda one: getattr(one, what))
            own = getattr(alone[0], what) if alone else None
            cause = SHARED_LIMIT if own is not None and own >= least else NODE_LIMIT
            text = (
                f"{worst.node} {verb} {getattr(worst, what):.3g} GB/s while all nodes do, the floor is {least:g} "
                f"({floor.get('origin')})"
            )
            text += f"; {alone[0].node} alone {own:.3g}" if own is not None else ""
            return text, (cause,), [line for one in below for line in one.lines]
    most = samples.number(floor.get("tail"))
    if most is not None:
        for one in (line for node in nodes for line in node.lines):
            for key in ("write_most", "read_most"):
                took = one.amount(key)
                if took is not None and took > most:
                    text = (
                        f"{one.place}: one block took {took:.3g} s ({key}), at most {most:g} s are declared"
                    )
                    return text, (TAIL,), [one]
    return None


def _doubts(lines: tuple[Told, ...], given: subjects.Given) -> list[tuple[str, Cause, list[Told]]]:
    """Return why figures cannot be taken for those of the volume."""
    found: list[tuple[str, Cause, list[Told]]] = []
    missing = shared.absent(lines, subjects.count(given, "world") or lines[0].word.number("world"))
    if missing:
        found.append((missing, shared.NO_LINE, []))
    for one in lines:
        kind = str(fields.sub(one.data, "mount").get("fs") or "")
        cached = one.amount("cached")
        if kind in MEMORY:
            found.append((f"{one.place}: {shared.mount(one)} is memory, not a disk", IN_MEMORY, [one]))
        elif kind in OWN:
            found.append(
                (f"{one.place}: {shared.mount(one)} is the container's own disk", CONTAINER_DISK, [one])
            )
        elif not kind:
            found.append((f"{one.place}: the file system is not known", CONTAINER_DISK, [one]))
        if cached is None or cached > 0:
            left = "it is not known how much" if cached is None else shared.mb(cached)
            found.append(
                (f"{one.place}: cache not cleared, {left} of the file was in memory", NOT_CLEARED, [one])
            )
        if (
            not one.amount("bytes")
            or not one.amount("write")
            or not one.amount("read")
            or one.data.get("same") is not True
        ):
            found.append((f"{one.place} did not write and read back", shared.NO_LINE, [one]))
        if one.amount("write_most") is None or one.amount("read_most") is None:
            found.append((f"{one.place} does not report its slowest block", UNTOLD, [one]))
    return found


def _numbers(
    nodes: tuple[Speed, ...], alone: tuple[Speed, ...], lines: tuple[Told, ...], floor: subjects.Given
) -> tuple[Number, ...]:
    found = []
    origin = str(floor.get("origin") or "")
    for what in ("write", "read"):
        rates = [rate for one in nodes if (rate := getattr(one, what)) is not None]
        own = [rate for one in alone if (rate := getattr(one, what)) is not None]
        least = samples.number(floor.get(what))
        found.append(
            Number(f"{what}, slowest node of all at once", min(rates, default=None), "GB/s", least, origin)
        )
        found.append(Number(f"{what}, one node alone", min(own, default=None), "GB/s"))
        most = [value for one in lines if (value := one.amount(f"{what}_most")) is not None]
        found.append(
            Number(f"{what}, slowest block", max(most, default=None), "s", samples.number(floor.get("tail")))
        )
    return tuple(found)


def _text(nodes: tuple[Speed, ...], alone: tuple[Speed, ...], lines: tuple[Told, ...]) -> str:
    moved = sum(one.amount("bytes") or 0.0 for one in lines)
    parts = []
    for what, verb in (("write", "wrote"), ("read", "read")):
        rates = [getattr(one, what) or 0.0 for one in nodes]
        own = f" (alone {getattr(alone[0], what) or 0.0:.3g})" if alone else ""
        most = max(one.amount(f"{what}_most") or 0.0 for one in lines)
        parts.append(f"{verb} at least {min(rates):.3g} GB/s each{own}, slowest block {most:.3g} s")
    who = wording.count(len(nodes), "node")
    return f"{who} at once, {shared.mb(moved)} on {shared.mount(lines[0])}, cache cleared: {'; '.join(parts)}"
