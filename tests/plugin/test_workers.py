"""Runs with xdist: one run, one cluster, plain data only."""

from types import SimpleNamespace

import pytest

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.hooks.run import Run

pytest_plugins = ["pytester"]

pytest.importorskip("xdist")

ROWS = (
    "GANG-001 calm passes", "GANG-002 calm fails", "GANG-003 broken passes", "GANG-004 cut passes",
    "GANG-005 calm does_not_apply", "REF-001 greedy passes", "REF-002 greedy passes", "LIFE-001 calm passes",
)  # fmt: skip


def test_workers_share_one_run_and_each_scenario_runs_once(project):
    """Two workers leave one folder with one record, and run no scenario twice."""
    project.rows(*ROWS)
    result = project.run_apart("-n2")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*= environment =*",
            "*no permission to list pods*",
            "*= inconclusive =*",
            "*the watch of Pod broke*",
        ]
    )
    outcomes = result.stdout.lines[-1]
    for part in ("1 failed", "4 passed", "1 environment", "1 inconclusive", "1 not applicable"):
        assert part in outcomes
    ran = sorted(line for line in project.log if line.startswith("run "))
    assert ran == ["run broken", "run calm", "run cut", "run greedy"]
    (folder,) = [path for path in (project.pytester.path / "reports").iterdir() if not path.is_symlink()]
    assert (folder / "report.html").exists()
    report = project.report()
    assert len(report["requirements"]) == len(ROWS)
    assert report["run"]["exit_status"] == 1
    assert not report["problems"]


def test_the_cluster_is_owned_by_the_controller(project):
    """Workers name the controller as the process with whose end the cluster ends, and each cleans up."""
    project.rows(*ROWS)
    project.run_apart("-n2")
    opened = [line.split() for line in project.log if line.startswith("open ")]
    assert {worker for _, worker, _ in opened} <= {"gw0", "gw1"}
    assert len({owner for _, _, owner in opened}) == 1
    closed = {line.split()[1] for line in project.log if line.startswith("close ")}
    assert closed == {worker for _, worker, _ in opened}


@pytest.mark.parametrize("option", ["--cluster=nonesuch", "--gpucluster-defect=no.such"])
def test_a_usage_error_is_told_once_by_the_controller(project, option):
    """A wrong option ends a run with workers in one line and with 4."""
    project.rows(*ROWS)
    result = project.run_apart("-n2", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    errors = [line for line in result.stdout.lines + result.stderr.lines if line.startswith("ERROR: ")]
    assert len(errors) == 1
    assert "unknown" in errors[0]
    assert "Traceback" not in result.stdout.str()
    assert project.log == []


def test_rows_that_workers_did_not_reach_are_recorded(project):
    """After `-x` the record of a run with workers lists what was deselected and what was not reached."""
    project.rows(
        "GANG-001 calm passes", "GANG-002 calm fails", *(f"REF-{n:03} calm passes" for n in range(1, 30))
    )
    project.run_apart("-n2", "-x", "-k", "not GANG-001")
    why = {row["id"]: row["why"] for row in project.report()["not_run"]}
    assert why.pop("GANG-001") == "deselected by -k 'not GANG-001'"
    assert why
    assert all("before it" in reason for reason in why.values())


def test_a_crashed_worker_does_not_end_the_run(project):
    """A worker that dies is replaced; the record is complete and its scenario is not lost."""
    project.rows("GANG-001 calm passes", "GANG-002 calm passes", "REF-001 calm passes", "REF-002 calm passes")
    project.write(test_z="import os\n\ndef test_dies(): os._exit(9)\n")
    result = project.run_apart("-n2")
    assert result.ret == 1
    assert {row["verdict"] for row in project.report()["requirements"]} == {"pass"}
    assert len(project.report()["requirements"]) == 4


def test_the_plan_needs_no_worker(project):
    """The plan is made in one process also with `-n`."""
    project.rows("GANG-001 greedy passes")
    result = project.run_apart("-n2", "--gpucluster-plan")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["cluster embedded: 1 requirement from 1 scenario*"])
    assert project.log == []


@pytest.mark.parametrize(("ran_by", "lines"), [("gw0", 1), ("gw1", 0)])
def test_only_the_worker_that_ran_a_scenario_records_it(tmp_path, ran_by, lines):
    """A worker that waited while another one ran a scenario adds no second line to the journal."""
    path = tmp_path / "evidence" / "calm.jsonl"

    def evidence(_scenario):
        path.parent.mkdir()
        path.write_text("")
        return Evidence((), header={"source": {"worker": ran_by}})

    source = SimpleNamespace(path=lambda _scenario: path, requests=dict, evidence=evidence)
    run = Run(None, None, tmp_path, worker="gw0")
    run._evidence(source, SimpleNamespace(name="calm", summary=""))
    journal = tmp_path / "run.jsonl"
    assert len(journal.read_text().splitlines() if journal.exists() else []) == lines


def test_workers_reuse_what_latest_was_before_the_run(project):
    """Each follows the link before any of them begins."""
    project.rows(*ROWS)
    project.run_apart()
    first, before = project.latest.resolve(), project.log
    project.run_apart("-n2", "--gpucluster-reuse=reports/latest")
    assert project.log == before
    assert project.latest.resolve() != first
    assert project.report()["cluster"]["reused"] == str(first)
    assert {row["verdict"] for row in project.report()["requirements"] if row["id"] == "GANG-001"} == {"pass"}
