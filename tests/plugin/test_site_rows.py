"""A requirement of a site's own, from its declaration to the day on which somebody verifies the run."""

import shlex

import pytest

from pytest_gpucluster.report import suites

pytest_plugins = ["pytester"]

MODULE = '''
@requirement("SITE-001", level="must", scenario=calm, judge={judge})
def test_rack(settle):
    """A small gang stays in one rack.

    All members of a gang of at most 8 GPUs MUST be bound to nodes of one rack.
    """
    settle()
'''


@pytest.fixture
def own(project):
    """A project with one requirement of its own, below a folder of tests."""
    (project.pytester.path / "checks").mkdir()

    def make(judge):
        project.write(**{"checks/test_own_rack": MODULE.format(judge=judge)})
        return project

    return make


@pytest.mark.parametrize(
    ("judge", "verdict", "answer"), [("passes", "pass", "undecided"), ("fails", "fail", "no")]
)
def test_it_is_run_and_recorded_like_any_row(own, judge, verdict, answer):
    """By area, id and level; page and JUnit have it in the area of the site, and no catalogue is asked."""
    project = own(judge)
    result = project.run("-m", "site and must", "-k", "SITE-001")
    assert result.ret == (0 if verdict == "pass" else 1)
    report = project.report()
    (row,) = report["requirements"]
    assert (row["id"], row["area"], row["verdict"]) == ("SITE-001", "site", verdict)
    assert (row["documents"], row["defects"]) == ([], [])
    assert (row["nodeid"], row["where"]) == ("checks/test_own_rack.py::test_rack", "test_own_rack:test_rack")
    assert report["answer"]["word"] == answer
    assert report["counts"]["by_level"] == {"must": {verdict: 1}}
    assert 'id="area-site"' in (project.latest / "report.html").read_text(encoding="utf-8")
    assert 'classname="gpucluster.site"' in (project.latest / "junit.xml").read_text(encoding="utf-8")


def test_a_malformed_id_is_one_line(own):
    """Where, what, and what is expected; no traceback."""
    project = own("passes")
    path = project.pytester.path / "checks" / "test_own_rack.py"
    path.write_text(path.read_text(encoding="utf-8").replace("SITE-001", "SITE-1"), encoding="utf-8")
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            "checks/test_own_rack.py: test_own_rack:test_rack: malformed requirement id 'SITE-1': expected AREA-000 *"
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_the_line_that_is_shown_judges_it_again(own, monkeypatch, capsys):
    """The command below a violation names the module, and reaches the same verdict without pytest; so does verify."""
    from pytest_gpucluster import cli

    project = own("fails")
    result = project.run()
    # Where a pipeline is told by its environment, pytest shows the text twice.
    (line,) = {line.strip() for line in result.outlines if line.strip().startswith("gpucluster judge ")}
    assert line.endswith("--requirement SITE-001 --module checks/test_own_rack.py")
    # The shipped suites have nothing to do with it.
    monkeypatch.setattr(suites, "location", lambda: None)
    assert cli.main(shlex.split(line)[1:]) == 1
    assert "VIOLATION SITE-001" in capsys.readouterr().out
    assert cli.main(["verify", str(project.latest), "--module", "checks/test_own_rack.py"]) == 1
    out = capsys.readouterr().out
    assert "verified: 1 verdict decided again from evidence" in out
    assert "\nanswer: No: SITE-001 is violated" in out
