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
OWN = ("overlay", "overlayfs", "aufs", "fuse-overlayfs", "unionfs")
"""File systems of a container's own layer."""
MOUNTED = "/checkpoints"
"""Where pods mount the durable volume: what lies there on the file system of `/` is on no volume."""
ENOUGH = 0.9
"""Part of its share of the model that a rank must move for a figure of the volume."""
ROUNDED = 1.001
"""Figures have five digits: a single block may read as a little more than all of them."""

NOT_CLEARED = Cause(
    "the pages of the files stayed in the node's memory: the figure of reading is that of memory",
    "let the durable volume be on a disk; a client with a cache of its own needs the direct mode of its vendor",
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
TOGETHER = Cause(
    "the pods of several nodes were put on one, or nodes reported nothing: what all of them get was not tried",
    "look where the pods of the save ran, and why; fewer nodes may be declared (storage.nodes)",
)
LITTLE = Cause(
    "fewer bytes were moved than a rank's part of the declared model: caches of disks and servers are faster",
    "run the shipped payload without --raw",
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
            causes = _limits(nodes, below, alone, own, least)
            text = (
                f"{worst.node} {verb} {getattr(worst, what):.3g} GB/s while all nodes do, the floor is {least:g} "
                f"({floor.get('origin')})"
            )
            text += f"; {alone[0].node} alone {own:.3g}" if own is not None else ""
            return text, causes, [line for one in below for line in one.lines]
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


def _limits(
    nodes: tuple[Speed, ...], below: list[Speed], alone: tuple[Speed, ...], own: float | None, least: float
) -> tuple[Cause, ...]:
    """Return why nodes are too slow while all work, as far as one node alone and the others beside it tell."""
    if own is None:
        return (SHARED_LIMIT, NODE_LIMIT)
    if own < least:
        return (NODE_LIMIT,)
    # The one that worked alone keeps its speed beside the others: what limits them may be their own.
    fast = {one.node for one in nodes} - {one.node for one in below}
    return (NODE_LIMIT, SHARED_LIMIT) if alone[0].node in fast else (SHARED_LIMIT,)


def _expected(given: subjects.Given) -> float:
    """Return the bytes of a rank's part of the declared model, 0 where it is not known."""
    model, world = fields.sub(given, "storage", "model"), subjects.count(given, "world")
    layers, width = fields.number(model, "layers"), fields.number(model, "width")
    if not layers or not width or not world:
        return 0.0
    each = 2 if model.get("format") == "bf16" else 4
    return layers * width**2 * each * (3 if model.get("moments") is True else 1) / world


def _doubts(lines: tuple[Told, ...], given: subjects.Given) -> list[tuple[str, Cause, list[Told]]]:
    """Return why figures cannot be taken for those of the volume."""
    found: list[tuple[str, Cause, list[Told]]] = []
    missing = shared.absent(lines, subjects.count(given, "world") or lines[0].word.number("world"))
    if missing:
        found.append((missing, shared.NO_LINE, []))
    nodes = {one.node for one in lines}
    asked = subjects.count(given, "nodes") or 1
    if len(nodes) < asked:
        text = f"{wording.count(len(nodes), 'node')} of {asked} moved bytes: {wording.listed(sorted(nodes))}"
        found.append((text, TOGETHER, []))
    least = _expected(given)
    for one in lines:
        mount = fields.sub(one.data, "mount")
        kind = str(mount.get("fs") or "").lower().removeprefix("fuse.")
        cached = one.amount("cached")
        if shared.in_memory(mount):
            found.append((f"{one.place}: {shared.mount(one)} is memory, not a disk", shared.IN_MEMORY, [one]))
        elif kind in OWN or (mount.get("point") == "/" and str(mount.get("path")).startswith(MOUNTED)):
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
        elif (one.amount("bytes") or 0.0) < least * ENOUGH:
            moved = shared.mb(one.amount("bytes") or 0.0)
            text = f"{one.place} moved {moved}, its part of the model is {shared.mb(least)}"
            found.append((text, LITTLE, [one]))
        elif any(
            (one.amount(f"{what}_most") or 0.0) > (one.amount(what) or 0.0) * ROUNDED
            for what in ("write", "read")
        ):
            found.append((f"{one.place}: one block took longer than all of them", shared.NO_LINE, [one]))
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
