"""The whole suite on the embedded cluster: golden record, workers, kubectl, the wheel, verify."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from pytest_gpucluster.report.suites import load_suites
from tests import inner
from tests.endtoend import harness

pytestmark = pytest.mark.slow

GOLDEN = pathlib.Path(__file__).with_name("golden.json")
RUN_SUFFIX = re.compile(r"-[0-9a-f]{6}\b")
"""Ends the names of what a run makes outside its namespace, such as queues."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Run the suite without the torch row once; returns the report folder.

    Under the warnings filter of a user: that this repository makes errors of warnings must not be what saves a run.
    """
    return harness.run_shared(
        tmp_path_factory, "whole", "-m", "not torch", "-W", "default", *inner.SHUFFLED, *harness.BUSY
    )


@pytest.mark.long("whole")
def test_the_record_is_the_golden_one(whole):
    """Ids, verdicts, what was required, presuppositions, currency and gates are as reviewed."""
    report = harness.report_of(whole)
    rows = [
        {
            "id": row["id"],
            "verdict": row["verdict"],
            "level": row["level"],
            "scenario": row["scenario"],
            "required": row["finding"]["required"],
            "currency": row["finding"]["currency"],
            "gate": (row["finding"].get("refusal") or {}).get("meaning"),
            "numbers": sorted(RUN_SUFFIX.sub("-RUN", number["name"]) for number in row["finding"]["numbers"]),
        }
        for row in report["requirements"]
    ]
    rows.sort(key=lambda row: row["id"])
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    assert rows == json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.long("whole")
def test_nothing_is_left_and_requests_are_within_the_budget(whole):
    """Seven API requests per requirement that was decided, from connect to the end of cleanup, proofs too.

    It were six before rows came that need several jobs: gangs of further schedulers, JobSets, domains, MPI.
    """
    report = harness.report_of(whole)
    assert report["cleanup"]["left_overs"] == []
    decided = [verdict for verdict in harness.verdicts(report).values() if verdict in ("pass", "fail")]
    assert report["requests"]["total"] <= 7 * len(decided), report["requests"]["by"]


@pytest.mark.long("whole")
def test_verify_reaches_the_same_verdicts(whole):
    """From the files alone, and a changed evidence file is found."""
    folder = harness.run_folder(whole)
    agreed = harness.gpucluster("verify", str(folder))
    assert agreed.returncode == 0, agreed.stdout + agreed.stderr
    assert agreed.stdout.splitlines()[-1].startswith("answer: Yes for inventory, gang, refusal, plugins, ")


@pytest.mark.long("whole")
def test_verify_finds_a_changed_file(whole, tmp_path):
    """Evidence that was touched after the run is named."""
    copied = tmp_path / "run"
    shutil.copytree(harness.run_folder(whole), copied, symlinks=True)
    evidence = copied / "evidence" / "scarce.jsonl"
    evidence.write_text(evidence.read_text().replace("gpu-1", "gpu-2"))
    found = harness.gpucluster("verify", str(copied))
    assert found.returncode == 3
    assert "scarce.jsonl" in found.stdout + found.stderr
    gate = harness.gpucluster("gate", str(copied), "--policy", "after-change", "--for", "embedded")
    assert (gate.returncode, gate.stdout) == (3, "")
    assert "scarce.jsonl" in gate.stderr


GATE = """\
age: 1h
stages:
  - name: node
    areas: [inventory]
  - name: scheduling
    areas: [gang, refusal, lifecycle, plugins]
    rows: [KUE-001]
