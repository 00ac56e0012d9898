"""Every evidence mutant flips exactly the rows of the table, every row is flipped, and rows are told apart."""

import pytest

from pytest_gpucluster import mutants
from suites.defects import FLIPS
from tests.defects import matrix

# One worker reads the recordings, once.
pytestmark = pytest.mark.xdist_group("recordings")


def test_every_row_passes_on_the_recorded_evidence():
    """The matrix starts from a run in which all is well."""
    assert {row: verdict for row, verdict in matrix.baseline().items() if verdict != "pass"} == {}


@pytest.mark.parametrize("mutant", sorted(mutants.MUTANTS))
def test_a_mutant_flips_exactly_its_rows(mutant, measured):
    """The rows that it names get their verdict; every other row keeps its pass."""
    flips = dict(matrix.flips_of(mutant))
    measured(mutant, flips)
    assert flips == dict(mutants.MUTANTS[mutant].flips)


def test_every_row_is_flipped_by_a_mutant():
    """No row stands that no change of its evidence can turn red."""
    flipped = {row for mutant in mutants.MUTANTS.values() for row in mutant.flips}
    assert flipped == {row.id for row in matrix.rows()}


def test_rows_of_an_area_are_told_apart():
    """For every two rows of an area some defect treats them differently."""
    assert list(matrix.alike({**FLIPS, **matrix.mutant_flips()})) == []
