"""Side by side with the plugins that people have installed."""

import re
from urllib.parse import unquote

import pytest

from tests.inner import QUIET

pytest_plugins = ["pytester"]

ROWS = (
    "GANG-001 calm passes", "GANG-002 calm fails", "GANG-003 broken passes", "GANG-004 calm does_not_apply",
    "GANG-005 calm fails",
)  # fmt: skip
WAIVED = "--gpucluster-set=waivers=[{id: GANG-005, reason: r, owner: ops, expires: 2999-01-01}]"


def test_pytest_html_gets_two_columns_and_no_other_word_for_a_verdict(project):
    """Its page has a row for each requirement with id and verdict, waived ones named, and none for anything else."""
    pytest.importorskip("pytest_html")
    project.rows(*ROWS)
    project.write(test_other="def test_plain(): pass\n")
    result = project.pytester.runpytest_inprocess(
        *_plugin(), *QUIET, "--html=page.html", "--self-contained-html", WAIVED
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    page = (project.pytester.path / "page.html").read_text(encoding="utf-8")
    for verdict in ("pass", "fail", "environment", "not_applicable", "fail (waived)"):
        assert (
            f"col-verdict\\&#34;&gt;{verdict}&lt;" in page
            or f'col-verdict\\"&gt;{verdict}&lt;' in page
            or (f"&gt;{verdict}&lt;/td&gt;" in page)
        ), verdict
    assert "GANG-005" in page
    assert project.report()["counts"]["decided"] == 5


def test_pytest_html_says_what_was_tested_the_answer_and_the_causes(project):
    """Environment, a link to the page of the run, each cause once; a name from the cluster is no markup."""
    pytest.importorskip("pytest_html")
    project.rows(*ROWS)
    (project.pytester.path / "pages of runs").mkdir()
    project.pytester.runpytest_inprocess(
        *_plugin(), *QUIET, "--html=pages of runs/page.html", "--self-contained-html",
        "--gpucluster-set=waivers=[{id: GANG-003, reason: '<b>', owner: ops, expires: 2999-01-01}]",
    )  # fmt: skip
    page = (project.pytester.path / "pages of runs" / "page.html").read_text(encoding="utf-8")
    link = re.search('<a href="([^"]*)">The page of the run</a>', page)
    assert (project.pytester.path / "pages of runs" / unquote(link[1])).resolve() == (
        project.latest / "report.html"
    ).resolve()
    assert "the gang plugin is off" in page
    assert "Fix: switch it on" in page
    assert "<strong>No: " in page
    for name in ("Cluster", "Run by", "Profile SHA-256", "pytest-gpucluster"):
        assert f"&#34;{name}&#34;: " in page, name


def test_pytest_timeout_ends_a_row_and_the_record_says_so(project):
    """A row that it stops is inconclusive with its reason, the next is decided, and the cluster is let go."""
    pytest.importorskip("pytest_timeout")
    project.rows("GANG-001 hangs passes", "GANG-002 calm passes")
    result = project.run_apart("--timeout=2", "--timeout-method=signal")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    rows = {row["id"]: row for row in project.report()["requirements"]}
    assert rows["GANG-001"]["verdict"] == "inconclusive"
    assert "Timeout" in rows["GANG-001"]["finding"]["observed"]
    assert rows["GANG-002"]["verdict"] == "pass"
    assert project.log[-1] == "close main"


@pytest.mark.parametrize("seed", ["1", "2"])
def test_pytest_randomly_changes_the_order_and_no_verdict(project, seed):
    """In whatever order rows are asked for, each is decided as ever and each scenario runs once."""
    pytest.importorskip("pytest_randomly")
    project.rows(*ROWS)
    result = project.pytester.runpytest_subprocess(
        *_plugin(), "-p", "no:cacheprovider", "-p", "randomly", f"--randomly-seed={seed}"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    verdicts = {row["id"]: row["verdict"] for row in project.report()["requirements"]}
    assert verdicts == {
        "GANG-001": "pass", "GANG-002": "fail", "GANG-003": "environment", "GANG-004": "not_applicable",
        "GANG-005": "fail",
    }  # fmt: skip
    assert sorted(line for line in project.log if line.startswith("run ")) == ["run broken", "run calm"]


def test_all_of_them_at_once(project):
    """xdist, html, randomly, timeout and reruns together: one run, one record, the same verdicts."""
    for name in ("xdist", "pytest_html", "pytest_randomly", "pytest_timeout", "pytest_rerunfailures"):
        pytest.importorskip(name)
    project.rows(*ROWS)
    result = project.pytester.runpytest_subprocess(
        *_plugin(), "-n2", "--html=page.html", "--timeout=60", "--reruns=1", "-p", "no:cacheprovider", WAIVED
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    assert {key: outcomes.get(key) for key in ("passed", "failed", "environment", "waived")} == {
        "passed": 1, "failed": 1, "environment": 1, "waived": 1,
    }  # fmt: skip
    report = project.report()
    assert report["counts"]["decided"] == 5
    assert not report["problems"]
    assert sorted(line for line in project.log if line.startswith("run ")) == ["run broken", "run calm"]
    assert (project.pytester.path / "page.html").is_file()


def _plugin():
    from tests.plugin.conftest import PLUGIN

    return PLUGIN
