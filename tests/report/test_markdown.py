"""Markdown for a pull request: the answer, what is red grouped by cause, and nothing that a cluster says as markup."""

import pytest

from pytest_gpucluster.report import markdown, record


@pytest.fixture
def report(run):
    """Give the report of the sample run."""
    return record.fold(run / record.JOURNAL)


def test_the_answer_comes_first(report):
    """Then what is red, counts, what was left out, and the run."""
    lines = markdown.render(report).splitlines()
    assert lines[0].startswith("### GPU cluster conformance of ")
    assert lines[2].startswith("**No: GANG-002 is violated")
    assert lines[-1].startswith("Run `")


def test_red_rows_of_one_cause_stand_together(report):
    """Two rows with the same causes are one line; violations come first; a pass is never in the table."""
    rows = report["requirements"]
    fail = next(row for row in rows if row["id"] == "GANG-002")
    report["requirements"] = [*rows, {**fail, "id": "GANG-004"}]
    table = [
        line for line in markdown.render(report).splitlines() if line.startswith("| ") and "GANG-0" in line
    ]
    assert len(table) == 1
    assert table[0].startswith("| GANG-002, GANG-004 | fail | ")
    assert "set spec.schedulerName: volcano on the Job" in table[0]
    groups = [[row["id"] for row in group] for group in markdown.grouped(report["requirements"])]
    assert groups == [["GANG-002", "GANG-004"], ["FAB-006"], ["REF-002"], ["PLG-003"]]


def test_a_waived_row_is_still_red(report):
    """With who waived it beside it."""
    assert "fail, waived: FAB-006" in markdown.render(report)


def test_nothing_of_a_cluster_is_markup(report):
    """Pipes, tags, links and line breaks of an observed text stay text."""
    row = next(row for row in report["requirements"] if row["id"] == "PLG-003")
    row["finding"]["observed"] = "a | b <img src=x>\n[x](javascript:1) `c` **d**"
    told = markdown.render(report)
    assert "a \\| b \\<img src=x\\> \\[x\\](javascript:1) \\`c\\` \\*\\*d\\*\\*" in told


def test_what_was_left_or_planted_is_told(report):
    """Neither may be missed where only this is read."""
    report["cleanup"]["left_overs"] = ["Namespace/x"]
    report["run"]["defects"] = ["gang.binds-partially"]
    told = markdown.render(report)
    assert "Left on the cluster: Namespace/x." in told
    assert "Planted defects: gang.binds-partially." in told


def test_long_texts_are_cut_and_lists_are_counted(report):
    """A cell is no log."""
    row = next(row for row in report["requirements"] if row["id"] == "PLG-003")
    row["finding"]["observed"] = "x" * 5000
    report["answer"]["reasons"] = [f"reason {number}" for number in range(40)]
    told = markdown.render(report)
    assert "x" * 401 not in told
    assert "- and 28 more" in told
