"""What a cluster says moves no cursor and turns no text round, whatever the terminal is; nor in any file of the run."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from tests import inner
from tests.plugin import conftest

pytest_plugins = ["pytester"]

STEERING = ("\x1b", "\x07", "\x00", "\x9b", "\x9d", "\u202e", "\u200b", "\u2066", "\ud800")
SAYS = "caf\u00e9 \x1b[31mred\x1b]0;t\x07 \x9b2J \u202eback\u2066 z\u200bw \x00 \ud800 end"

ROWS = f'''
SAYS = {SAYS!r}


def steers(evidence, given):
    return Finding(Verdict.FAIL, required=SAYS, observed=SAYS, where=(SAYS,), causes=(Cause(SAYS, SAYS),))


def other(evidence, given):
    return Finding(Verdict.NOT_APPLICABLE, required=SAYS, observed=SAYS)


def breaks_so(evidence, given):
    raise ZeroDivisionError(SAYS)


def not_met(evidence, given):
    return Presupposed(SAYS, held=False, observed=SAYS)


said = Scenario("said", header={{"problem": {{"verdict": "environment", "text": SAYS}}}})


@requirement("GANG-001", documents="R", scenario=calm, judge=steers, level="must")
def test_one(settle):
    """A violation.

    It MUST.
    """
    settle()


@requirement("GANG-002", documents="R", scenario=said, judge=passes, level="must")
def test_two(settle):
    """An environment.

    It MUST.
    """
    settle()


@requirement("GANG-003", documents="R", scenario=calm, judge=other, level="must")
def test_three(settle):
    """Not applicable.

    It MUST.
    """
    settle()


@requirement("GANG-004", documents="R", scenario=calm, judge=breaks_so, level="must")
def test_four(settle):
    """A judge that breaks.

    It MUST.
    """
    settle()


@requirement("GANG-005", documents="R", scenario=calm, judge=passes, presupposes=[not_met], level="must")
def test_five(settle):
    """A presupposition.

    It MUST.
    """
    settle()
'''

TERMINALS = {
    "utf-8": {"PYTHONUTF8": "1"},
    "ascii": {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "narrow": {"COLUMNS": "40", "NO_COLOR": "1", "TERM": "dumb"},
    "latin": {"LC_ALL": "C", "PYTHONIOENCODING": "latin-1", "COLUMNS": "40"},
    "colour": {"FORCE_COLOR": "1"},
}


@pytest.mark.parametrize("terminal", TERMINALS)
def test_nothing_steers(project, terminal):
    """Each verdict, with its words from the cluster; on the terminal colours are pytest's own."""
    project.write(test_rows=ROWS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *conftest.PLUGIN, *inner.QUIET, "-rA", "--junitxml=out.xml"],
        cwd=project.pytester.path,
        env={**os.environ, "PYTHONPATH": inner.path(conftest.ROOT, conftest.HERE), **TERMINALS[terminal]},
        capture_output=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    said = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
    allowed = {"\x1b"} if terminal == "colour" else set()
    assert not [one for one in STEERING if one in said and one not in allowed]
    assert "\x1b]" not in said
    assert "Traceback" not in said.replace("ZeroDivisionError", "")
    assert r"\x1b[31mred" in said
    assert r"\u202eback" in said
    if terminal == "ascii":
        said.encode("ascii")
    check_files(project)


def check_files(project):
    """Check the page, the record, both JUnit files: nothing steers, JSON and XML can be read."""
    folder = project.latest
    for path in (folder / "report.html", folder / "report.json", folder / "junit.xml", folder / "run.jsonl"):
        text = path.read_text(encoding="utf-8")
        assert not [one for one in STEERING if one in text], path
        assert "u202e" in text
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert r"\u202eback" in json.dumps(report["requirements"][0]["finding"]).replace("\\\\", "\\")
    for path in (folder / "junit.xml", project.pytester.path / "out.xml"):
        assert list(ET.parse(path).iter("testcase"))  # noqa: S314 - our own file
        assert not [one for one in STEERING if one in path.read_text(encoding="utf-8")], path
