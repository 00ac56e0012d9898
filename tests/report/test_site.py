"""Tests of the site's own stand in every form of a record as what they are: asserted, not decided."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpucluster.report import answer, html, junit, record, site
from pytest_gpucluster.requirement import Finding, Verdict
from tests.report import sample
from tests.report.test_html import Page
from tests.report.test_record import folded, journal

NODE = "tests/test_site.py::test_it"
OPEN = ("error", "environment", "skipped", "not_run")


def run_of(folder: Path, *outcomes: str, rows: Sequence[tuple[str, Verdict]] = (), **more: Any) -> Any:
    """Return the folded report of a run with one site's test, written once for each outcome, and some rows."""
    made = journal(folder)
    suite = sample.make_suite()
    for row_id, verdict in rows:
        made.requirement(suite.registry.get(row_id), Finding(verdict, "-", "-"))
    for outcome in outcomes:
        made.site_test(NODE, outcome, **{"title": "It works", **more})
    made.cleanup([])
    made.run_end(exit_status=0, interrupted=False)
    return folded(folder)


PASSED = [("GANG-001", Verdict.PASS)]


def test_what_the_test_told_is_kept(tmp_path: Path) -> None:
    """Every field is in the report; evidence has its sum, and the path is that below the run."""
    file = sample.write_evidence(tmp_path / "evidence" / "own.jsonl", sample.evidence_lines("own"))
    needs = {"capabilities": ["fabric"], "nodes": 2, "gpus": None}
    report = run_of(
        tmp_path, "failed", area="fabric", level="should", seconds=2.5, needs=needs,
        scenarios=["gang-fits"], text="E  assert 1 == 2", evidence=file,
    )  # fmt: skip
    (test,) = report["site_tests"]
    assert test.pop("at")
    assert test == {
        "nodeid": NODE, "title": "It works", "area": "fabric", "level": "should", "outcome": "failed",
        "seconds": 2.5, "needs": {"capabilities": ["fabric"], "nodes": 2}, "scenarios": ["gang-fits"],
        "text": "E  assert 1 == 2", "evidence": "evidence/own.jsonl", "sha256": record.sha256(file),
        "earlier": [],
    }  # fmt: skip
    assert report["counts"]["site_tests"] == {"failed": 1}


def test_tests_come_in_the_order_of_their_names(run: Path) -> None:
    """The order of workers does not show, and each outcome is counted."""
    report = folded(run)
    names = [test["nodeid"] for test in report["site_tests"]]
    assert names == sorted(names)
    assert sum(report["counts"]["site_tests"].values()) == len(names) == 8
    assert set(report["counts"]["site_tests"]) == set(site.OUTCOMES)


@pytest.mark.parametrize(
    ("outcome", "level", "said"),
    [("pass", "must", "unknown outcome 'pass'"), ("passed", "shall", "unknown level 'shall'")],
)
def test_a_word_that_no_reader_knows_is_refused_at_once(
    tmp_path: Path, outcome: str, level: str, said: str
) -> None:
    """A verdict is no outcome; what is allowed is named, and nothing is written."""
    made = record.Journal(tmp_path / record.JOURNAL)
    with pytest.raises(ValueError, match=said) as caught:
        made.site_test(NODE, outcome, title="x", level=level)
    assert "allowed: " in str(caught.value)
    assert not made.path.exists()


def test_an_outcome_of_a_later_version_is_told_and_left_out(tmp_path: Path) -> None:
    """A reader does not guess what an unknown word means."""
    made = journal(tmp_path)
    made.write("site-test", nodeid=NODE, outcome="xfailed", title="x", level="must")
    made.write("site-test", nodeid=NODE, outcome="passed", title="x", level="shall")
    report = folded(tmp_path)
    assert report["site_tests"] == []
    assert ["xfailed" in report["problems"][0], "shall" in report["problems"][1]] == [True, True]


