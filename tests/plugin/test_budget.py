"""The budget of GPU-seconds: the cheapest first, and what is beyond it is never green."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.hooks import budget

pytest_plugins = ["pytester"]

ROWS = ("GANG-001 calm passes", "GANG-002 greedy passes", "REF-001 greedy passes level='should'")


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.floats(0, 300))
def test_the_cheapest_go_first_and_the_budget_holds(prices, limit):
    """What is run never costs more than the budget, and nothing that is run costs more than what is left out."""
    left_out = budget.beyond({f"s{n}": price for n, price in enumerate(prices)}, limit)
    run = [price for n, price in enumerate(prices) if f"s{n}" not in left_out]
    out = [price for n, price in enumerate(prices) if f"s{n}" in left_out]
    assert sum(run) <= limit + 1e-6
    assert not out or max(run, default=0) <= min(out)
    assert all(price > 0 for price in out)


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_what_is_beyond_the_budget_is_named_and_makes_the_run_red(project, workers):
    """Rows of the dear scenario are not run: told at the end, in record, JUnit and page; the exit code is not 0."""
    project.rows(*ROWS)
    result = project.run_apart("--gpucluster-max-gpu-seconds=39", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*= not run: budget =*",
            "GANG-002: not run: budget: scenario greedy takes 40 GPU-seconds, 39 of 39*",
        ]
    )
    assert [line for line in project.log if line.startswith("run ")] == ["run calm"]
    report = project.report()
    why = {row["id"]: row["why"] for row in report["not_run"]}
    assert set(why) == {"GANG-002", "REF-001"}
    assert why["GANG-002"].startswith("budget: scenario greedy takes 40 GPU-seconds")
    assert report["run"]["exit_status"] == 1
    assert report["answer"]["word"] == "undecided"
    errors = [e.get("type") for e in ET.parse(project.latest / "junit.xml").iter("error")]  # noqa: S314
    assert errors == ["not run", "not run"]
    assert "budget: scenario greedy" in (project.latest / "report.html").read_text(encoding="utf-8")


def test_a_budget_that_suffices_changes_nothing(project):
    """Where all fits, all is run and the run is green."""
    project.rows(*ROWS)
    result = project.run("--gpucluster-max-gpu-seconds=40")
    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": 3}


def test_a_run_without_anything_left_is_recorded_and_red(project):
    """A budget of nothing touches no cluster, and says what it left out all the same."""
    project.rows("GANG-002 greedy passes")
    result = project.run("--gpucluster-max-gpu-seconds=0")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert project.log == []
    assert [row["id"] for row in project.report()["not_run"]] == ["GANG-002"]


def test_rows_that_were_deselected_are_not_blamed_on_the_budget(project):
    """Only what was selected and left out makes the run red."""
    project.rows(*ROWS)
    result = project.run("--gpucluster-max-gpu-seconds=1", "-k", "GANG-001")
    assert result.ret == 0
    assert {row["id"]: row["why"] for row in project.report()["not_run"]}["GANG-002"].startswith("deselected")


@pytest.mark.parametrize("value", ["many", "-1", "inf", "nan"])
def test_a_budget_is_a_number(project, value):
    """Anything else is told in one line."""
    project.rows(*ROWS)
    result = project.run(f"--gpucluster-max-gpu-seconds={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            f"ERROR: option --gpucluster-max-gpu-seconds = '{value}': must be a number of GPU-seconds, 0 or more"
        ]
    )
