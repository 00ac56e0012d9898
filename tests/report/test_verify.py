"""A run is verified from its files alone."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_gpucluster
from pytest_gpucluster.report import decisions, record, seal, verify, write
from pytest_gpucluster.requirement import Finding, Registry, Verdict
from tests.report import sample


@pytest.fixture
def written(run: Path) -> Path:
    """Give the sample run with its reports, made by the version that verifies it."""
    journal = run / record.JOURNAL
    journal.write_text(
        journal.read_text().replace('"plugin":"0.1.0"', f'"plugin":"{pytest_gpucluster.__version__}"')
    )
    assert len(write.write_all(run)) == 6
    return run


def check(folder: Path) -> verify.Verification:
    """Verify with the sample suite."""
    return verify.verify(folder, registry=sample.make_suite().registry, read=sample.read)


def sealed(folder: Path) -> None:
    """Make the sums anew, as whoever changes a file can."""
    (folder / write.SUMS).write_text(seal.text(folder))


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a JSON file in place."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def row_of(report: dict[str, Any], row_id: str) -> dict[str, Any]:
    """Return a decided row."""
    rows: list[dict[str, Any]] = report["requirements"]
    return next(row for row in rows if row["id"] == row_id)


def test_an_untouched_run_is_verified(written: Path) -> None:
    """Every verdict, finding and sum is reached again."""
    found = check(written)
    assert found.problems == ()
    assert found.decided_again == 8
    assert found.notes == ("8 tests of the site's own: asserted, not decided again",)


def test_a_changed_evidence_file_is_named(written: Path) -> None:
    """Evidence that was touched has another sum, and the verdict that it now gives differs from the record's."""
    path = written / "evidence" / "gang-scarce.jsonl"
    sample.write_evidence(path, sample.evidence_lines("gang-scarce"))
    assert check(written).problems == (
        "evidence/gang-scarce.jsonl: the file was changed: its SHA-256 is not the recorded one",
        "GANG-002: the record says fail, but the evidence says pass",
    )


def test_a_missing_evidence_file_is_named(written: Path) -> None:
    """A row without its evidence is not verified."""
    (written / "evidence" / "fabric.jsonl").unlink()
    assert check(written).problems == ("evidence/fabric.jsonl: the file is missing",)


def test_a_changed_verdict_is_named(written: Path) -> None:
    """A report in which a violation was made green is contradicted by evidence, journal and sum."""
    edit(written / "report.json", lambda report: row_of(report, "GANG-002").update(verdict="pass"))
    assert check(written).problems == (
        "GANG-002: the record says pass, but the evidence says fail",
        "GANG-002: report.json says pass, but run.jsonl says fail",
        "report.json: the file was changed since the run",
    )


def test_a_changed_finding_is_named(written: Path) -> None:
    """A number that was made prettier is found although the verdict stays."""
    edit(
        written / "report.json",
        lambda report: row_of(report, "FAB-006")["finding"].update(observed="179 GB/s"),
    )
    assert check(written).problems[0] == "FAB-006: the verdict is reached again, but not its observed"


def test_a_row_taken_out_is_named(written: Path) -> None:
    """A report that lost a row no longer agrees with the journal."""
    edit(written / "report.json", lambda report: report["requirements"].pop(1))
    assert "GANG-002: report.json says nothing, but run.jsonl says fail" in check(written).problems


def test_a_changed_answer_is_named(written: Path) -> None:
    """The answer at the top of the page must follow from the rows."""
    edit(written / "report.json", lambda report: report["answer"].update(word="yes", reasons=[]))
    assert check(written).problems[0] == "report.json: differs from what run.jsonl gives"


def test_a_changed_page_is_named(written: Path) -> None:
    """The page is covered by the sums."""
    page = written / write.PAGE
    page.write_text(page.read_text().replace("violation", "pass"))
    assert check(written).problems == ("report.html: the file was changed since the run",)