@settings(deadline=None)
@given(st.lists(st.sampled_from(sorted(site.OUTCOMES)), min_size=1, max_size=6))
def test_the_last_attempt_counts_and_the_others_are_kept(outcomes: list[str]) -> None:
    """`not_run` is no attempt: without it, the outcomes in order are those of the record."""
    test: dict[str, Any] | None = None
    for outcome in outcomes:
        test = site.folded({"nodeid": NODE, "outcome": outcome, "level": "must", "at": "t"}, test)
    assert test is not None
    attempts = [outcome for outcome in outcomes if outcome != "not_run"] or ["not_run"]
    assert [*test["earlier"], test["outcome"]] == attempts
    assert site.is_flaky(test) == (attempts[-1] == "passed" and set(attempts) != {"passed"})
    # Only a test of which every attempt ended well, and alike, leaves nothing open.
    clean = len(set(attempts)) == 1 and attempts[0] in {"passed", "not_applicable"}
    assert (not site.failures([test]) and not [*site.doubts([test])]) == clean
    assert bool(site.failures([test])) == (attempts[-1] == "failed")


def test_a_run_that_was_killed_lists_what_was_to_come(tmp_path: Path) -> None:
    """What is written ahead as not run stays so where the run was killed before the test."""
    made = journal(tmp_path)
    for name in ("a", "b"):
        made.site_test(f"t.py::{name}", "not_run", title=name, text="the run was killed before it")
    made.site_test("t.py::a", "passed", title="a")
    report = folded(tmp_path)
    assert [(t["outcome"], t["earlier"]) for t in report["site_tests"]] == [("passed", []), ("not_run", [])]
    assert (
        "the site's own test t.py::b was not run: the run was killed before it" in report["answer"]["reasons"]
    )


def test_a_failed_must_is_a_no(tmp_path: Path) -> None:
    """Whatever the judges say of the rows; the reason names test and title."""
    report = run_of(tmp_path, "failed", rows=PASSED)
    assert report["answer"] == {"word": "no", "reasons": [f"the site's own test {NODE} failed: It works"]}


@pytest.mark.parametrize("outcome", OPEN)
def test_a_must_that_asserts_nothing_is_a_doubt(tmp_path: Path, outcome: str) -> None:
    """Broken, not reached, skipped: nobody knows."""
    report = run_of(tmp_path, outcome, rows=PASSED, text="why it is so")
    (reason,) = report["answer"]["reasons"]
    assert report["answer"]["word"] == "undecided"
    assert reason.startswith(f"the site's own test {NODE} ")
    assert reason.endswith(": why it is so")


def test_a_must_that_passed_when_repeated_is_a_doubt(tmp_path: Path) -> None:
    """The attempts are named."""
    report = run_of(tmp_path, "environment", "failed", "passed", rows=PASSED)
    assert report["answer"] == {
        "word": "undecided",
        "reasons": [
            f"the site's own test {NODE} needed more than one attempt (environment, failed, then passed)"
        ],
    }


@pytest.mark.parametrize("level", ["should", "control"])
@pytest.mark.parametrize("outcome", list(site.OUTCOMES))
def test_what_is_no_must_never_changes_the_answer(tmp_path: Path, outcome: str, level: str) -> None:
    """A SHOULD or a control is told, and the rows decide."""
    report = run_of(tmp_path, outcome, rows=PASSED, level=level)
    assert report["answer"] == {"word": "yes", "reasons": []}


@pytest.mark.parametrize("outcome", ["passed", "not_applicable"])
def test_a_must_that_holds_or_does_not_apply_leaves_the_answer_to_the_rows(
    tmp_path: Path, outcome: str
) -> None:
    """Yes with the rows."""
    assert run_of(tmp_path, outcome, rows=PASSED)["answer"]["word"] == "yes"


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "no MUST row passed: 1 test of the site's own says nothing of the documents"),
        (
            [("SITE-001", Verdict.PASS)],
            (
                "no MUST row of the catalogue passed: "
                "1 requirement and 1 test of the site's own say nothing of the documents"
            ),
        ),
    ],
)
def test_what_only_the_site_asks_is_never_a_yes(
    tmp_path: Path, rows: list[tuple[str, Verdict]], reason: str
) -> None:
    """No document was tested: no cluster may be trusted for it."""
    assert run_of(tmp_path, "passed", rows=rows)["answer"] == {"word": "undecided", "reasons": [reason]}


