"""A journal folds into one report in which nothing is left out."""

import dataclasses
import importlib.resources
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_gpucluster.report import html, junit, record, scope
from pytest_gpucluster.requirement import AREAS, Finding, Verdict, catalogue
from tests.report import sample

SCHEMA = json.loads(
    importlib.resources.files("pytest_gpucluster.report").joinpath("schema.json").read_text(encoding="utf-8")
)


def folded(folder: Path) -> dict[str, Any]:
    """Return the report of a run, checked against the schema."""
    report = record.fold(folder / record.JOURNAL)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(report)))
    return report


def journal(folder: Path, **start: Any) -> record.Journal:
    """Return the journal of a run that has started."""
    made = record.Journal(folder / record.JOURNAL, clock=sample.Clock())
    given: dict[str, Any] = {
        "run": "r",
        "plugin": "1",
        "command": [],
        "cluster": {},
        "profile": {},
        "sources": {},
    }
    made.run_start(**{**given, **start})
    return made


def test_the_report_is_as_it_was(run: Path, golden: Callable[[str, str], None]) -> None:
    """The fixed run folds to the stored report, which has the shape of the schema."""
    golden("report.json", json.dumps(folded(run), indent=1, ensure_ascii=False) + "\n")


def test_every_row_of_the_catalogue_stands_in_one_list(run: Path) -> None:
    """A row is decided, not run or not built, and never two of these; the site's own stand beside them."""
    report = folded(run)
    places = [row["id"] for name in ("requirements", "not_run", "not_built") for row in report[name]]
    assert sorted(places) == sorted(["SITE-001", *(row.id for row in catalogue.rows())])


def test_rows_come_in_the_order_of_the_catalogue(run: Path) -> None:
    """The order of decisions, which is that of workers, does not show."""
    ids = [row["id"] for row in folded(run)["requirements"]]
    assert ids == [
        "GANG-001", "GANG-002", "GANG-007", "REF-001", "REF-002", "PLG-003", "FAB-006", "SITE-001"
    ]  # fmt: skip


def test_a_run_that_was_killed_says_so_and_lists_what_it_did_not_reach(tmp_path: Path) -> None:
    """Without an end the run is interrupted, and rows without a decision name that as their reason."""
    made = journal(tmp_path)
    made.declared(sample.make_suite().registry)
    report = folded(tmp_path)
    assert report["run"]["killed"]
    assert {row["why"] for row in report["not_run"]} == {"the run was killed before it"}
    assert report["answer"]["word"] == "undecided"


def test_a_row_that_nobody_asked_for_is_not_selected(tmp_path: Path) -> None:
    """A declared row of a whole run without any event is listed with that reason."""
    made = journal(tmp_path)
    made.declared(sample.make_suite().registry)
    made.run_end(exit_status=5, interrupted=False)
    assert {row["why"] for row in folded(tmp_path)["not_run"]} == {"not selected"}


def test_a_repeated_row_keeps_its_earlier_verdicts(tmp_path: Path) -> None:
    """The last decision counts, what came before it stays visible and leaves the answer open."""
    made = journal(tmp_path)
    row = sample.make_suite().registry.get("GANG-001")
    for verdict in (Verdict.FAIL, Verdict.PASS):
        made.requirement(row, Finding(verdict, "-", "-"))
    made.run_end(exit_status=0, interrupted=False)
    report = folded(tmp_path)
    assert [(r["verdict"], r["earlier"]) for r in report["requirements"]] == [("pass", ["fail"])]
    assert report["answer"]["word"] == "undecided"


