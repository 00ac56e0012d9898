"""The deadline of a run, and the bound of nodes: what is not begun is named and never green."""

import xml.etree.ElementTree as ET

import pytest

from pytest_gpucluster.hooks import settings

pytest_plugins = ["pytester"]

ROWS = (
    "GANG-001 slow passes",
    "GANG-003 slow passes",
    "GANG-002 greedy passes",
    "REF-001 calm passes level='should'",
)
SLOW = """
import functools
slow = Scenario("slow", needs=Needs(seconds=1))
original = Fake.evidence

def evidence(self, scenario):
    if scenario.name == "slow":
        time.sleep(0.6)
    return original(self, scenario)

Fake.evidence = evidence
"""


@pytest.fixture
def late(project):
    """Return a project whose first scenario takes longer than half a second."""
    doubles = project.pytester.path / "doubles.py"
    doubles.write_text(doubles.read_text(encoding="utf-8") + SLOW, encoding="utf-8")
    return project


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_no_scenario_is_begun_after_the_deadline(late, workers):
    """What had begun is decided, also for its other rows; the rest is named in terminal, record and JUnit."""
    late.rows(*ROWS)
    # A worker takes seconds to begin if the machine is busy.
    limit = "0.5" if workers == "-n0" else "8"
    if workers == "-n1":
        doubles = late.pytester.path / "doubles.py"
        doubles.write_text(
            doubles.read_text(encoding="utf-8").replace("sleep(0.6)", "sleep(8.1)"), encoding="utf-8"
        )
    result = late.run_apart(f"--gpucluster-deadline={limit}", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*= not run: deadline =*",
            f"GANG-002: not run: deadline: {limit} s were over before its turn came (--gpucluster-deadline)",
            "answer    Undecided: GANG-002 was not run: deadline: *",
        ]
    )
    assert [line for line in late.log if line.startswith("run ")] == ["run slow"]
    report = late.report()
    assert {row["id"]: row["verdict"] for row in report["requirements"]} == {
        "GANG-001": "pass",
        "GANG-003": "pass",
    }
    assert {row["id"] for row in report["not_run"]} == {"GANG-002", "REF-001"}
    assert {row["why"].partition(":")[0] for row in report["not_run"]} == {"deadline"}
    errors = [e.get("type") for e in ET.parse(late.latest / "junit.xml").iter("error")]  # noqa: S314
    assert errors == ["not run", "not run"]


def test_a_deadline_that_suffices_changes_nothing(late):
    """Where all is begun in time, the run is green."""
    late.rows(*ROWS)
    assert late.run("--gpucluster-deadline=1h").ret == 0


def test_after_the_deadline_no_cluster_is_touched(late):
    """Nothing is started for rows that will not be run; a SHOULD row that was cut off makes the run red, too."""
    late.rows("REF-001 calm passes level='should'")
    result = late.run("--gpucluster-deadline=0.000001")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes() == {"not": 1} or "1 not run" in result.stdout.str()
    assert not [line for line in late.log if line.startswith("run ")]


def test_a_test_of_the_site_is_not_begun_after_the_deadline(late):
    """It is recorded as not run, with the reason."""
    late.rows(*ROWS[:2])
    late.write(
        test_z_own="import pytest\n\n\n@pytest.mark.needs(seconds=1)\n@pytest.mark.gang\ndef test_own():\n    pass\n"
    )
    result = late.run("--gpucluster-deadline=0.5")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    test = late.report()["site_tests"][0]
    assert (test["outcome"], test["text"].partition(":")[0]) == ("not_run", "deadline")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), (" 1.5H ", 5400), ("0.5m", 30)],
)
def test_a_deadline_has_a_unit_or_is_in_seconds(text, seconds):
    """Seconds, minutes and hours are read."""
    assert settings._seconds(text, "option") == seconds


@pytest.mark.parametrize(
    "option",
    [
        "deadline=",
        "deadline=soon",
        "deadline=-1",
        "deadline=0",
        "deadline=1d",
        "deadline=nan",
        "deadline=inf",
        "deadline=m",
        "max-nodes=0",
        "max-nodes=2.5",
        "max-nodes=many",
        "max-nodes=-1",
        "max-nodes=",
    ],
)
def test_a_bound_that_is_none_is_told_in_one_line(project, option):
    """Where, what was given, and what is allowed."""
    project.rows(*ROWS[2:])
    result = project.run(f"--gpucluster-{option}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name, _, value = option.partition("=")
    result.stderr.fnmatch_lines(
        [
            f"ERROR: option --gpucluster-{name} = {value!r}: must be a * such as 900*"
            if name == "deadline"
            else f"ERROR: option --gpucluster-{name} = {value!r}: must be *"
        ]
    )
    assert project.log == []


def test_rows_that_need_more_nodes_than_allowed_are_named_and_red(project):
    """The scenario of two nodes is not run where one is allowed; with two it is."""
    project.rows(*ROWS[2:])
    result = project.run("--gpucluster-max-nodes=1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["GANG-002: not run: budget: scenario greedy uses 2 nodes at the same time, at most 1 may be used*"]
    )
    assert [line for line in project.log if line.startswith("run ")] == ["run calm"]
    assert project.run("--gpucluster-max-nodes=2").ret == 0


def test_the_plan_names_the_bounds(project, monkeypatch):
    """Option, ini and environment are all told."""
    monkeypatch.setenv("GPUCLUSTER_MAX_NODES", "1")
    path = project.pytester.path / "pytest.toml"
    path.write_text(path.read_text(encoding="utf-8") + 'gpucluster_deadline = "30m"\n', encoding="utf-8")
    project.rows(*ROWS[2:])
    project.run("--gpucluster-plan", "--gpucluster-max-gpu-seconds=1").stdout.fnmatch_lines(
        [
            "GANG-002: not run: budget: scenario greedy uses 2 nodes*",
            "limit         at most 1 node at the same time (--gpucluster-max-nodes)",
            "limit         at most 1 GPU-seconds (--gpucluster-max-gpu-seconds)",
            "limit         no scenario is begun after 1800 s (--gpucluster-deadline)",
        ]
    )
