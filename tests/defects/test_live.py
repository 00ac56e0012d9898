"""Every live defect turns red exactly the rows that the table names; run by `make defects` and `make cells`."""

from collections.abc import Collection

import pytest

from pytest_gpucluster.provider import ProviderError, switching
from pytest_gpucluster.provider import defects as planting
from pytest_gpucluster.requirement import Requirement
from suites.defects import FLIPS
from suites.defects.reasons import REASONS
from tests.defects import cells, matrix

pytestmark = pytest.mark.matrix

TORCH = {row.id for row in matrix.rows() if row.scenario.needs.torch}
"""Rows whose payload needs torch: the slowest, run only under the defects that turn one of them."""


def declaring(defect: str) -> list[Requirement]:
    """Return the rows that `make cells` runs under a defect."""
    return [row for row in matrix.rows() if (defect, row.id) in cells.cells()]


def together(defect: str) -> list[pytest.MarkDecorator]:
    """Return the mark that gives defects of torch rows to one of two workers.

    Two cores carry one world of ranks at a time that computes, and beside it an elastic one, which waits for time-outs
    for most of its life.
    """
    worlds = {row.scenario.name for row in declaring(defect) if row.id in TORCH}
    if not worlds:
        return []
    waits = all(name.startswith("elastic") for name in worlds)
    return [pytest.mark.xdist_group("elastic" if waits else "torch")]


def chosen(defect: str, *, declared: bool) -> list[Requirement]:
    """Return the rows that are run under a defect."""
    if declared:
        return declaring(defect)
    with_torch = bool(TORCH & set(FLIPS[defect]))
    return [row for row in matrix.rows() if with_torch or row.id not in TORCH]


def switched(row: Requirement) -> set[str]:
    """Return the live defects that `make cells` runs a row under and that can be switched."""
    return {defect for defect, row_id in cells.cells() if row_id == row.id} - planting.at_start()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Take every scenario whose rows declare defects; those that need torch, the slowest, only for the whole table."""
    if "scenario" in metafunc.fixturenames:
        declared = metafunc.config.getoption("declared")
        rows = [row for row in matrix.rows() if switched(row) and not (declared and row.id in TORCH)]
        metafunc.parametrize("scenario", sorted({row.scenario.name for row in rows}))


def healthy(rows: Collection[Requirement]) -> dict[str, str]:
    """Return the verdicts of rows on a cluster in which nothing is planted."""
    return {row.id: matrix.on_embedded(row) for row in rows}


@pytest.mark.parametrize("defect", [pytest.param(defect, marks=together(defect)) for defect in sorted(FLIPS)])
def test_a_defect_turns_red_exactly_its_rows(defect, lab, measured, pytestconfig):
    """The rows of the table have their verdict, for the reason told; every other row that was run still passes."""
    rows = chosen(defect, declared=pytestconfig.getoption("declared"))
    with lab.planted(defect) as cluster:
        findings = lab.decided(cluster, rows)
        verdicts = {row: str(finding.verdict) for row, finding in findings.items()}
        sound = healthy(rows)
        measured(defect, {row: verdict for row, verdict in verdicts.items() if verdict != sound[row]})
        assert verdicts, "nothing was run under the defect"
        assert verdicts == sound | {row: v for row, v in FLIPS[defect].items() if row in sound}
        for row, text in REASONS.get(defect, {}).items():
            assert row not in findings or text in findings[row].observed


def test_rows_pass_once_their_defects_are_switched_off(scenario, lab):
    """On a cluster in which each defect that rows of a scenario declare was in force, they pass when none is."""
    rows = [row for row in matrix.rows() if row.scenario.name == scenario and switched(row)]
    for defect in sorted({defect for row in rows for defect in switched(row)}):
        with lab.planted(defect):
            pass
    with lab.planted() as cluster:
        assert lab.verdicts(cluster, rows) == healthy(rows)


def test_only_what_can_be_switched_is_switched(lab):
    """An unknown defect, and one that changes the start of the cluster, are refused in one line; nothing changes."""
    with lab.planted("gang.forgets-room") as cluster:
        with pytest.raises(ProviderError, match=r"^unknown defect 'gang.forgets-rom'; did you mean"):
            switching.switch(cluster, ["gang.forgets-rom"])
        with pytest.raises(
            ProviderError, match=r"^defect 'scheduler.down' changes the start of the cluster: "
        ):
            switching.switch(cluster, ["scheduler.down"])
        rows = declaring("gang.forgets-room")
        assert lab.verdicts(cluster, rows) == {row.id: FLIPS["gang.forgets-room"][row.id] for row in rows}


def test_every_defect_has_a_cell():
    """And so has every row that a live defect turns red."""
    assert {defect for defect, _ in cells.cells()} == set(FLIPS)
    assert {row for _, row in cells.cells()} == {row for flips in FLIPS.values() for row in flips}
