"""The pipeline of the how-to, run on an embedded cluster: it gates and promotes; with one defect it stays closed."""

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.node import sandbox
from tests.fixtures import promotion_page

START = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"
KUBECTL = str(Path(sys.executable).with_name("kubectl"))
PROFILE = """provider: existing
connection: {kubeconfig: kubeconfig, context: embedded}
scheduler: volcano
queue: training
conformance_queue: conformance
gpu_resource: nvidia.com/gpu
gpus_per_node: 8
images: {python: python, torch: torch}
budgets: {bind: 20}
"""
"""A gang that does not fit is waited for as long as binding may take, which is minutes on a real cluster."""
POLICY = """summary: the training queue may be opened
age: 2h
stages:
  - {name: scheduling, rows: [INV-005, GANG-001]}
"""


@contextlib.contextmanager
def served(folder: Path, *words: str) -> Iterator[None]:
    """Run an embedded cluster with the two queues, beside a profile and a policy."""
    problem = sandbox.probe()
    if problem is not None:
        pytest.skip(problem)
    (folder / "prod-a.yaml").write_text(PROFILE)
    (folder / "gate.yaml").write_text(POLICY)
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-c", START, "serve", "--kubeconfig", str(kubeconfig), "--nodes", "2", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("export KUBECONFIG=")
        try:
            for name in ("training", "conformance"):
                queue = {
                    "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
                    "metadata": {"name": name}, "spec": {"weight": 1},
                }  # fmt: skip
                kubectl(folder, "create", "--validate=false", "-f", "-", text=json.dumps(queue))
            yield
        finally:
            process.communicate(timeout=60)


def kubectl(folder: Path, *words: str, text: str | None = None) -> str:
    """Ask the cluster."""
    done = subprocess.run(
        [KUBECTL, f"--kubeconfig={folder / 'kubeconfig'}", *words],
        input=text, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a pipeline, which runs the two rows that the policy asks for."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "POLICY": "gate.yaml",
        "GPUCLUSTER_PROFILES": str(folder),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "PYTEST_ADDOPTS": '-n 0 -p no:cacheprovider -k "INV-005 or GANG-001"',
    }


def pipeline(folder: Path, where: str) -> subprocess.CompletedProcess[str]:
    """Run a pipeline of the page, with a policy that asks for two rows."""
    script = folder / "pipeline.sh"
    script.write_text(promotion_page.PIPELINES[where]().replace("--policy acceptance", "--policy gate.yaml"))
    shell = "sh" if where == "shell" else "bash"
    own = environment(folder)
    return subprocess.run(
        [shell, str(script)], cwd=folder, env=own, capture_output=True, text=True, timeout=300, check=False
    )


def gates(folder: Path) -> None:
    """Decide twice at once: both say the same, and write nothing; where no file may grow, it is closed in one line."""
    runs = sorted(str(each) for each in folder.glob("reports/*/*-prod-a-*"))
    words = [sys.executable, "-c", START, "gate", *runs, "--policy", "gate.yaml", "--for", "prod-a", "--json"]
    before = {each: each.stat().st_mtime_ns for each in folder.glob("reports/**/*")}

    def begin(**more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            words,
            cwd=folder,
            env=environment(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    full = begin(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    found = []
    for process in (begin(), begin()):
        said, err = process.communicate(timeout=120)
        assert process.returncode == 0, said + err
        found.append({key: value for key, value in json.loads(said).items() if key != "at"})
    assert found[0]["open"] is True
    assert found[0] == found[1]
    said, err = full.communicate(timeout=120)
    assert (full.returncode, said, len(err.splitlines())) == (2, "", 1), err
    assert {each: each.stat().st_mtime_ns for each in folder.glob("reports/**/*")} == before


def queue(folder: Path) -> dict[str, object]:
    """Return the training queue."""
    found: dict[str, object] = json.loads(kubectl(folder, "get", "queue", "training", "-o", "json"))
    return found


@pytest.mark.slow
@pytest.mark.long
def test_the_pipeline_runs_gates_and_promotes(tmp_path: Path) -> None:
    """Held at first, tried out, open at the end; both runs and the policy stand on the queue, and in an Event."""
    with served(tmp_path):
        done = pipeline(tmp_path, "shell")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "queue       Queue/training is Closed now (was Open)" in done.stdout
        assert "pending     GANG-001: it passed in conformance" in done.stdout
        assert "queue       Queue/training is Open now (was Closed)" in done.stdout
        found = queue(tmp_path)
        assert found["status"]["state"] == "Open"
        told = found["metadata"]["annotations"]
        assert told["gpucluster.dev/promotion"] == "open"
        assert told["gpucluster.dev/promotion-policy"] == "gate"
        runs = [each.name for each in tmp_path.glob("reports/*/*-prod-a-*")]
        assert len(runs) == 2
        assert all(run in told["gpucluster.dev/promotion-runs"] for run in runs)
        events = kubectl(tmp_path, "get", "events", "-o", "jsonpath={.items[*].reason}").split()
        assert {"Held", "Promoted"} <= {*events}
        gates(tmp_path)


@pytest.mark.slow
@pytest.mark.long
def test_with_one_planted_defect_the_queue_stays_closed_and_says_why(tmp_path: Path) -> None:
    """A PodGroup that promises less than its Job: the gate names the row, the queue is not even tried out."""
    with served(tmp_path, "--defect", "gang.min-member-short"):
        done = pipeline(tmp_path, "github")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "GANG-001" in (tmp_path / "summary.md").read_text(encoding="utf-8")
        assert "GANG-001 (scheduling): fail:" in done.stdout
        assert "queue       Queue/training is Closed and stays so: the gate is closed" in done.stdout
        assert "trial" not in done.stdout
        assert queue(tmp_path)["status"]["state"] == "Closed"
        events = kubectl(tmp_path, "get", "events", "-o", "jsonpath={.items[*].reason}").split()
        assert "PromotionRefused" in events


@pytest.mark.slow
@pytest.mark.long
def test_a_held_queue_that_fails_its_trial_is_closed_again(tmp_path: Path) -> None:
    """What nobody could see while it was closed: the gang does not fit into the training queue."""
    with served(tmp_path):
        kubectl(
            tmp_path, "patch", "queue", "training", "--type=merge",
            "-p", '{"spec":{"capability":{"nvidia.com/gpu":"2"}}}',
        )  # fmt: skip
        done = pipeline(tmp_path, "gitlab")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "is Closed again: INV-005 and GANG-001 did not pass in it" in done.stdout
        found = queue(tmp_path)
        assert found["status"]["state"] == "Closed"
        assert found["metadata"]["annotations"]["gpucluster.dev/promotion"] == "held"
