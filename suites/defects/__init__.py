"""Which rows each planted defect turns red: the reviewed tables, one module an area.

`FLIPS` are live defects of the embedded cluster, `MUTANT_FLIPS` changes of the recorded evidence of a passing run. A
row that is not named stays `pass` under the defect. `environment` and `inconclusive` are red too: they name the
prerequisite that failed. The matrix tests compare exactly.
"""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping

Table = Mapping[str, Mapping[str, str]]

_AREAS = tuple(
    importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
)


def _one(tables: Iterable[Table]) -> Table:
    merged: dict[str, Mapping[str, str]] = {}
    for table in tables:
        twice = sorted(set(merged) & set(table))
        if twice:
            raise ValueError(f"defect {twice[0]!r} stands in two tables of suites/defects")
        merged.update(table)
    return merged


FLIPS: Table = _one(getattr(area, "FLIPS", {}) for area in _AREAS)
"""Live defect -> {requirement id: verdict}."""

MUTANT_FLIPS: Table = _one(getattr(area, "MUTANT_FLIPS", {}) for area in _AREAS)
"""Evidence mutant -> {requirement id: verdict}."""
