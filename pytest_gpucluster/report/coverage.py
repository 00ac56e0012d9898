"""On which GPU nodes a row was tried: node by node where there are few, else pool by pool."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gpucluster.plain import ranges
from pytest_gpucluster.report import identity

COLUMNS = 12
"""Most columns of the matrix: nodes, or pools of nodes if there are more."""

_LONG, _FIRST = 160, 5
"""Characters of a list of nodes that are shown as they are, and nodes that are named of a longer one."""

NO_POOL = "nodes without a pool"


@dataclasses.dataclass(frozen=True)
class Column:
    """A node, or a pool of nodes.

    Attributes:
        name: of the node or the pool.
        nodes: names of its nodes.
    """

    name: str
    nodes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Cell:
    """How many nodes of a column a row was tried on."""

    tried: int
    of: int


@dataclasses.dataclass(frozen=True)
class Row:
    """A row about machines: its cells, one per column, and the nodes that it was not tried on, why, and how old it is.

    Attributes:
        id: of the row.
        verdict: of the row.
        cells: one per column.
        missed: names of nodes on which it was not tried, in short.
        why: why it was not tried on them.
        at: when it was decided.
    """

    id: str
    verdict: str
    cells: tuple[Cell, ...]
    missed: str
    why: str
    at: str


@dataclasses.dataclass(frozen=True)
class Matrix:
    """Node x row, or pool x row."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    by_pool: bool


def matrix(report: Mapping[str, Any]) -> Matrix:
    """Return on which GPU nodes each row about machines was tried; without rows if nothing is known of nodes."""
    machines = report["cluster"].get("machines") or {}
    columns = _columns(machines)
    tried = identity.coverage(report)
    rows = [
        _row(row, columns, frozenset(tried[row["id"]]))
        for row in report["requirements"]
        if row["area"] in identity.OF_MACHINES and row["id"] in tried
    ]
    return Matrix(columns, tuple(rows), len(machines) > COLUMNS)


def _columns(machines: Mapping[str, Mapping[str, Any]]) -> tuple[Column, ...]:
    if len(machines) <= COLUMNS:
        return tuple(Column(name, (name,)) for name in machines)
    pools: dict[str, list[str]] = {}
    for name, facts in machines.items():
        pools.setdefault(str(facts.get("pool") or NO_POOL), []).append(name)
    found = [Column(name, tuple(nodes)) for name, nodes in sorted(pools.items())]
    if len(found) <= COLUMNS:
        return tuple(found)
    rest = found[COLUMNS - 1 :]
    nodes = tuple(node for column in rest for node in column.nodes)
    return (*found[: COLUMNS - 1], Column(f"{len(rest)} further pools", nodes))


def _row(row: Mapping[str, Any], columns: Sequence[Column], tried: frozenset[str]) -> Row:
    cells = tuple(Cell(sum(node in tried for node in each.nodes), len(each.nodes)) for each in columns)
    missed = [node for each in columns for node in each.nodes if node not in tried]
    # A scenario that takes some nodes leaves out the others by design; one that was not run has no cells.
    why = "its pods were not bound to them" if missed else ""
    return Row(row["id"], row["verdict"], cells, _named(missed), why, str(row["at"]))


def _named(nodes: Sequence[str]) -> str:
    """Return names of nodes in short: those that end in numbers as ranges, and of long lists the first."""
    every = ranges.names(nodes)
    if len(every) <= _LONG:
        return every
    return f"{', '.join(nodes[:_FIRST])} and {len(nodes) - _FIRST} more"
