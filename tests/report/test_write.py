"""Writing reports never costs the run."""

import subprocess
from pathlib import Path

from pytest_gpucluster.report import html_columns, record, write


def test_all_forms_are_written_with_their_sums(run: Path) -> None:
    """Report, page, JUnit and sums; the sums are those that sha256sum checks."""
    assert [path.name for path in write.write_all(run)] == [
        "report.json", "report.html", "junit.xml", "ctrf.json", "report.md", "SHA256SUMS"
    ]  # fmt: skip
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=run,
        capture_output=True,
        text=True,
        check=True,
    )
    assert checked.stdout.count(": OK") == 11


def test_writing_again_gives_the_same(run: Path) -> None:
    """The forms are functions of the journal."""
    first = {path.name: path.read_bytes() for path in write.write_all(run)}
    assert {path.name: path.read_bytes() for path in write.write_all(run)} == first


def test_a_broken_record_is_one_line(tmp_path: Path) -> None:
    """Nothing is raised and nothing is written where there is no record."""
    said: list[str] = []
    assert write.write_all(tmp_path, say=said.append) == []
    assert len(said) == 1
    assert said[0].startswith("no report: ")


def test_a_form_that_fails_does_not_cost_the_others(run: Path) -> None:
    """A name that cannot be written is told; the rest is written."""
    (run / write.PAGE).mkdir()
    said: list[str] = []
    written = [path.name for path in write.write_all(run, say=said.append)]
    assert written == ["report.json", "junit.xml", "ctrf.json", "report.md", "SHA256SUMS"]
    assert len(said) == 1
    assert "report.html: not written" in said[0]
    assert [path.name for path in run.iterdir() if path.name.startswith(".")] == []


def test_a_killed_run_gets_its_reports(tmp_path: Path) -> None:
    """The forms can be made from the journal of a run that never ended."""
    record.Journal(tmp_path / record.JOURNAL).run_start(
        run="r", plugin="1", command=[], cluster={}, profile={}, sources={}
    )
    assert len(write.write_all(tmp_path)) == 6


def test_columns_are_added_to_header_and_row_alike() -> None:
    """pytest-html ends the run when a row has more cells than the header: both get two, also without a row."""
    header, row, other = ["<th>R</th>"], ["<td>r</td>"], ["<td>r</td>"]
    html_columns.add_header(header)
    html_columns.add_row(row, [("gpucluster.requirement", "GANG-002"), ("gpucluster.verdict", "<fail>")])
    html_columns.add_row(other, [])
    assert len(header) == len(row) == len(other) == 3
    assert "GANG-002" in row[1]
    assert "&lt;fail&gt;" in row[2]
