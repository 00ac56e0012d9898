"""The suite as a whole: every row declared, documented and shown to fail."""

import inspect
import json
import pathlib

import pytest

from pytest_gpucluster.hooks import offered
from pytest_gpucluster.mutants import MUTANTS
from pytest_gpucluster.report.suites import defects, load_suites
from pytest_gpucluster.requirement import REGISTRY, Verdict
from suites.defects import FLIPS

MUTANT_FLIPS = {name: mutant.flips for name, mutant in MUTANTS.items()}
GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "endtoend" / "golden.json"


@pytest.fixture(scope="module")
def rows():
    """Return all declared requirements by id."""
    load_suites()
    return {row.id: row for row in REGISTRY if row.where.startswith(("suites.", "pytest_gpucluster.suites."))}


def test_exactly_the_built_rows_are_declared(rows):
    """No row is lost, none appears without being reviewed here."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    without_torch = [row.id for row in rows.values() if not row.scenario.needs.torch]
    assert sorted(without_torch) == sorted(row["id"] for row in golden)


def test_every_row_speaks_in_must_or_should(rows):
    """The docstring holds the normative word."""
    for row in rows.values():
        assert "MUST" in row.text or "SHOULD" in row.text, row.id


def test_every_row_is_turned_red_by_a_planted_defect(rows):
    """The tables flip each row at least once; its defects follow from them and are written nowhere else."""
    flips = {**FLIPS, **MUTANT_FLIPS}
    assert {row for flipped in flips.values() for row in flipped} == set(rows)
    for row in rows.values():
        assert row.defects == (), f"{row.id} declares what the tables say"
        assert defects(row, MUTANT_FLIPS), row.id


def test_the_tables_name_only_what_exists(rows):
    """Defects, rows and verdicts of the tables are real ones."""
    from pytest_gpucluster.provider import known_defects

    assert set(FLIPS) <= set(known_defects())
    for flips in (*FLIPS.values(), *MUTANT_FLIPS.values()):
        assert set(flips) <= set(rows)
        assert {Verdict(verdict) for verdict in flips.values()} <= set(Verdict) - {Verdict.PASS}


def test_what_makes_pods_says_so() -> None:
    """A plan names the images that a profile lacks by the needs of scenarios."""
    for row in load_suites():
        run = row.scenario.run  # type: ignore[attr-defined]
        source = inspect.getsource(inspect.getmodule(run))  # type: ignore[arg-type]
        needs = row.scenario.needs  # type: ignore[attr-defined]
        if "image(stage" in source:
            assert any(getattr(needs, what) for what in offered.MAKE_PODS), row.scenario.name
        if 'image(stage, "torch")' in source and 'image(stage, "python")' not in source:
            assert needs.torch, row.scenario.name