"""


@pytest.mark.long("whole")
def test_a_run_opens_the_gate_of_its_policy(whole, tmp_path):
    """What the policy asks for passed a moment ago; the uid of the cluster is in the evidence."""
    policy = tmp_path / "gate.yaml"
    policy.write_text(GATE, encoding="utf-8")
    gate = ["gate", str(harness.run_folder(whole)), "--policy", str(policy), "--for", "embedded"]
    # The run declared another bind spread than the profile, so it says nothing about the profile as it is.
    found = harness.gpucluster(*gate)
    assert found.returncode == 1
    assert "the profile says otherwise since: bind_spread" in found.stdout
    gate += ["--set", harness.BUSY[1]]
    found = harness.gpucluster(*gate, "--json")
    assert found.returncode == 0, found.stdout + found.stderr
    decision = json.loads(found.stdout)
    assert decision["open"] is True
    assert len(decision["cluster_uid"]) == 36
    assert set(decision["purposes"].values()) == {"yes"}
    # The row on torch was not in this run.
    more = GATE.replace("KUE-001", "KUE-001, RDZV-001")
    policy.write_text(more, encoding="utf-8")
    found = harness.gpucluster(*gate)
    assert found.returncode == 1
    assert "RDZV-001 (scheduling): not run: no run tried it" in found.stdout
    assert found.stdout.splitlines()[-1] == "gate        closed: 1 reason in scheduling"


@pytest.mark.long("whole")
def test_evidence_is_judged_again_without_a_cluster(whole):
    """`gpucluster judge` reads a frozen slice and says the same."""
    path = harness.run_folder(whole) / "evidence" / "scarce.jsonl"
    judged = harness.gpucluster("judge", str(path), "--requirement", "GANG-002", "--json")
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert json.loads(judged.stdout)["verdict"] == "pass"


@pytest.mark.long
def test_two_workers_run_each_scenario_once(tmp_path):
    """Under -n 2 the workers share one cluster and one store."""
    done = harness.run_suite(tmp_path, "-n", "2", "-k", "GANG or LIFE or PLG", *inner.SHUFFLED, *harness.BUSY)
    assert done.returncode == 0, done.stdout[-4000:]
    report = harness.report_of(tmp_path)
    assert set(harness.verdicts(report).values()) == {"pass"}
    names = [scenario["name"] for scenario in report["scenarios"]]
    assert len(names) == len(set(names))
    journal = (harness.run_folder(tmp_path) / "run.jsonl").read_text().splitlines()
    ran = [json.loads(line)["name"] for line in journal if json.loads(line).get("event") == "scenario"]
    assert sorted(ran) == sorted(set(ran))


@pytest.mark.long
def test_the_same_tests_judge_another_scheduler(tmp_path):
    """The rows speak of a gang: declared as the gang scheduler, the default scheduler violates them."""
    done = harness.run_suite(
        tmp_path, "-m", "not torch", *inner.SHUFFLED, "--gpucluster-set", "scheduler=default-scheduler"
    )
    found = harness.verdicts(harness.report_of(tmp_path))
    decided = {
        "GANG-002": "fail",
        "GANG-004": "fail",
        "REF-001": "fail",
        "GANG-008": "pass",
        # Nothing is scarce in these: an Indexed Job runs, ends, and is made whole again.
        **dict.fromkeys(("GANG-001", "GANG-007", "GANG-010", "REF-008", "PLG-011", "LIFE-010"), "pass"),
        **dict.fromkeys(("LIFE-001", "LIFE-002", "LIFE-005"), "pass"),
    }
    assert {row: found.pop(row) for row in decided} == decided, done.stdout
    # What the cluster says of itself, and what Kueue and further schedulers do, does not depend on who is declared.
    assert set(found.values()) == {"pass", "not_applicable"}, found
    assert not {
        row
        for row, verdict in found.items()
        # GANG-012 is about gangs of a further scheduler.
        if verdict == "pass" and row.startswith(("GANG", "REF", "PLG")) and row != "GANG-012"
    }


DECIDED_NATIVELY = (
    "INV-001", "GANG-001", "GANG-002", "GANG-003", "GANG-004", "GANG-007", "GANG-008", "GANG-010", "REF-001", "REF-008",
    "PLG-011", "LIFE-001", "LIFE-002", "LIFE-005", "LIFE-010", "RDZV-004", "RDZV-009", "TRN-003",
)  # fmt: skip


@pytest.mark.long
def test_the_same_tests_judge_native_gangs(tmp_path):
    """Declared as the gang scheduler, Kubernetes itself holds the gang rows; what it never does fails.

    A PodGroup of Kubernetes never says that its gang has become short: its condition says that it was once placed.
    """
    done = harness.run_suite(
        tmp_path, "-m", "not torch", *inner.SHUFFLED, "--gpucluster-set", "scheduler=native", timeout=480
    )
    found = harness.verdicts(harness.report_of(tmp_path))
    assert {row: found.pop(row) for row in DECIDED_NATIVELY} == dict.fromkeys(DECIDED_NATIVELY, "pass"), (
        done.stdout
    )
    assert found.pop("GANG-009") == "fail", done.stdout
    assert set(found.values()) <= {"pass", "not_applicable"}, found
    elsewhere = {row for row, verdict in found.items() if verdict == "not_applicable"}
    # Kubernetes has no queues, and nodes that play their NUMA nodes align no memory; all else only Volcano has.
    about_volcano = {row.id for row in load_suites() if row.schedulers == ("volcano",)}
    assert elsewhere == about_volcano | {"INV-005", "NUMA-004"}


DECIDED_BY_QUOTA = (
    "INV-001", "GANG-001", "GANG-002", "GANG-004", "GANG-007", "GANG-008", "GANG-010", "REF-001", "PLG-011", "LIFE-001",
    "LIFE-002", "LIFE-005", "LIFE-010",
)  # fmt: skip


@pytest.mark.long
def test_the_same_tests_judge_gangs_behind_kueue(tmp_path):
    """Declared as the gang scheduler, Kueue holds gangs by quota, which is scarce instead of room.

    What it admits is bound pod by pod, which takes its time on a busy machine: spread and patience are declared so.
    """
    done = harness.run_suite(
        tmp_path,
        *inner.SHUFFLED,
        "-m",
        "not torch",
        "-k",
        "INV-001 or GANG or REF-0 or PLG-011 or LIFE",
        "--gpucluster-set",
        "scheduler=kueue",
        "--gpucluster-set",
        "bind_spread=3",
        "--gpucluster-set",
        "kueue.wait_for_pods_ready=30",
        timeout=480,
    )
    found = harness.verdicts(harness.report_of(tmp_path))
    assert {row: found.pop(row) for row in DECIDED_BY_QUOTA} == dict.fromkeys(DECIDED_BY_QUOTA, "pass"), (
        done.stdout
    )
    assert set(found.values()) <= {"pass", "not_applicable"}, found


def test_kubectl_sees_a_job_run_and_complete(tmp_path):
    """`gpucluster serve` with kubectl: apply, watch it Running, then Completed, read logs, delete."""
    kubeconfig = tmp_path / "kubeconfig"
    code = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"
    kubectl = pathlib.Path(sys.executable).with_name("kubectl")
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}

    def ask(*args: str, timeout: float = 60) -> str:
        done = subprocess.run(
            [str(kubectl), *args],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with subprocess.Popen(
        [sys.executable, "-c", code, "serve", "--kubeconfig", str(kubeconfig)],
        cwd=harness.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("export KUBECONFIG=")
        ask("apply", "-f", str(harness.ROOT / "fixtures" / "manifests" / "gang-smoke.yaml"))
        phase = "--for=jsonpath={.status.state.phase}="
        ask("wait", "vcjob/gang-smoke", f"{phase}Running", "--timeout=30s")
        ask("wait", "vcjob/gang-smoke", f"{phase}Completed", "--timeout=30s")
        assert "gang-smoke" in ask("get", "vcjob")
        assert '"event":"barrier"' in ask("logs", "gang-smoke-master-0")
        ask("delete", "-f", str(harness.ROOT / "fixtures" / "manifests" / "gang-smoke.yaml"))
        assert "gang-smoke" not in ask("get", "vcjob,pods")
        server.communicate(timeout=30)
    assert server.returncode == 0


def test_an_installed_wheel_runs_the_suite(tmp_path, tmp_path_factory):
    """suites, payloads and fixtures are in the wheel; --pyargs, or a cluster and no path, run them from there."""
    site = harness.wheel_site(tmp_path_factory)
    folder = tmp_path / "empty"
    folder.mkdir()
    reports = f"--gpucluster-report-dir={tmp_path / 'reports'}"
    for named, status in (
        (["--pyargs", "pytest_gpucluster.suites", "--co"], "1/"),
        (["--cluster=embedded"], "1 passed"),
    ):
        done = subprocess.run(
            [
                sys.executable,
                "-P",
                "-m",
                "pytest",
                *named,
                "-k",
                "REF-003",
                reports,
                *inner.QUIET,
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": inner.path(site)},
            capture_output=True,
            text=True,
            timeout=480,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert status in done.stdout
    assert "gpucluster: a cluster but no path is named, so the shipped suites are run" in done.stdout
    assert harness.verdicts(harness.report_of(tmp_path / "reports")) == {"REF-003": "pass"}
    assert list((site / "pytest_gpucluster" / "data" / "manifests").glob("*.yaml"))
