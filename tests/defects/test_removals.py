"""Each piece of good evidence, taken away alone, leaves no row green that needs it."""

import random

import pytest

from pytest_gpucluster.judge import needs, needs_of_judges
from pytest_gpucluster.report import decisions
from tests import amount
from tests.defects import matrix, pieces, reading

# One worker reads the recordings, once.
pytestmark = pytest.mark.xdist_group("recordings")

ROWS = {row.id: row for row in matrix.rows()}
SCENARIOS = sorted({row.scenario.name for row in matrix.rows()})


def taken(evidence):
    """Return the pieces to try: all of them, or of those that are treated alike one each, drawn anew in each run."""
    found = list(pieces.pieces(evidence))
    if amount.all_of_it():
        return found
    random.shuffle(found)
    return list({(piece.sort, piece.alike): piece for piece in found}.values())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_row_passes_without_a_piece_that_it_needs(scenario):
    """The evidence of a passing run less one piece is no passing evidence for a row that needs the piece."""
    evidence = matrix.evidence(scenario)
    rows = [row for row in matrix.rows() if row.scenario.name == scenario]
    wanted = {row.id: pieces.Wanted(row, evidence) for row in rows}
    green = []
    for piece in taken(evidence):
        judging = [row for row in rows if wanted[row.id].needs(piece)]
        less = piece.without() if judging else evidence
        green += [
            f"{row.id} without {piece.sort} {piece.what}"
            for row in judging
            if decisions.decide(row, less).verdict == "pass"
        ]
    assert green == []


def test_the_table_names_judges_that_there_are():
    """An entry under a misspelt name would ask nothing of anybody."""
    judges = {needs_of_judges.name_of(row.judge) for row in matrix.rows()}
    assert set(needs_of_judges.NEEDED) <= judges


TOLD_TWICE = {"period": "scheduler_period", "spread": "bind_spread"}
"""Keys of `given` beside which the profile's own stand, that all scenarios tell."""
PERHAPS = {"kueue", "further_schedulers", "interface", "secondary"}
"""Keys of `given` that a profile may leave out; whoever needs one says so when it is absent."""
SAID_AGAIN = {"rank": {"gemm", "train", "smoke"}, "asked": {"wired"}}
"""Events whose content each of others repeats."""
BESIDE = {"CKPT-003": {"saved"}}
"""Row -> events that its finding sets beside its figures, and that do not decide."""


@pytest.mark.parametrize("row", ROWS)
def test_what_a_judge_reads_its_row_needs(row):
    """The table of needs leaves out nothing that the judge goes by: what payloads say, and what scenarios tell it."""
    evidence = matrix.evidence(ROWS[row].scenario.name)
    stated = needs_of_judges.of(ROWS[row].judge)
    events, given = reading.read(ROWS[row], evidence)
    told = {*stated.facts, *stated.some, *stated.told}
    assert {
        event for event in events - told - BESIDE.get(row, set()) if not SAID_AGAIN.get(event, set()) & told
    } == set()
    assert given - {*needs.DECLARED, *stated.given, *TOLD_TWICE, *PERHAPS} == set()