@pytest.mark.parametrize(("expires", "waived"), [("2026-11-28", True), ("2026-11-27", False)])
def test_a_waiver_holds_to_its_last_day(tmp_path: Path, expires: str, waived: bool) -> None:
    """A waived violation is neither green nor a no; one whose waiver has expired is a no."""
    waiver = {"id": "GANG-001", "reason": "old firmware", "owner": "ops", "expires": expires}
    made = journal(tmp_path, profile={"waivers": [waiver]})
    suite = sample.make_suite()
    made.requirement(suite.registry.get("GANG-001"), Finding(Verdict.FAIL, "-", "-"))
    made.requirement(suite.registry.get("GANG-002"), Finding(Verdict.PASS, "-", "-"))
    made.run_end(exit_status=1, interrupted=False)
    report = folded(tmp_path)
    assert (report["requirements"][0]["waiver"] is not None) is waived
    assert report["answer"]["word"] == ("undecided" if waived else "no")


def test_a_clean_run_is_trusted_for_what_was_tested(tmp_path: Path) -> None:
    """Every MUST row with a test passed, the run ended: yes."""
    made = journal(tmp_path)
    made.requirement(sample.make_suite().registry.get("GANG-001"), Finding(Verdict.PASS, "-", "-"))
    made.cleanup([], {"delete Namespace": 1, "list Pod": 2})
    made.cleanup([], {"list Pod": 1})
    made.run_end(exit_status=0, interrupted=False)
    report = folded(tmp_path)
    assert report["answer"] == {"word": "yes", "reasons": []}
    assert report["requests"] == {"total": 4, "by": {"delete Namespace": 1, "list Pod": 3}}


def test_no_passed_row_is_no_yes(tmp_path: Path) -> None:
    """The absence of a failure is not a pass."""
    made = journal(tmp_path)
    made.run_end(exit_status=0, interrupted=False)
    assert folded(tmp_path)["answer"]["word"] == "undecided"


def test_facts_of_a_cluster_stand_beside_its_name(tmp_path: Path) -> None:
    """Versions and nodes that a provider observed are part of the identity."""
    journal(tmp_path, cluster={"name": "c", "facts": {"versions": {"kubernetes": "v1.37.0"}}})
    assert folded(tmp_path)["cluster"] == {"name": "c", "versions": {"kubernetes": "v1.37.0"}}


def test_a_broken_event_costs_itself_only(run: Path) -> None:
    """An event that is incomplete or unknown is told and left out."""
    before = folded(run)
    with (run / record.JOURNAL).open("a") as file:
        file.write('{"event":"requirement","id":"GANG-001"}\n{"event":"poem"}\nno json\n')
    after = folded(run)
    assert after["requirements"] == before["requirements"]
    assert len(after["problems"]) == 3


def test_a_newer_schema_is_refused_with_its_number(tmp_path: Path) -> None:
    """A reader does not guess at what a later version means."""
    (tmp_path / record.JOURNAL).write_text('{"event":"run-start","at":"x","schema":2}\n')
    with pytest.raises(record.RecordError, match="has schema 2, this version reads up to 1"):
        record.fold(tmp_path / record.JOURNAL)


@pytest.mark.parametrize("text", ["", '{"event":"run-end"}\n'])
def test_a_journal_without_a_start_is_no_run(tmp_path: Path, text: str) -> None:
    """Without the start nothing says what was tested."""
    (tmp_path / record.JOURNAL).write_text(text)
    with pytest.raises(record.RecordError, match="contains no start of a run"):
        record.fold(tmp_path / record.JOURNAL)


def test_a_journal_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(record.RecordError, match=r"run\.jsonl: cannot be read: No such file"):
        record.load(tmp_path)


CLEAN = (
    "damaged",
    "left over",
    "no clean-up",
    "planted",
    "exit status",
    "an event after the end",
    "a second start",
)


