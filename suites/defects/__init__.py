"""Which rows each planted defect turns red: the reviewed tables, one module an area.

`FLIPS` are live defects of the embedded cluster, `MUTANT_FLIPS` changes of the recorded evidence of a passing run. A
row that is not named stays `pass` under the defect. `environment` and `inconclusive` are red too: they name the
prerequisite that failed. The matrix tests compare exactly.
"""

from collections.abc import Iterable, Mapping

from . import (
    added,
    at_no_time,
    contention,
    dropped,
    exchanged,
    fabric,
    faults,
    gang,
    health,
    inventory,
    kueue,
    lifecycle,
    mfu,
    mishaps,
    moved,
    numa,
    plugins,
    refusal,
    rendezvous,
    trainer,
    watch,
)

Table = Mapping[str, Mapping[str, str]]

_AREAS = (
    added,
    at_no_time,
    contention,
    dropped,
    exchanged,
    faults,
    mishaps,
    moved,
    inventory,
    gang,
    refusal,
    plugins,
    lifecycle,
    rendezvous,
    kueue,
    numa,
    fabric,
    health,
    mfu,
    trainer,
    watch,
)


def _one(tables: Iterable[Table]) -> Table:
    merged: dict[str, Mapping[str, str]] = {}
    for table in tables:
        twice = sorted(set(merged) & set(table))
        if twice:
            raise ValueError(f"defect {twice[0]!r} stands in two tables of suites/defects")
        merged.update(table)
    return merged


FLIPS: Table = _one(area.FLIPS for area in _AREAS)
"""Live defect -> {requirement id: verdict}."""

MUTANT_FLIPS: Table = _one(area.MUTANT_FLIPS for area in _AREAS)
"""Evidence mutant -> {requirement id: verdict}."""
