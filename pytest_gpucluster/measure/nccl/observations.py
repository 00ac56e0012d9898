"""What was read of a log: sets of distinct statements, bounded, so that neither length nor order of the log matters."""

import dataclasses
from typing import NamedTuple

from pytest_gpucluster.measure.nccl import line_patterns
from pytest_gpucluster.measure.nccl.faults import Fault, Stall
from pytest_gpucluster.measure.nccl.table import Table

MOST = 100_000
"""Distinct statements of one kind that are kept."""


class Process(NamedTuple):
    """Who printed: host and process. A host that begins with `?` could not be told from what was glued to it."""

    host: str
    pid: int


class Link(NamedTuple):
    """A connection and who printed it."""

    process: Process
    cuda: int
    channel: line_patterns.Channel


class Member(NamedTuple):
    """A rank of a communicator and who printed it."""

    process: Process
    cuda: int
    comm: line_patterns.Comm


class Trouble(NamedTuple):
    """An error, a warning, or a call that failed: who printed it, and when.

    Attributes:
        fault: what it says.
        process: who printed it, as far as that is known.
        rank: of PyTorch's or mpirun's tag; -1 where there is none.
        pod: of kubectl's tag.
        where: file and line of NCCL's source.
        stamp: its time, as far as it has one.
        order: its place among all of them.
    """

    fault: Fault
    process: Process
    rank: int
    pod: str
    where: str
    stamp: str
    order: int


class First(NamedTuple):
    """A warning, by when it was printed."""

    stamp: str
    order: int
    process: Process
    where: str
    text: str


@dataclasses.dataclass
class Seen:
    """All statements."""

    links: set[Link] = dataclasses.field(default_factory=set)
    members: set[Member] = dataclasses.field(default_factory=set)
    timings: set[tuple[Process, int, int]] = dataclasses.field(default_factory=set)
    selected: set[tuple[Process, str]] = dataclasses.field(default_factory=set)
    half_selected: set[tuple[Process, str]] = dataclasses.field(default_factory=set)
    """From records that may be cut."""
    lists: set[tuple[Process, str, tuple[line_patterns.Hca, ...]]] = dataclasses.field(default_factory=set)
    virtual: set[tuple[str, int, tuple[str, ...]]] = dataclasses.field(default_factory=set)
    """Host, index of a device made of several ports, adapters."""
    providers: set[tuple[Process, str]] = dataclasses.field(default_factory=set)
    settings: set[tuple[Process, str, str]] = dataclasses.field(default_factory=set)
    versions: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    adapters_gdr: set[tuple[Process, bool, str]] = dataclasses.field(default_factory=set)
    pairs_gdr: set[tuple[Process, bool, str]] = dataclasses.field(default_factory=set)
    plugins: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    """State (loaded, initialized, absent, failed) and name."""
    faults: set[tuple[Process, Fault]] = dataclasses.field(default_factory=set)
    troubles: dict[tuple[str, Process, int, str], Trouble] = dataclasses.field(default_factory=dict)
    """Class, process, rank and pod -> the first of its class of them."""
    warned: dict[tuple[Process, str, str], Trouble] = dataclasses.field(default_factory=dict)
    """Warnings and errors of no known class, by who printed them and their text."""
    traces: dict[Process, tuple[str, int]] = dataclasses.field(default_factory=dict)
    """Process in which a call of NCCL failed -> where, and what it returned."""
    stalls: set[Stall] = dataclasses.field(default_factory=set)
    works: set[tuple[int, int]] = dataclasses.field(default_factory=set)
    """Last enqueued and last completed work."""
    outcomes: set[str] = dataclasses.field(default_factory=set)
    """Words in which programs say that NCCL or a GPU failed."""
    aborts: set[tuple[Process, int]] = dataclasses.field(default_factory=set)
    mtus: set[int] = dataclasses.field(default_factory=set)
    hosts: set[str] = dataclasses.field(default_factory=set)
    """Hosts whose name stands free."""
    nvls: set[str] = dataclasses.field(default_factory=set)
    mnnvl: bool = False
    rocm: bool = False
    """Whether a line tells that AMD's RCCL is at work."""
    noted: set[str] = dataclasses.field(default_factory=set)
    """Warnings that say nothing against a run by themselves."""
    kernels: set[str] = dataclasses.field(default_factory=set)
    collnet: bool = False
    first: First | None = None
    table: Table = dataclasses.field(default_factory=Table)
    records: int = 0
    torn: int = 0
    headless: int = 0
    """Lines of NCCL from which host and process were stripped."""
    folded: bool = False
    cut: bool = False
    """Whether the log ends in the middle of a record."""
    long: bool = False
    full: bool = False
    """Whether there was more than is kept."""

    def put(self, where: "set[object]", what: object) -> None:
        """Keep a statement, within the bound."""
        if len(where) < MOST:
            where.add(what)
        elif what not in where:
            self.full = True