@pytest.mark.parametrize("what", CLEAN)
def test_nothing_beside_the_rows_lets_a_yes_stand(tmp_path: Path, what: str) -> None:
    """All rows passed, and the run or its record is not in order: the answer says what, and is no yes."""
    made = journal(tmp_path, defects=["gang.binds-partially"] if what == "planted" else [])
    made.requirement(sample.make_suite().registry.get("GANG-001"), Finding(Verdict.PASS, "-", "-"))
    if what == "a second start":
        made.run_start(run="r", plugin="1", command=[], cluster={}, profile={}, sources={})
    if what != "no clean-up":
        made.cleanup(["Pod/x in ns-1", "Pod/y in ns-1"] if what == "left over" else [])
    made.run_end(exit_status=3 if what == "exit status" else 0, interrupted=False)
    if what == "an event after the end":
        made.cleanup([])
    if what == "damaged":
        with made.path.open("a") as file:
            file.write('{"event":"require')
    report = folded(tmp_path)
    assert report["answer"]["word"] == "undecided"
    (reason,) = report["answer"]["reasons"]
    said = {
        "left over": "the run left something on the cluster: Pod/x in ns-1 and 1 more",
        "no clean-up": "no clean-up is recorded",
        "planted": "defects were planted: gang.binds-partially",
        "exit status": "the run ended with exit status 3",
    }
    assert said.get(what, "the record is damaged: ") in reason
    assert scope.banner(report).startswith("Undecided: ")


def test_evidence_of_a_cluster_with_planted_defects_is_no_yes(tmp_path: Path) -> None:
    """A run that judges it again plants none itself, and its cluster says so."""
    made = journal(tmp_path, cluster={"name": "c", "facts": {"defects": ["scheduler.down"]}})
    made.requirement(sample.make_suite().registry.get("GANG-001"), Finding(Verdict.PASS, "-", "-"))
    made.cleanup([])
    made.run_end(exit_status=0, interrupted=False)
    assert folded(tmp_path)["answer"]["reasons"] == ["defects were planted: scheduler.down"]


def answered(folder: Path, rows: Mapping[str, Verdict], **start: Any) -> dict[str, Any]:
    """Return the report of a run that ended well, with one row of each given id."""
    made = journal(folder, **start)
    row = sample.make_suite().registry.get("GANG-001")
    for row_id, verdict in rows.items():
        made.requirement(dataclasses.replace(row, id=row_id), Finding(verdict, "-", "no `kueue` is declared"))
    made.cleanup([])
    made.run_end(exit_status=0, interrupted=False)
    return folded(folder)


def test_a_yes_says_for_what(tmp_path: Path) -> None:
    """What passed, what the profile does not declare, what does not apply, what nobody asked for, what has no test."""
    rows = {"GANG-001": Verdict.PASS, "LIFE-001": Verdict.PASS, "HLT-004": Verdict.NOT_APPLICABLE}
    rows |= dict.fromkeys(("FAB-001", "MFU-001", "NUMA-001", "KUE-001"), Verdict.NOT_APPLICABLE)
    profile = {"fabric": None, "kueue": None, "numa": None}
    report = answered(tmp_path, rows, profile=profile)
    assert report["answer"] == {"word": "yes", "reasons": []}
    assert scope.banner(report).startswith(
        "Yes for gang and lifecycle; kueue, numa, fabric and mfu are not declared; health is not applicable "
    )
    declared = answered(tmp_path / "b", rows, profile={**profile, "fabric": {"device": "gpu"}})
    assert "fabric and health are not applicable here" in scope.banner(declared)
    page = html.render(report)
    assert all(part[0].upper() + part[1:] in page for part in scope.parts(report))
    assert f'value="{scope.banner(report)}"' in junit.render(report)


def test_areas_in_the_answer_are_those_that_can_be_selected(tmp_path: Path) -> None:
    """Whoever reads that an area was not requested asks for it with `-m` and that name."""
    rows = {f"{prefix}-001": Verdict.PASS for prefix in AREAS}
    names = [name for name, _ in AREAS.values()]
    banner = scope.banner(answered(tmp_path, rows, profile={}))
    assert banner.startswith(f"Yes for {', '.join(names[:-1])} and {names[-1]}; MUST rows without a test: ")


