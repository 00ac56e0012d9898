"""The suite as a whole: every row declared, documented and shown to fail."""

import pathlib

import pytest

from pytest_gpucluster.report.suites import load_suites
from pytest_gpucluster.requirement import REGISTRY, Verdict
from suites.defects import FLIPS

BUILT = [
    "INV-001", "GANG-001", "GANG-002", "GANG-004", "GANG-008", "REF-001", "REF-003", "PLG-001", "PLG-003",
    "PLG-005", "LIFE-001", "LIFE-002", "RDZV-001",
]  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    """Return all declared requirements by id."""
    load_suites()
    return {row.id: row for row in REGISTRY if row.where.startswith(("suites.", "pytest_gpucluster.suites."))}


def test_exactly_the_built_rows_are_declared(rows):
    """No row is lost, none appears without being reviewed here."""
    assert list(rows) == BUILT


def test_every_row_speaks_in_must_or_should(rows):
    """The docstring holds the normative word."""
    for row in rows.values():
        assert "MUST" in row.text or "SHOULD" in row.text, row.id


def test_every_row_is_turned_red_by_a_planted_defect(rows):
    """The table flips each row at least once, and agrees with what the rows declare."""
    flipped = {row for flips in FLIPS.values() for row in flips}
    assert flipped == set(BUILT)
    for row in rows.values():
        assert row.defects, row.id
        for defect in row.defects:
            assert row.id in FLIPS[defect], f"{row.id} declares {defect}, the table does not flip it"


def test_the_table_names_only_what_exists(rows):
    """Defects, rows and verdicts of the table are real ones."""
    from pytest_gpucluster.provider import known_defects

    assert set(FLIPS) <= set(known_defects())
    for flips in FLIPS.values():
        assert set(flips) <= set(rows)
        assert {Verdict(verdict) for verdict in flips.values()} <= set(Verdict) - {Verdict.PASS}


def test_the_generated_reference_is_fresh():
    """docs/reference is what the registry says now."""
    from docs.generate import pages

    root = pathlib.Path(__file__).resolve().parents[2]
    for name, text in pages().items():
        assert (root / "docs" / "reference" / name).read_text(encoding="utf-8") == text, (
            f"docs/reference/{name} is stale: run python -m docs.generate"
        )
