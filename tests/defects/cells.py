"""Which rows `make cells` runs under which live defects: as few as show each defect, and each row turned red."""

import functools

from pytest_gpucluster.requirement import flips
from suites.defects import FLIPS, TABLES
from suites.defects.reasons import OUTAGES, REASONS
from tests.defects import matrix

Cell = tuple[str, str]
"""Live defect, requirement id."""


@functools.cache
def cells() -> frozenset[Cell]:
    """Return the cells.

    Those of a defect are the rows of its own area among the rows that it is for; if there are none, all that it is
    for; if it is for none, all that it turns red. Rows whose reason is told are among them. A row that is left without
    a cell has one under the first defect that it has, outages last.
    """
    found: set[Cell] = set()
    of_rows = {row.id: flips.of_row(row.id, row.area, FLIPS, {}) for row in matrix.rows()}
    area = {row.id: row.area for row in matrix.rows()}
    for defect, flipped in FLIPS.items():
        there_for = {row for row, defects in of_rows.items() if defect in defects} or set(flipped)
        own = {row for row in there_for if area[row] == TABLES[defect]}
        found |= {(defect, row) for row in own or there_for}
    found |= {(defect, row) for defect, told in REASONS.items() for row in told}
    shown = {row for _, row in found}
    for row, defects in of_rows.items():
        if defects and row not in shown:
            found.add((min(defects, key=lambda defect: (defect in OUTAGES, defect)), row))
    return frozenset(found)