@pytest.mark.parametrize(
    ("verdict", "word"), [(Verdict.PASS, "yes"), (Verdict.FAIL, "no"), (Verdict.INCONCLUSIVE, "undecided")]
)
def test_a_requirement_of_the_sites_own_counts_like_any_row(
    tmp_path: Path, verdict: Verdict, word: str
) -> None:
    """Its verdict is a judge's: beside a row that passed, it decides with it."""
    report = run_of(tmp_path, rows=[*PASSED, ("SITE-001", verdict)])
    assert report["answer"]["word"] == word
    assert report["requirements"][-1]["id"] == "SITE-001"
    assert report["counts"]["decided"] == 2


def test_a_record_without_tests_of_the_sites_own_is_read(run: Path) -> None:
    """A record made before they were kept has none, and every form of it can be made."""
    path = run / record.REPORT
    old = folded(run)
    del old["site_tests"], old["counts"]["site_tests"]
    path.write_text(json.dumps(old), encoding="utf-8")
    report = record.load(run)
    assert report["site_tests"] == []
    assert report["counts"]["site_tests"] == {}
    assert "Asserted by the site" not in html.render(report)
    assert cases(report) == {}


@pytest.mark.parametrize("name", ["one-pod", "two-pods-declare-ib"])
def test_published_records_are_read(name: str) -> None:
    """Records that were made by earlier versions and are kept with the documentation."""
    folder = Path(__file__).parents[2] / "docs" / "evidence" / name
    assert record.load(folder)["site_tests"] == []


# -- what a reader sees ---------------------------------------------------------------------------------------------


def cases(report: dict[str, Any]) -> dict[str, ET.Element]:
    """Return the JUnit cases of the site's own tests by the name of the test."""
    root = ET.fromstring(junit.render(report))  # noqa: S314 - our own text
    return {
        str(case.get("name")).rpartition("::")[2]: case
        for case in root.iter("testcase")
        if "::" in str(case.get("name"))
    }


def test_junit_has_a_case_for_each(run: Path) -> None:
    """Failed is a failure called asserted; what broke or was not run an error; the rest skipped or nothing."""
    found = cases(folded(run))
    shapes = {
        name: [(child.tag, child.get("type")) for child in case if child.tag != "properties"]
        for name, case in found.items()
    }
    assert shapes == {
        "test_all_reduce": [],
        "test_an_image_starts_everywhere": [("failure", "asserted")],
        "test_home": [("error", "error")],
        "test_login": [("error", "environment")],
        "test_mirror[a&b]": [("flakyFailure", "flaky")],
        "test_rdma": [("skipped", None)],
        "test_scratch": [("skipped", None)],
        "test_soak": [("error", "not run")],
    }
    assert {case.get("classname") for case in found.values()} == {"gpucluster.site"}


def test_junit_carries_what_the_test_told(run: Path) -> None:
    """The message has title and error, the body the whole text, the properties what it needs and its evidence."""
    found = cases(folded(run))
    failure = found["test_an_image_starts_everywhere"].find("failure")
    assert failure is not None
    assert failure.get("message") == "The image starts within 20 s: assert 31.4 < 20.0"
    assert failure.text == sample.FAILURE
    properties = {p.get("name"): p.get("value") for p in found["test_all_reduce"].iter("property")}
    assert properties["gpucluster.asserted"] == "passed"
    assert properties["gpucluster.level"] == "must"
    assert properties["gpucluster.needs"] == "fabric, 2 nodes, 16 GPUs, about 90 s"
    assert properties["gpucluster.scenarios"] == "gang-fits"
    assert properties["gpucluster.evidence"] == "evidence/site/all-reduce.jsonl"
    assert "gpucluster.requirement" not in properties


