"""Each fault of the table, planted into a real cluster: the rows that it concerns say so.

`pytest tests/kind -m kind` runs it where kind and a container engine are; the table is printed at the end, and written
into the documentation where every fault was planted.
"""

import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.kind.lab import ROOT, Lab
from tests.kind.misconfigurations import faults, table

pytestmark = pytest.mark.kind

PAGE: pathlib.Path = ROOT / "docs" / "reference" / "misconfigurations.md"


@pytest.fixture(scope="module")
def told(show: Callable[[str], None]) -> Iterator[list[table.Row]]:
    """What came of each fault; the table is shown when all were planted."""
    rows: list[table.Row] = []
    yield rows
    if rows:
        show(table.markdown(rows))
        if len(rows) == len(faults.FAULTS):
            PAGE.write_text(table.page(rows), encoding="utf-8")


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_seen(fault: faults.Fault, kind_lab: Lab, told: list[table.Row]) -> None:
    """The rows of a fault have a verdict that the table allows, and name where the fault is."""
    kind_lab.require(fault.needs)
    with fault.plant(kind_lab):
        found = kind_lab.decide(fault.name, " or ".join(fault.rows), changes=fault.changes)
    rows = [table.row(fault, found)]
    told += rows
    assert set(found) == set(fault.rows), "a row was not decided"
    for row, allowed in fault.rows.items():
        assert found[row]["verdict"] in allowed, found[row]
    for row, place in fault.tells.items():
        assert place(kind_lab) in str(found[row]), found[row]
