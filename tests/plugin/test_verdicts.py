"""What each verdict does to terminal, exit code, JUnit and record."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


def _cases(project):
    return list(ET.parse(project.pytester.path / "out.xml").iter("testcase"))  # noqa: S314 - our own file


def test_a_pass_is_passed_and_green(project):
    """A requirement that passes is counted as passed and the run ends with 0."""
    project.rows("GANG-001 calm passes")
    result = project.run()
    assert result.ret == 0
    result.assert_outcomes(passed=1)


def test_a_violation_is_failed_with_its_text_and_no_traceback(project):
    """A violation shows the text of its finding and not a line of Python."""
    project.rows("GANG-002 calm fails")
    result = project.run()
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*VIOLATION GANG-002: Title of GANG-002*", "*observed*2 of 3 members bound*"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*settle()*")


@pytest.mark.parametrize(
    ("row", "category", "line"),
    [
        ("GANG-003 broken passes", "1 environment", "*no permission to list pods*"),
        ("GANG-003 cut passes", "1 inconclusive", "*the watch of Pod broke*"),
        ("GANG-003 calm passes presupposes=[unmet]", "1 environment", "*two nodes: one node*"),
    ],
)
def test_rows_that_cannot_be_decided_have_words_of_their_own(project, row, category, line):
    """Environment and inconclusive are counted as such, told with their text, and are not green."""
    project.rows(row)
    result = project.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines([line, f"*{category}*"])
    assert "error" not in result.parseoutcomes()


def test_not_applicable_is_told_with_its_reason_and_is_no_failure(project):
    """A row that does not apply is counted as such, names its reason and leaves the run green."""
    project.rows("FAB-001 calm does_not_apply", "FAB-002 calm passes")
    result = project.run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*FAB-001: the profile declares no RDMA*", "*1 passed*1 not applicable*"])


def test_each_verdict_has_its_letter_and_word(project):
    """Letters and verbose words tell all five verdicts apart."""
    project.rows(
        "GANG-001 calm passes", "GANG-002 calm fails", "GANG-003 broken passes", "GANG-004 cut passes",
        "GANG-005 calm does_not_apply",
    )  # fmt: skip
    letters = project.run().stdout.str()
    assert "test_rows.py .Fnei" in letters or sorted(".Fnei") == sorted(
        next(line for line in letters.splitlines() if line.startswith("test_rows.py")).split()[1]
    )
    project.run("-v").stdout.fnmatch_lines_random(
        ["*PASSED*", "*FAILED*", "*ENVIRONMENT*", "*INCONCLUSIVE*", "*NOT APPLICABLE*"]
    )


def test_a_test_that_does_not_settle_is_inconclusive(project):
    """A pass is a decision: a test that ends without asking for it is inconclusive and an error."""
    project.write(
        test_silent='''
        @requirement("GANG-001", level="must", documents="R", scenario=calm, judge=passes)
        def test_silent(settle):
            """Title.

            It MUST hold.
            """

        @requirement("GANG-002", level="must", documents="R", scenario=calm, judge=passes)
        def test_without_fixture():
            """Title.

            It MUST hold.
            """
        '''
    )
    result = project.run("--junitxml=out.xml")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*ended without asking for the decision*", "*2 inconclusive*"])
    assert "passed" not in result.parseoutcomes()
    assert [len(case.findall("error")) for case in _cases(project)] == [1, 1]
    assert {row["verdict"] for row in project.report()["requirements"]} == {"inconclusive"}


def test_a_judge_that_breaks_is_inconclusive_and_shows_its_error(project):
    """A fault of ours is never a pass: the row is inconclusive, and the error is shown."""
    project.rows("GANG-001 calm breaks")
    result = project.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*ZeroDivisionError: a fault of the judge*", "*1 inconclusive*"])
    (row,) = project.report()["requirements"]
    assert row["verdict"] == "inconclusive"


def test_a_test_that_breaks_before_settling_is_inconclusive_in_the_record(project):
    """An exception in a test's own body is no violation of the cluster's."""
    project.write(
        test_bug='''
        @requirement("GANG-001", level="must", documents="R", scenario=calm, judge=fails)
        def test_bug(settle):
            """Title.

            It MUST hold.
            """
            raise RuntimeError("typo")
        '''
    )
    result = project.run()
    assert result.ret == 1
    (row,) = project.report()["requirements"]
    assert row["verdict"] == "inconclusive"
    assert "RuntimeError: typo" in row["finding"]["observed"]


def test_junit_tells_violations_from_trouble(project):
    """A violation is a JUnit failure; environment and inconclusive are errors; not applicable is skipped."""
    project.rows(
        "GANG-001 calm passes", "GANG-002 calm fails", "GANG-003 broken passes", "GANG-004 cut passes",
        "GANG-005 calm does_not_apply",
    )  # fmt: skip
    project.run("--junitxml=out.xml")
    kinds = {}
    for case in _cases(project):
        properties = {p.get("name"): p.get("value") for p in case.iter("property")}
        tags = [child.tag for child in case if child.tag != "properties"]
        kinds[properties["gpucluster.requirement"]] = (tags, properties["gpucluster.verdict"])
        assert properties["gpucluster.level"] == "must"
        assert properties["gpucluster.scenario"]
    assert kinds == {
        "GANG-001": ([], "pass"),
        "GANG-002": (["failure"], "fail"),
        "GANG-003": (["error"], "environment"),
        "GANG-004": (["error"], "inconclusive"),
        "GANG-005": (["skipped"], "not_applicable"),
    }


def test_the_run_folder_holds_record_page_and_junit(project):
    """A run leaves a folder named by time and cluster, a link to it, and all reports in it."""
    project.rows("GANG-001 calm passes", "GANG-002 calm fails")
    result = project.run()
    folder = project.latest.resolve()
    assert folder.name.split("-")[1] == "embedded"
    names = {path.name for path in folder.iterdir()}
    assert {"run.jsonl", "report.json", "report.html", "junit.xml", "evidence"} <= names
    result.stdout.fnmatch_lines([f"run*{folder}", "*report.html"])
    report = project.report()
    assert {row["id"]: row["verdict"] for row in report["requirements"]} == {
        "GANG-001": "pass",
        "GANG-002": "fail",
    }
    assert report["run"]["exit_status"] == 1
    assert [scenario["name"] for scenario in report["scenarios"]] == ["calm"]


def test_a_scenario_runs_once_and_its_evidence_serves_all_rows(project):
    """Several requirements judge one run of a scenario."""
    project.rows("GANG-001 calm passes", "GANG-002 calm passes", "GANG-003 greedy passes")
    project.run()
    assert [line for line in project.log if line.startswith("run ")] == ["run calm", "run greedy"]


def test_a_cluster_that_does_not_start_makes_every_row_environment_and_is_tried_once(project, monkeypatch):
    """Rows on a cluster that cannot be had are environment, each with the reason."""
    monkeypatch.setenv("FAKE_REFUSES", "1")
    project.rows("GANG-001 calm passes", "GANG-002 calm fails")
    result = project.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*control plane ended with code 1*", "*2 environment*"])
    assert {row["verdict"] for row in project.report()["requirements"]} == {"environment"}


def test_left_overs_are_told_and_recorded(project, monkeypatch):
    """What cleanup could not remove is printed and recorded on the run."""
    monkeypatch.setenv("FAKE_LEFT_OVERS", "Pod/x in ns-1")
    project.rows("GANG-001 calm passes")
    result = project.run()
    result.stdout.fnmatch_lines(["left over Pod/x in ns-1"])
    assert project.report()["cleanup"] == {
        "done": True, "left_overs": ["Pod/x in ns-1"], "proof": ["Pod: none made by main"],
    }  # fmt: skip


def test_rows_that_did_not_run_are_listed_with_their_reason(project):
    """Deselected, skipped and unreached rows are recorded as not run, each with why."""
    project.rows("GANG-001 calm passes", "GANG-002 calm fails", "GANG-003 greedy passes")
    project.run("-k", "not GANG-001", "-x")
    why = {row["id"]: row["why"] for row in project.report()["not_run"]}
    assert why == {
        "GANG-001": "deselected by -k 'not GANG-001'",
        "GANG-003": "not reached: the run stopped before it",
    }


def test_settle_serves_requirements_only(project):
    """A test that is no requirement and asks for settle is told so in one line."""
    project.write(test_other="def test_other(settle): settle()")
    result = project.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*settle serves tests declared with @requirement*"])


@pytest.mark.parametrize("named", ["folder", "latest"])
def test_reuse_judges_the_evidence_of_an_earlier_run(project, named):
    """Old evidence is judged again without a cluster; a scenario it lacks is inconclusive.

    The link `latest`, which the new run lets point to itself, is that of before.
    """
    project.rows("GANG-001 calm passes")
    project.run()
    first = project.latest.resolve()
    before = project.log
    project.rows("GANG-001 calm fails", "GANG-002 greedy passes")
    result = project.run(f"--gpucluster-reuse={first if named == 'folder' else 'reports/latest'}")
    assert project.log == before
    verdicts = {row["id"]: row["verdict"] for row in project.report()["requirements"]}
    assert verdicts == {"GANG-001": "fail", "GANG-002": "inconclusive"}
    result.stdout.fnmatch_lines(["*judging the evidence of*", "*has no evidence of the scenario greedy*"])
    result.stdout.fnmatch_lines([f"*judging the evidence of {first}*"])
    assert Path(project.latest).resolve() != first


def test_ids_stand_beside_each_word(project):
    """With -v in each line, and in the short summary: the name of a test is not what a row is called."""
    project.rows(
        "GANG-001 calm passes", "GANG-002 calm fails", "GANG-003 broken passes", "GANG-004 cut passes",
        "GANG-005 calm does_not_apply", "GANG-006 calm breaks",
    )  # fmt: skip
    result = project.run("-v", "-rA")
    for line in (
        "*::test_gang_001 PASSED GANG-001 *", "*::test_gang_002 FAILED GANG-002 *",
        "*::test_gang_003 ENVIRONMENT GANG-003 *", "*::test_gang_004 INCONCLUSIVE GANG-004 *",
        "*::test_gang_005 NOT APPLICABLE GANG-005 *", "*::test_gang_006 INCONCLUSIVE GANG-006 *",
        "FAILED GANG-002 test_rows.py::test_gang_002*", "PASSED GANG-001 test_rows.py::test_gang_001",
    ):  # fmt: skip
        result.stdout.fnmatch_lines([line])


def test_the_record_and_the_page_say_how_it_is_known_that_nothing_is_left(project):
    """Each worker's proof stands in the record once, and on the page in one line."""
    project.rows("GANG-001 calm passes")
    project.run()
    assert project.report()["cleanup"] == {
        "done": True,
        "left_overs": [],
        "proof": ["Pod: none made by main"],
    }
    assert "nothing: Pod: none made by main" in (project.latest / "report.html").read_text(encoding="utf-8")
