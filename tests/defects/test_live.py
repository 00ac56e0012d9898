"""Every live defect turns red exactly the rows that the table names; run by `make defects` and `make cells`."""

import pathlib

import pytest

from suites.defects import FLIPS
from tests.defects import matrix
from tests.endtoend import harness

pytestmark = pytest.mark.matrix

TORCH = {row.id for row in matrix.rows() if row.scenario.needs.torch}
"""Rows whose payload needs torch: the slowest, run only under the defects that turn one of them."""


def declaring(defect: str) -> list[str]:
    """Return the rows that name a defect as one that turns them red."""
    return [row.id for row in matrix.rows() if defect in row.defects]


def selection(defect: str, *, declared: bool) -> tuple[str, ...]:
    """Return how the rows are chosen that are run under a defect."""
    if declared:
        return ("-k", " or ".join(declaring(defect)))
    return () if TORCH & set(FLIPS[defect]) else ("-m", "not torch")


def verdicts_under(folder: pathlib.Path, *args: str) -> dict[str, str]:
    """Run the suite in a process of its own; returns requirement id -> verdict."""
    harness.run_suite(folder, *args, timeout=900)
    report = harness.report_of(folder)
    assert not report["cleanup"]["left_overs"], report["cleanup"]
    return harness.verdicts(report)


@pytest.mark.parametrize("defect", sorted(FLIPS))
def test_a_defect_turns_red_exactly_its_rows(defect, tmp_path, measured, pytestconfig):
    """The rows of the table have their verdict, every other row that was run still passes."""
    chosen = selection(defect, declared=pytestconfig.getoption("declared"))
    verdicts = verdicts_under(tmp_path, f"--gpucluster-defect={defect}", *chosen)
    red = {row: verdict for row, verdict in verdicts.items() if verdict != "pass"}
    measured(defect, red)
    assert verdicts, "nothing was run under the defect"
    assert red == {row: verdict for row, verdict in FLIPS[defect].items() if row in verdicts}


@pytest.mark.parametrize("defect", sorted(FLIPS))
def test_some_row_declares_the_defect(defect):
    """A defect that no row names would not be planted by `make cells`."""
    assert declaring(defect)