def test_another_version_compares_verdicts_only(written: Path) -> None:
    """Words may change between versions, verdicts may not."""
    for name in ("report.json", "run.jsonl"):
        path = written / name
        path.write_text(
            path.read_text().replace(f'"plugin":"{pytest_gpucluster.__version__}"', '"plugin":"0.0.1"')
        )
    edit(written / "report.json", lambda report: report["run"].update(plugin="0.0.1"))
    edit(written / "report.json", lambda report: row_of(report, "FAB-006")["finding"].update(observed="x"))
    edit(
        written / "report.json",
        lambda report: report["files"].update({"run.jsonl": seal.sha256(written / "run.jsonl")}),
    )
    sealed(written)
    found = check(written)
    assert found.problems == ()
    assert "made by version 0.0.1" in found.notes[0]
    assert "page and JUnit are not made again" in found.notes[0]
    assert found.rendered == ()
    assert found.files == 11


def test_a_row_that_no_suite_declares_cannot_be_verified(written: Path) -> None:
    """Nothing is taken on trust."""
    found = verify.verify(written, registry=Registry(), read=sample.read)
    assert found.decided_again == 0
    assert len(found.problems) == 7
    assert "GANG-001: cannot be decided again: no suite declares it" in found.problems[0]
    (unnamed,) = found.unnamed
    assert unnamed == (
        "SITE-001: cannot be decided again: declared in tests/test_site.py; name it with --module tests/test_site.py"
    )


def test_a_requirement_of_the_sites_own_from_another_test_is_noted(written: Path) -> None:
    """Two sites may use the same id: which test decided it again is told; the module's place does not matter."""
    registry = Registry()
    for row in sample.make_suite().registry:
        moved = dataclasses.replace(row, where=f"elsewhere.{row.where}")
        other = dataclasses.replace(row, where="tests.test_rack:test_other")
        registry.add(other if row.id == "SITE-001" else moved)
    found = verify.verify(written, registry=registry, read=sample.read)
    assert found.problems == ()
    assert found.notes[0] == (
        "SITE-001: recorded from test_site:test_site_001, decided again by tests.test_rack:test_other"
    )


def test_changed_evidence_of_a_sites_test_is_named(written: Path) -> None:
    """Nobody decides on it, and its sum is checked all the same; so is that it is there."""
    path = written / "evidence" / "site" / "all-reduce.jsonl"
    path.write_text(path.read_text() + "\n")
    assert check(written).problems == (
        "evidence/site/all-reduce.jsonl: the file was changed: its SHA-256 is not the recorded one",
    )
    path.unlink()
    assert check(written).problems == ("evidence/site/all-reduce.jsonl: the file is missing",)


def test_a_changed_outcome_of_a_sites_test_is_named(written: Path) -> None:
    """A failure that was made a pass is contradicted by journal and sum."""

    def change(report: dict[str, Any]) -> None:
        failed = [test for test in report["site_tests"] if test["outcome"] == "failed"]
        failed[0].update(outcome="passed")

    edit(written / "report.json", change)
    assert check(written).problems == (
        "tests/test_site.py::test_an_image_starts_everywhere: report.json says passed, but run.jsonl says failed",
        "report.json: the file was changed since the run",
    )


def test_evidence_that_cannot_be_read_is_one_line(written: Path) -> None:
    """A file that is no evidence any more does not end the verification."""
    (written / "evidence" / "fabric.jsonl").write_text("poem\n")
    problems = check(written).problems
    assert len(problems) == 2
    assert problems[1].startswith("evidence/fabric.jsonl: cannot be read: ")


def test_a_pass_without_evidence_is_a_problem(tmp_path: Path) -> None:
    """What nobody can look at again is not verified; what was never decided is only noted."""
    suite = sample.make_suite()
    journal = record.Journal(tmp_path / record.JOURNAL)
    journal.run_start(run="r", plugin="1", command=[], cluster={}, profile={}, sources={})
    journal.requirement(suite.registry.get("GANG-001"), Finding(Verdict.PASS, "-", "-"))
    journal.requirement(suite.registry.get("REF-002"), Finding(Verdict.ENVIRONMENT, "-", "-"))
    write.write_all(tmp_path)
    found = check(tmp_path)
    assert found.problems == ("GANG-001: pass without evidence",)
    assert "REF-002: environment without evidence: nothing to decide again" in found.notes


