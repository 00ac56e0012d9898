"""No row without its defects: a live one that a cluster of ours can play, and mutants of several kinds."""

import pytest

from pytest_gpucluster.provider import known_defects
from suites.defects import FLIPS
from suites.defects.reasons import BESIDE_NO_ROW, NEVER_FAILS, OUTAGES, REASONS, UNPLAYED
from tests.defects import kinds, matrix

pytestmark = pytest.mark.xdist_group("recordings")

LEAST = 3
"""Mutants of a row."""


def rows(level):
    """Return the ids of the rows of a level."""
    return {row.id for row in matrix.rows() if row.level == level}


def live(row, *, fail):
    """Return the live defects that fail a row, or that turn it red at all; those that stop a whole part left out."""
    return {
        defect
        for defect, flips in FLIPS.items()
        if row in flips and defect not in OUTAGES and (flips[row] == "fail" or not fail)
    }


def test_every_must_row_fails_under_a_live_defect():
    """Or the table says why no cluster of ours can play one."""
    lacking = {row for row in rows("must") if not live(row, fail=True)}
    assert lacking == (set(UNPLAYED) | set(NEVER_FAILS)) & rows("must")


def test_a_live_defect_beside_no_row_says_what_it_is_there_for():
    """A defect that nobody needs is no defect of ours; one that turns a row red has that row for its reason."""
    assert not set(FLIPS) & set(BESIDE_NO_ROW)
    assert set(BESIDE_NO_ROW) == set(known_defects()) - {defect for defect, flips in FLIPS.items() if flips}
    assert all(text.strip() for text in BESIDE_NO_ROW.values())


def test_every_control_is_spoilt_by_a_live_defect_for_a_reason_of_its_own():
    """The finding's text is in the table, so that the outage of something else is no reason."""
    lacking = {
        row
        for row in rows("control") | set(NEVER_FAILS)
        if not any(row in REASONS.get(defect, ()) for defect in live(row, fail=False))
    }
    assert lacking == set(UNPLAYED) & rows("control")


def test_a_stated_reason_is_needed():
    """No row stands in the table of reasons that a live defect turns red, and none that is neither MUST nor control."""
    assert set(UNPLAYED) <= rows("must") | rows("control")
    assert {row for row in UNPLAYED if live(row, fail=False)} == set()
    assert all(text.strip() for text in (*UNPLAYED.values(), *NEVER_FAILS.values()))


def test_rows_that_no_cluster_of_ours_can_play_do_not_apply_there():
    """A row that passes on the embedded cluster can be turned red there."""
    by_id = {row.id: row for row in matrix.rows()}
    assert {row for row in UNPLAYED if matrix.on_embedded(by_id[row]) == "pass"} == set()


def test_the_table_of_reasons_names_flips():
    """A reason is of a defect and a row that the tables have; an outage is a live defect."""
    assert {(defect, row) for defect, told in REASONS.items() for row in told} <= {
        (defect, row) for defect, flips in FLIPS.items() for row in flips
    }
    assert set(known_defects()) >= OUTAGES


def mutants(row):
    """Return the mutants that turn a row red."""
    return [mutant for mutant, flips in matrix.mutant_flips().items() if row.id in flips]


def test_every_row_has_mutants_of_several_kinds():
    """Three or more, not all of one kind, one or more of them with nothing removed."""
    poor = {}
    for row in matrix.rows():
        found = {mutant: kinds.of(mutant, row.scenario.name) for mutant in mutants(row)}
        whole = [mutant for mutant, kind in found.items() if kinds.REMOVES not in kind]
        if len(found) < LEAST or not whole or len(set(found.values())) < 2:
            poor[row.id] = {mutant: sorted(kind) for mutant, kind in found.items()}
    assert poor == {}


@pytest.mark.parametrize(
    ("mutant", "scenario", "kind"),
    [
        ("gang.last-starts-late", "healthy", kinds.MOVES),
        ("plugins.index-off-by-one", "healthy", kinds.CHANGES),
        ("refusal.stored-all-the-same", "invalid", kinds.ADDS),
        ("plugins.drop-index-label", "healthy", kinds.REMOVES),
        ("plugins.drop-env", "healthy", kinds.REMOVES),
        ("watch.cut", "scarce", kinds.REMOVES),
    ],
)
def test_kinds_are_told_apart(mutant, scenario, kind):
    """The kinds are measured on the evidence itself, not declared."""
    assert kinds.of(mutant, scenario) == {kind}
