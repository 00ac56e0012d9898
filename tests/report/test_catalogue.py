"""The catalogue lists every row once, in order."""

from pytest_gpucluster.requirement import AREAS, DOCUMENTS, SITE, catalogue
from tests.report import sample


def test_ids_are_unique_and_in_order() -> None:
    """Areas follow one another, numbers ascend from 001 within each."""
    ids = [row.id for row in catalogue.rows()]
    assert ids == sorted(set(ids), key=catalogue.order)
    assert {row_id.partition("-")[0] for row_id in ids} == set(AREAS) - {SITE}
    for prefix in AREAS:
        numbers = [int(row_id[-3:]) for row_id in ids if row_id.startswith(f"{prefix}-")]
        assert numbers == list(range(1, len(numbers) + 1))


def test_letters_have_a_meaning() -> None:
    """Documents and places are among the known ones, and each row has some."""
    for row in catalogue.rows():
        assert set() < set(row.documents) <= set(DOCUMENTS), row.id
        assert set() < set(row.runs) <= set(catalogue.RUNS), row.id
        assert row.title[-1] not in ". ", row.id


def test_a_declaration_that_differs_from_the_catalogue_is_named() -> None:
    """Level and documents of a test are those of its row; requirements of a site's own have no row to differ from."""
    assert "SITE-001" in {row.id for row in sample.make_suite().registry}
    assert catalogue.disagreements(sample.make_suite().registry) == [
        "REF-002: documents R J in the test, J in the catalogue"
    ]


def test_a_row_of_ones_own_is_not_in_the_catalogue() -> None:
    """Looking up an unknown id gives nothing."""
    assert catalogue.row("GANG-999") is None
    assert catalogue.row("SITE-001") is None


def test_requirements_of_a_sites_own_come_last() -> None:
    """After every area of the catalogue, by number."""
    ids = ["SITE-002", "TRN-003", "SITE-001", "INV-001"]
    assert sorted(ids, key=catalogue.order) == ["INV-001", "TRN-003", "SITE-001", "SITE-002"]
