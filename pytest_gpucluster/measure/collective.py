"""Collectives: bandwidth by the formulas of nccl-tests, and what hardware of a shape can carry at most.

Algorithm bandwidth is size over time; bus bandwidth is that times a factor which makes the figure comparable with the
speed of the wires, whatever the number of ranks. The ceilings below count the bytes that *must* cross a boundary, by
any algorithm: into and out of a node, into and out of a GPU.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

TWICE = frozenset({"all_reduce"})
SHARED = frozenset({"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})
PLAIN = frozenset({"broadcast", "reduce", "sendrecv", "hypercube"})
COLLECTIVES = tuple(sorted(TWICE | SHARED | PLAIN))

LEAST_SHARE = 0.2
"""A floor below this part of the wires' sum tells nothing: plain sockets reach it too (20 of 100 GB/s on A3 High)."""
BEYOND = 20_000.0
"""GB/s that no GPU's link carries, ten times that of the fastest one sold, both ways of an all-reduce counted."""
NODE_LOCAL = "MNNVL"
"""Transport between nodes of one NVLink domain, whose traffic crosses no NIC."""


def factor(collective: str, ranks: int) -> float | None:
    """Return bus bandwidth over algorithm bandwidth; None for an unknown collective or no rank at all."""
    if ranks < 1:
        return None
    if collective in TWICE:
        return 2 * (ranks - 1) / ranks
    if collective in SHARED:
        return (ranks - 1) / ranks
    return 1.0 if collective in PLAIN else None


def ranks_of(collective: str, ratio: float) -> int | None:
    """Return the ranks that a ratio of bus to algorithm bandwidth belongs to; None where it belongs to none.

    A ratio of 0 is a world of one rank: each process measured by itself.
    """
    twice = 2.0 if collective in TWICE else 1.0 if collective in SHARED else None
    if twice is None or not 0 <= ratio < twice:
        return None
    ranks = round(1 / (1 - ratio / twice))
    return ranks if math.isclose((factor(collective, ranks) or 0.0), ratio, abs_tol=1e-3) else None


def algorithm_bandwidth(size: float, seconds: float) -> float | None:
    """Return GB/s (1e9 bytes) of `size` bytes; None where the time is no time."""
    if not (math.isfinite(seconds) and math.isfinite(size)) or seconds <= 0 or size < 0:
        return None
    return size / seconds / 1e9


def bus_bandwidth(collective: str, ranks: int, size: float, seconds: float) -> float | None:
    """Return bus bandwidth in GB/s; None where it cannot be told."""
    rate, times = algorithm_bandwidth(size, seconds), factor(collective, ranks)
    return None if rate is None or times is None else rate * times


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a figure of bandwidth belongs to.

    Attributes:
        nodes: how many take part.
        gpus: GPUs of each.
        nics: adapters of each that carry the traffic; None where nobody says.
        nic_gbps: line rate of one, in Gbit/s.
        link_gbs: what one GPU sends to the others of its node, in GB/s, one direction.
        transport: between nodes, "" where nobody says.
    """

    nodes: int
    gpus: int
    nics: int | None = None
    nic_gbps: float | None = None
    link_gbs: float | None = None
    transport: str = ""

    @property
    def ranks(self) -> int:
        """Return the ranks, one a GPU."""
        return self.nodes * self.gpus

    @property
    def by_nics(self) -> bool:
        """Report whether traffic between nodes crosses adapters."""
        return self.nodes > 1 and self.transport != NODE_LOCAL

    @property
    def wires(self) -> float | None:
        """Return the sum of a node's adapters in GB/s; on one node, or in one NVLink domain, a GPU's link."""
        if not self.by_nics:
            return self.link_gbs
        return None if self.nics is None or self.nic_gbps is None else self.nics * self.nic_gbps / 8

    def lacking(self) -> tuple[str, ...]:
        """Return what is not said and would have to be."""
        needed = ("nics", "nic_gbps") if self.by_nics else ("link_gbs",)
        return tuple(name for name in needed if getattr(self, name) is None)

    def text(self) -> str:
        """Return the shape in a few words."""
        words = [f"{self.nodes} x {self.gpus} GPUs"]
        if self.by_nics and self.nics is not None and self.nic_gbps is not None:
            words.append(f"{self.nics} x {self.nic_gbps:g} Gbit/s per node")
        if not self.by_nics and self.link_gbs is not None:
            words.append(f"{self.link_gbs:g} GB/s per GPU")
        return ", ".join(words)


def ceiling(collective: str, shape: Shape) -> float | None:
    """Return the largest bus bandwidth in GB/s that the wires of a shape allow; None where they are not known.

    Between N nodes at least (N-1)/N of the data leaves each node (twice that for an all-reduce), by any algorithm: on
    two nodes an all-reduce that reduces inside the nodes first may show nearly twice the sum of the adapters. Inside
    a node a switch may reduce, so that an all-reduce sends and receives each byte of a GPU once.
    """
    ranks = shape.ranks
    times = factor(collective, ranks)
    if times is None or shape.wires is None or ranks < 2:
        return None
    inside = _inside(collective, ranks, shape.link_gbs)
    if not shape.by_nics:
        return inside
    if collective in PLAIN:
        return shape.wires
    # Bytes that leave a node for each byte of a rank's buffer.
    crossing = (2 if collective in TWICE else 1) * (shape.nodes - 1) / shape.nodes
    each = shape.gpus if collective == "all_to_all" else 1
    between = shape.wires * times / crossing / each
    return between if inside is None else min(between, inside)


def _inside(collective: str, ranks: int, link: float | None) -> float | None:
    """Return what a GPU's own link allows."""
    if link is None:
        return None
    return link * (2 * (ranks - 1) / ranks if collective in TWICE else 1.0)