def section(page: str) -> str:
    """Return the section of the site's own tests."""
    start = page.index('<h2 id="site-tests">')
    return page[start : page.index("<h2", start + 1)]


def test_the_page_says_that_nobody_decided_them(run: Path) -> None:
    """After the areas, with one plain sentence, each test with outcome, name, title, needs, text and evidence."""
    page = html.render(folded(run))
    part = section(page)
    assert page.index('id="area-site"') < page.index('id="site-tests"') < page.index('id="evidence"')
    assert "These tests are the site's own. They assert; no judge of this suite decided them." in part
    assert "An all-reduce over two nodes is fast enough" in part
    assert "fabric, 2 nodes, 16 GPUs, about 90 s" in part
    assert '<a href="evidence/site/all-reduce.jsonl">' in part
    assert "&lt;script&gt;alert(2)" in part
    assert "test_mirror[a&amp;b]" in part


def test_an_outcome_is_a_word_with_a_shape_of_its_own(run: Path) -> None:
    """No outcome is told by colour alone, none looks like a verdict, and a repeated pass is called flaky."""
    part = section(html.render(folded(run)))
    shown = dict.fromkeys(html.ASSERTED, "")
    for name in shown:
        _, mark, after = part.partition(f'<span class="verdict a-{name}">')
        svg, end, word = after.partition("</svg> ")
        assert (mark, end) != ("", ""), name
        assert word.startswith(f"{name.replace('_', ' ')}</span>")
        assert "currentColor" in svg
        shown[name] = svg
    assert len(set(shown.values())) == len(shown) == 8
    assert "verdict v-" not in part


def test_the_sites_requirements_have_an_area_of_their_own(run: Path) -> None:
    """Decided rows like all others, with their sentence, and told apart from the catalogue's."""
    page = html.render(folded(run))
    start = page.index('id="area-site"')
    part = page[start : page.index("<h2", start)]
    assert "no rows of the catalogue" in part
    assert "MUST be bound to nodes of one rack" in part
    assert '<span class="verdict v-pass">' in part


def test_the_page_says_how_the_sites_requirements_are_decided_again(run: Path) -> None:
    """The command names their module; a run without them does not mention it."""
    report = folded(run)
    assert "gpucluster verify . --module tests/test_site.py</code>" in html.render(report)
    report["requirements"] = [row for row in report["requirements"] if row["id"] != "SITE-001"]
    assert "--module" not in html.render(report)


def test_a_long_text_is_cut_to_where_the_error_stands(tmp_path: Path) -> None:
    """The last lines are shown, and how many are left to the record."""
    text = "\n".join(f"line {number}" for number in range(30))
    part = section(html.render(run_of(tmp_path, "failed", text=text)))
    assert "after 10 more lines, in <code>report.json</code>" in part
    assert "line 10\nline 11" in part
    assert "line 9\n" not in part
    Page(html.render(folded(tmp_path)))


def test_a_reason_is_one_line(tmp_path: Path) -> None:
    """The error of a traceback is quoted, and no more of it than a line holds."""
    text = f"def test_it():\n>       do()\nE       RuntimeError: {'x' * 500}\n\nt.py:3: RuntimeError"
    (reason,) = run_of(tmp_path, "error", rows=PASSED, text=text)["answer"]["reasons"]
    assert f"the site's own test {NODE} asserts nothing (error): RuntimeError: xxx" in reason
    assert len(reason) < 260
    assert "\n" not in reason


def test_the_counts_of_rows_leave_the_sites_tests_out(run: Path) -> None:
    """The table by level is about requirements."""
    report = folded(run)
    assert report["counts"]["decided"] == len(report["requirements"])
    assert answer.counts({**report, "site_tests": []})["verdicts"] == report["counts"]["verdicts"]
