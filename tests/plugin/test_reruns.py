"""pytest-rerunfailures: refused in a gate run, elsewhere shown as what it is."""

import xml.etree.ElementTree as ET

import pytest

pytest_plugins = ["pytester"]

pytest.importorskip("pytest_rerunfailures")

REFUSED = (
    "a gate run decides each row once, but pytest-rerunfailures would repeat GANG-001 up to 2 times: leave out "
    "--reruns and flaky marks, or run with -p no:rerunfailures"
)

FLAKY = '''
from pathlib import Path

@requirement("GANG-001", level="must", documents="R", scenario=calm, judge=passes)
def test_now_and_then(settle):
    """Title.

    It MUST hold.
    """
    tried = Path("tried")
    if not tried.exists():
        tried.touch()
        raise OSError("the first attempt broke")
    settle()
'''


def test_a_row_that_passed_only_when_repeated_is_flaky(project):
    """Terminal, record, JUnit and page say so; it is no plain pass, and the answer stays undecided."""
    project.write(test_flaky=FLAKY)
    result = project.run("--reruns=2", "-v")
    assert result.parseoutcomes() == {"flaky": 1, "rerun": 1}
    result.stdout.fnmatch_lines(["*FLAKY*"])
    report = project.report()
    (row,) = report["requirements"]
    assert (row["verdict"], row["earlier"]) == ("pass", ["inconclusive"])
    assert report["counts"]["flaky"] == 1
    assert report["answer"]["word"] == "undecided"
    (flaky,) = ET.parse(project.latest / "junit.xml").iter("flakyFailure")  # noqa: S314 - our own file
    assert flaky.get("message") == "passed only on repetition, after inconclusive"
    assert "v-flaky" in (project.latest / "report.html").read_text(encoding="utf-8")


def test_a_violation_is_not_repeated_away(project):
    """A repeated attempt judges the same evidence: the row stays violated, and the scenario runs once."""
    project.rows("GANG-001 calm fails")
    result = project.run("--reruns=2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes() == {"failed": 1, "rerun": 2}
    assert [line for line in project.log if line.startswith("run ")] == ["run calm"]
    (row,) = project.report()["requirements"]
    assert (row["verdict"], row["earlier"]) == ("fail", ["fail", "fail"])


def test_a_row_without_a_decision_counts_once(project):
    """Attempts in between are told as repeated, not each as another inconclusive row."""
    project.rows("GANG-001 cut passes")
    result = project.run("--reruns=1")
    assert result.parseoutcomes() == {"inconclusive": 1, "rerun": 1}


@pytest.mark.parametrize("how", ["option", "ini", "mark"])
def test_a_gate_run_refuses_to_repeat(project, how):
    """However a repetition is asked for, a gate run ends in one line before anything is touched."""
    args = ["--gpucluster-gate"]
    project.rows("GANG-001 calm passes")
    if how == "option":
        args.append("--reruns=2")
    elif how == "ini":
        path = project.pytester.path / "pytest.toml"
        path.write_text(path.read_text(encoding="utf-8") + 'reruns = "2"\n', encoding="utf-8")
    else:
        project.write(
            test_flaky=FLAKY.replace(
                "@requirement", "import pytest\n\n@pytest.mark.flaky(reruns=2)\n@requirement"
            )
        )
    result = project.run(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: option --gpucluster-gate: {REFUSED}"])
    assert project.log == []


def test_a_gate_run_without_repetition_is_an_ordinary_run(project, monkeypatch):
    """The variable of a pipeline switches it on; rows are decided as ever."""
    monkeypatch.setenv("GPUCLUSTER_GATE", "1")
    project.rows("GANG-001 calm passes")
    result = project.run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["gpucluster: gate = true (environment GPUCLUSTER_GATE)"])


def test_a_gate_run_takes_no_planted_defect(project):
    """A gate judges the cluster as it is."""
    project.rows("GANG-001 calm passes")
    result = project.run("--gpucluster-gate", "--gpucluster-defect=scheduler.down")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: option --gpucluster-gate: *leave out the planted defect scheduler.down"]
    )