def test_rows_that_do_not_apply_make_a_yes_one_in_part(tmp_path: Path) -> None:
    """Three rows of a fabric on CPUs are no yes for a fabric."""
    rows = {"GANG-001": Verdict.PASS, "FAB-001": Verdict.NOT_APPLICABLE, "FAB-013": Verdict.PASS}
    report = answered(tmp_path, rows, profile={"fabric": {"device": "cpu"}})
    assert scope.banner(report).startswith("Yes for gang, in part for fabric (1 of 2 MUST rows); ")


def test_a_yes_counts_the_rows_that_have_no_test(tmp_path: Path) -> None:
    """An area of which one row passed and others are not built says so beside its yes."""
    report = answered(tmp_path, {"GANG-001": Verdict.PASS, "HLT-004": Verdict.PASS}, profile={})
    assert scope.banner(report).startswith("Yes for gang and health; ")
    assert "MUST rows without a test: " in scope.banner(report)
    assert re.search(r"health \d+", scope.banner(report))


def test_a_yes_for_a_part_says_how_large_it_is(tmp_path: Path) -> None:
    """Rows that nobody asked for leave nothing open, and the one line counts them."""
    made = journal(tmp_path)
    suite = sample.make_suite()
    made.requirement(suite.registry.get("GANG-001"), Finding(Verdict.PASS, "-", "-"))
    made.not_run(suite.registry.get("GANG-002"), "deselected by -k GANG-001")
    made.not_run(suite.registry.get("PLG-003"), "deselected by -k GANG-001")
    made.cleanup([])
    made.run_end(exit_status=0, interrupted=False)
    banner = scope.banner(folded(tmp_path))
    assert banner.startswith("Yes in part for gang (1 of 2 MUST rows); plugins are not requested; ")


def test_a_row_that_was_skipped_or_cut_off_is_no_yes(tmp_path: Path) -> None:
    """It was asked for; a budget leaves the answer open even if it cuts off no MUST."""
    for number, (row_id, why) in enumerate(
        [("GANG-002", "skipped: not today"), ("GANG-007", "budget: scenario x takes 40 GPU-seconds")]
    ):
        made = journal(tmp_path / str(number))
        suite = sample.make_suite()
        made.requirement(suite.registry.get("GANG-001"), Finding(Verdict.PASS, "-", "-"))
        made.not_run(suite.registry.get(row_id), why)
        made.cleanup([])
        made.run_end(exit_status=0, interrupted=False)
        answer = folded(tmp_path / str(number))["answer"]
        assert answer == {"word": "undecided", "reasons": [f"{row_id} was not run: {why}"]}


def test_an_area_that_was_asked_for_and_does_not_apply_is_no_yes(tmp_path: Path) -> None:
    """Asked for by name, and not one row of it applies: whoever asked is told, and by what."""
    rows = {"GANG-001": Verdict.PASS, "KUE-001": Verdict.NOT_APPLICABLE, "KUE-002": Verdict.NOT_APPLICABLE}
    assert answered(tmp_path / "a", rows)["answer"]["word"] == "yes"
    assert answered(tmp_path / "b", rows, asked=["kueue"])["answer"] == {
        "word": "undecided",
        "reasons": ["kueue was requested, but no row of it applies: no `kueue` is declared"],
    }
    rows["KUE-002"] = Verdict.PASS
    assert answered(tmp_path / "c", rows, asked=["kueue"])["answer"]["word"] == "yes"


def test_a_journal_is_folded_the_same_line_by_line(run: Path) -> None:
    """Whoever writes the end of a run takes what is written into what was read before, and reads nothing twice."""
    path = run / record.JOURNAL
    *read, end = path.read_bytes().splitlines(keepends=True)
    before = run / "before.jsonl"
    before.write_bytes(b"".join(read))
    folding = record.Folding(before)
    assert folding.report()["run"]["killed"]
    folding.take(end)
    assert folding.report() == record.fold(path)
    assert set(folding.report()["files"]) == {"evidence/", "evidence/site/", *(
        f"evidence/{name}.jsonl" for name in ("fabric", "gang-fits", "gang-scarce", "gang-too-large", "site/all-reduce")
    )}  # fmt: skip
