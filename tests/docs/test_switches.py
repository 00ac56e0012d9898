"""Which rows a profile key switches on, as the reference tells it."""

import pytest

from docs import switches
from pytest_gpucluster.report.suites import load_suites
from pytest_gpucluster.requirement import Requirement, is_site


@pytest.fixture(scope="module")
def rows() -> dict[str, Requirement]:
    """Return some rows of the suite by id."""
    wanted = (
        "INV-010",
        "FAB-005",
        "FAB-013",
        "MFU-001",
        "MFU-002",
        "GANG-002",
        "GANG-007",
        "KUE-001",
        "TRN-003",
    )
    return {name: load_suites().get(name) for name in wanted}


def test_a_section_switches_on_the_rows_that_try_it(rows: dict[str, Requirement]) -> None:
    """One by what its scenario needs, one by what it looks at first; a gang needs no section."""
    found = switches.by_key(list(rows.values()), {"kueue": None, "fabric": None, "further_schedulers": []})
    assert found == {"kueue": ("KUE-001",), "fabric": ("FAB-005",), "further_schedulers": ("TRN-003",)}


def test_a_leaf_switches_on_the_rows_that_compare_with_it(rows: dict[str, Requirement]) -> None:
    """Two leaves of which either suffices are both named; a leaf that no judge needs is not."""
    empty = {
        "bind_spread": None, "start_spread": None, "interface": None, "pool_label": None, "fabric": None,
        "fabric.hcas": [], "fabric.network": None, "mfu.floors": [], "mfu.spread": None, "mfu.training.mfu": None,
    }  # fmt: skip
    found = switches.by_key([row for name, row in rows.items() if name != "KUE-001"], empty)
    assert found == {
        "bind_spread": ("GANG-007",),
        "start_spread": ("GANG-007",),
        "interface": ("FAB-013",),
        "fabric": ("FAB-005",),
        "fabric.hcas": ("FAB-005",),
        "mfu.floors": ("MFU-001",),
        "mfu.floor_file": ("MFU-001",),
        "mfu.spread": ("MFU-001",),
        "mfu.training.mfu": ("MFU-002",),
    }


def test_rows_that_do_not_fit_a_scheduler_are_those_that_whole_runs_leave_out() -> None:
    """By the registry, by what its dialect can write, and by what its watches show; whole runs came to the same."""
    every = [row for row in load_suites() if not is_site(row.id)]
    found = switches.by_scheduler(every)
    about_volcano = {row.id for row in every if row.schedulers == ("volcano",)}
    assert found["volcano"] == ()
    assert set(found["native"]) == about_volcano | {"INV-005"}
    assert set(found["kueue"]) == about_volcano | {"GANG-003", "GANG-009", "REF-008"}
    assert set(found["default-scheduler"]) == about_volcano | {"GANG-003", "GANG-009", "INV-001", "INV-005"}


def test_rows_without_pods_are_those_that_need_none(rows: dict[str, Requirement]) -> None:
    """A gang is decided on binds alone; traffic is not."""
    found = switches.without_pods(rows.values())
    assert "GANG-002" in found
    assert "FAB-005" not in found