def test_a_record_of_an_older_version_is_verified(tmp_path: Path) -> None:
    """The fields that were added since do not speak against it; what its sums alone cover is said."""
    suite = sample.make_suite()
    journal = record.Journal(tmp_path / record.JOURNAL)
    journal.run_start(run="r", plugin="0.0.1", command=[], cluster={}, profile={}, sources={})
    lines = sample.evidence_lines("gang-fits")
    evidence = sample.write_evidence(
        tmp_path / "evidence" / "x.jsonl", [{**lines[0], "schema": 1}, *lines[1:]]
    )
    row = suite.registry.get("GANG-001")
    journal.requirement(row, decisions.decide(row, sample.read(evidence)), evidence=evidence)
    journal.write("run-end", exit_status=0, interrupted=False)
    write.write_all(tmp_path)

    def strip(report: dict[str, Any]) -> None:
        del report["site_tests"], report["counts"]["site_tests"], report["files"]
        del report["run"]["evidence_schema"]

    edit(tmp_path / record.REPORT, strip)
    sealed(tmp_path)
    found = check(tmp_path)
    assert (found.problems, found.decided_again) == ((), 1)
    assert found.notes[1] == (
        "the record has no site_tests, files, run.evidence_schema: it was made before that was kept, and nothing is "
        "concluded from it"
    )
    assert found.notes[2:] == (
        "its record does not name its files: only SHA256SUMS shows whether session logs, logs and page are unchanged",
    )


def test_a_row_that_its_test_left_open_is_a_note(written: Path) -> None:
    """A record that claims less than the evidence shows is no fraud; one that hides a violation is."""
    rows = [("GANG-001", "inconclusive"), ("GANG-002", "inconclusive")]
    journal = record.Journal(written / record.JOURNAL)
    for row_id, verdict in rows:
        journal.requirement(
            sample.make_suite().registry.get(row_id),
            Finding(Verdict(verdict), "-", "the test ended without asking"),
            evidence=written
            / "evidence"
            / ("gang-fits.jsonl" if row_id == "GANG-001" else "gang-scarce.jsonl"),
        )
    write.write_all(written)
    found = check(written)
    assert found.notes[0] == "GANG-001: recorded as inconclusive, but the evidence alone says pass"
    assert found.problems == ("GANG-002: the record says inconclusive, but the evidence says fail",)


def test_a_problem_of_the_scenario_is_decided_again(tmp_path: Path) -> None:
    """A scenario that was not run to its end outranks the judge, unless a violation was seen."""
    row = sample.make_suite().registry.get("GANG-002")
    problem = {"verdict": "environment", "text": "creating pods was forbidden (403)"}
    for partial, verdict in ((False, Verdict.ENVIRONMENT), (True, Verdict.FAIL)):
        lines = sample.evidence_lines("gang-scarce", partial=partial)
        lines[0]["problem"] = problem
        path = sample.write_evidence(tmp_path / f"{partial}.jsonl", lines)
        assert decisions.decide(row, sample.read(path)).verdict is verdict


def test_a_journal_of_which_no_page_can_be_made_is_a_difference(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change may break what makes the page: that is one line more, never a traceback or a yes."""

    def broken(report: Any) -> str:
        raise KeyError("text")

    forms = dict(write.forms())
    monkeypatch.setattr(write, "forms", lambda: {**forms, "report.html": broken})
    found = check(written)
    assert "report.html: cannot be made again from run.jsonl: 'text'" in found.problems
    assert found.status == verify.TAMPERED


def test_without_sums_nothing_is_as_sealed(written: Path) -> None:
    """Nobody knows what the files were."""
    (written / write.SUMS).unlink()
    assert check(written).files == 0
