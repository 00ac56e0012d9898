"""The suites are found beside or inside the package and imported once."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_gpucluster.report import suites
from pytest_gpucluster.requirement import REGISTRY, catalogue

MODULE = '''
from pytest_gpucluster.requirement import Finding, Verdict, requirement


class Scenario:
    name = "none"


@requirement("TRN-003", level="should", documents="+", scenario=Scenario(), defects=["x.own"],
             judge=lambda evidence, given: Finding(Verdict.PASS, "-", "-"))
def test_it():
    """A title.

    It SHOULD hold.
    """


FLIPS = {"x.table": {"TRN-003": "fail"}}
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a suites package of a test's own in place of the shipped one."""
    place = tmp_path / "suites_of_a_test"
    (place / "area").mkdir(parents=True)
    (place / "__init__.py").write_text("")
    (place / "area" / "__init__.py").write_text("")
    (place / "conftest.py").write_text("raise RuntimeError('a conftest is pytest\\'s to import')")
    (place / "area" / "test_one.py").write_text(MODULE)
    monkeypatch.setattr(suites, "location", lambda: (place, place.name))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(REGISTRY, "_by_id", {})
    yield place
    for name in [name for name in sys.modules if name.startswith(place.name)]:
        del sys.modules[name]


def test_every_module_is_imported_once(folder: Path) -> None:
    """Loading twice declares each requirement once."""
    assert [row.id for row in suites.load_suites()] == ["TRN-003"]
    assert len(suites.load_suites()) == 1


def test_flips_come_from_tables_and_declarations(folder: Path) -> None:
    """A defect is listed with the rows that it turns red."""
    found = suites.flips({"x.mutant": {"TRN-003": "inconclusive"}})
    assert found["x.table"] == {"TRN-003": "fail"}
    assert found["x.mutant"] == {"TRN-003": "inconclusive"}
    assert found["x.own"] == {"TRN-003": ""}


def test_a_module_that_fails_is_named(folder: Path) -> None:
    """The error says which module, and why."""
    (folder / "area" / "test_two.py").write_text("import no_such_module\n")
    with pytest.raises(
        suites.SuiteError, match=r"cannot import suites_of_a_test\.area\.test_two: ModuleNotFound"
    ):
        suites.load_suites()


def test_the_shipped_suites_agree_with_the_catalogue() -> None:
    """Level and documents of every test are those of its row, and every id is in the catalogue."""
    assert suites.location() is not None
    registry = suites.load_suites()
    assert len(registry) > 0
    assert catalogue.disagreements(registry) == []


def test_every_defect_of_the_table_can_be_planted() -> None:
    """A defect that turns a row red is one that the embedded cluster knows, or a mutant of evidence."""
    from pytest_gpucluster import provider
    from pytest_gpucluster.mutants import MUTANTS

    assert set(suites.flips({})) <= {*provider.known_defects(), *MUTANTS}