@dataclasses.dataclass(frozen=True)
class Floor:
    """The least bus bandwidth of a collective, for one shape.

    Attributes:
        collective: its name.
        size: bytes from which on it holds.
        busbw: GB/s.
        shape: what it belongs to; None where nodes or GPUs are not said.
        device: how the GPU's name begins, or has in it; "" for any.
        origin: where it comes from.
    """

    collective: str
    size: int
    busbw: float
    shape: Shape | None
    device: str = ""
    origin: str = ""

    def text(self) -> str:
        """Return the floor in a few words."""
        where = self.shape.text() if self.shape is not None else "no shape"
        gpu = f" {self.device}" if self.device else ""
        return f"{self.collective} {self.busbw:g} GB/s from {size_text(self.size)}{gpu} ({where})"

    def implausible(self) -> str:
        """Return why a figure may not be compared with it, "" where nothing speaks against that."""
        if self.shape is None:
            return "it does not state its number of nodes and GPUs"
        if self.shape.lacking():
            return f"it does not state {' and '.join(self.shape.lacking())}"
        top, wires = ceiling(self.collective, self.shape), self.shape.wires
        if top is None or wires is None:
            return "its collective or its number of ranks has no bus bandwidth"
        if not math.isfinite(self.busbw) or self.busbw > top:
            return f"{self.busbw:g} GB/s is more than the wires carry ({top:.4g})"
        least = min(wires, top) * LEAST_SHARE
        if self.busbw < least:
            text = f"{self.busbw:g} GB/s is so low that sockets reach it"
            return f"{text} (the wires carry {top:.4g}, a floor needs {least:.3g})"
        if not self.origin:
            return "it does not state its origin"
        return ""


def floor_of(told: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> Floor:
    """Return a floor as a profile or a file has it; what it leaves out of the shape is taken from `defaults`."""

    def number(name: str) -> float | None:
        value = told.get(name)
        if value is None and defaults is not None:
            value = defaults.get(name)
        good = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        return float(value) if good and value is not None else None

    nodes, gpus, nics = number("nodes"), number("gpus"), number("nics")
    shape = None
    if nodes is not None and gpus is not None:
        transport = str(told.get("transport") or (defaults or {}).get("transport") or "")
        whole = None if nics is None else int(nics)
        shape = Shape(int(nodes), int(gpus), whole, number("nic_gbps"), number("link_gbs"), transport)
    return Floor(
        str(told.get("collective") or ""),
        int(number("size") or 0),
        number("busbw") or 0.0,
        shape,
        str(told.get("device") or ""),
        str(told.get("origin") or ""),
    )


def size_text(size: int) -> str:
    """Return bytes as `8`, `64K`, `1M`, `1G`, or in full where they are no whole unit."""
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)
