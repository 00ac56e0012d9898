"""The text of a failure has the catalogue's order."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gpucluster.report import decisions, text
from pytest_gpucluster.requirement import Finding, Number, Refusal, Requirement, Verdict
from tests.report import sample


def violation(tmp_path: Path) -> tuple[Requirement, Finding]:
    """Return a row with the finding that it is violated."""
    row = sample.make_suite().registry.get("GANG-002")
    path = sample.write_evidence(tmp_path / "x.jsonl", sample.evidence_lines("gang-scarce", partial=True))
    return row, decisions.decide(row, sample.read(path))


def test_the_text_is_as_it_was(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    """The whole text of a violation, as people and their tools know it."""
    row, finding = violation(tmp_path)
    shown = text.failure_text(
        row,
        finding,
        evidence_path=Path("/runs/1/evidence/gang-scarce.jsonl"),
        nodeid="suites/sample.py::test_gang_002",
        cluster="prod-a",
    )
    golden("failure.txt", shown + "\n")


def test_the_order_is_that_of_the_catalogue(tmp_path: Path) -> None:
    """Verdict and id, sentence, required, observed, where, cause, repeat, evidence."""
    row, finding = violation(tmp_path)
    shown = text.failure_text(row, finding, evidence_path=Path("/e.jsonl"))
    marks = ["VIOLATION GANG-002", "none MUST be bound", "required", "observed", "where", "cause", "fix",
             "repeat", "-k GANG-002", "kubectl get pods", "evidence", "/e.jsonl"]  # fmt: skip
    places = [shown.index(mark) for mark in marks]
    assert places == sorted(places)


def test_prose_keeps_to_100_columns(tmp_path: Path) -> None:
    """Only commands, which are there to be copied, may be longer."""
    row, finding = violation(tmp_path)
    shown = text.failure_text(row, finding, evidence_path=Path("/e.jsonl"))
    assert all(len(line) <= 100 for line in shown.splitlines() if "kubectl" not in line)


@pytest.mark.parametrize(
    ("gone", "left", "keep"),
    [((), True, False), (("9f3e21",), True, False), (("ns-1",), False, True), (("-n ns-1 ",), False, True),
     ((text.EVERYTHING,), False, False)],
)  # fmt: skip
def test_no_command_looks_for_what_went_with_the_run(
    tmp_path: Path, gone: tuple[str, ...], left: bool, keep: bool
) -> None:
    """What is printed works when it is read: after the run, whose namespace or cluster is no more."""
    row, finding = violation(tmp_path)
    shown = text.failure_text(row, finding, gone=gone, cluster="prod-a", options=["--gpucluster-set=a=b c"])
    assert ("kubectl get pods -n ns-1" in shown) is left
    assert "pytest suites -k GANG-002 --cluster=prod-a '--gpucluster-set=a=b c'\n" in shown + "\n"
    again = "pytest suites -k GANG-002 --cluster=prod-a '--gpucluster-set=a=b c' --gpucluster-keep  # leaves"
    assert (again in shown) is keep


def test_kubectl_is_told_which_cluster_is_meant(tmp_path: Path) -> None:
    """The context of whoever reads it may be that of another cluster."""
    row, finding = violation(tmp_path)
    shown = text.failure_text(row, finding, kubectl=["--kubeconfig=/my files/k", "--context=prod-a"])
    assert "kubectl '--kubeconfig=/my files/k' --context=prod-a get pods -n ns-1" in shown


def test_the_repeat_line_finds_the_test() -> None:
    """The shipped suite is named by its place, any other test by its node id."""
    suite = sample.make_suite()
    row = suite.registry.get("GANG-001")
    finding = Finding(Verdict.FAIL, "a", "b")
    assert "pytest suites -k GANG-001" in text.failure_text(row, finding)
    installed = dataclasses.replace(row, where="pytest_gpucluster.suites.gang.test_x:test_y")
    assert "pytest --pyargs pytest_gpucluster.suites -k GANG-001" in text.failure_text(installed, finding)
    own = dataclasses.replace(row, where="test_mine:test_y")
    assert "pytest t/test_mine.py::test_y -k GANG-001" in text.failure_text(
        own, finding, nodeid="t/test_mine.py::test_y"
    )


def test_the_line_that_judges_again_names_the_module_of_an_own_row(tmp_path: Path) -> None:
    """A shipped row needs none; an own one is named by the file of its test, or as the reader named it."""
    row = sample.make_suite().registry.get("SITE-001")
    finding, file = Finding(Verdict.FAIL, "a", "b"), tmp_path / "x.jsonl"
    again = f"gpucluster judge {file} --requirement SITE-001"
    nodeid = "my tests/test_site.py::test_it[a-b]"
    assert f"{again} --module 'my tests/test_site.py'\n" in (
        text.failure_text(row, finding, evidence_path=file, nodeid=nodeid) + "\n"
    )
    assert f"{again} --module site_rows --module x.py" in text.failure_text(
        row, finding, evidence_path=file, nodeid=nodeid, modules=["site_rows", "x.py"]
    )
    shipped = sample.make_suite().registry.get("GANG-001")
    assert "--module" not in text.failure_text(
        shipped, finding, evidence_path=file, nodeid="suites/gang/test_x.py::test_y"
    )


def test_an_evidence_path_inside_the_run_opens_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that starts at the run folder is shown so that it can be opened from the present folder."""
    monkeypatch.chdir(tmp_path)
    row = sample.make_suite().registry.get("GANG-001")
    shown = text.failure_text(
        row,
        Finding(Verdict.FAIL, "a", "b"),
        evidence_path=Path("evidence/x.jsonl"),
        run_folder=tmp_path / "reports" / "1",
    )
    assert "gpucluster judge reports/1/evidence/x.jsonl --requirement GANG-001" in shown


def test_a_number_names_bound_and_origin() -> None:
    """Measured value, floor and where the floor comes from; a missing value is not measured."""
    assert text.number_text(Number("busbw", 121.44, "GB/s", 180.0, "floors")) == (
        "busbw: 121.4 GB/s (limit 180 GB/s, from floors)"
    )
    assert text.number_text(Number("spread", 0.5, "s")) == "spread: 0.5 s (no limit declared)"
    assert text.number_text(Number("spread", None, "s", 1.0)) == "spread: not measured"
    assert text.number_text(Number("rate", 989_400.0, "GFLOP/s", 1.0)).startswith("rate: 989,400 GFLOP/s")


def test_a_refusal_names_component_gate_and_reporter() -> None:
    """Who refused, at which gate, and where it was said."""
    refusal = Refusal(
        "volcano-scheduler", "volcano", "PodGroup/g", "NotEnoughResources", "enqueue", "no room"
    )
    assert text.refusal_text(refusal) == (
        "volcano-scheduler, at enqueue: NotEnoughResources reported by volcano on PodGroup/g, in words: no room"
    )
