"""Trouble with the cluster is told in one line a row, never as green and never as a traceback."""

import json
import os
import pathlib
import stat
import tempfile
import urllib.request

import pytest
import yaml

from pytest_gpucluster import profile, provider
from tests.endtoend import harness

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Run an embedded cluster that stands for an existing one; yields its URL and a folder with a profile."""
    folder = tmp_path_factory.mktemp("served")
    loaded = profile.load("embedded", [], {}, {}, {})
    with provider.start(loaded, folder, [], os.getpid()) as cluster:
        written = {
            "connection": {"kubeconfig": str(cluster.kubeconfig), "context": cluster.context},
            "scheduler": "volcano",
            "queue": "default",
            "gpu_resource": "nvidia.com/gpu",
            "gpus_per_node": 8,
            "scheduler_period": 0.05,
            # Beside other tests (harness.BUSY).
            "bind_spread": 1.0,
            "images": {"python": "python"},
        }
        (folder / "there.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
        yield cluster.facts["url"], folder


@pytest.fixture
def faulty(served):
    """Return a function that sets faults of the API server; they are taken back."""
    url, folder = served
    config = yaml.safe_load((folder / "kubeconfig").read_text(encoding="utf-8"))
    token = config["users"][0]["user"]["token"]

    def put(**faults):
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{url}/debug/faults",
            data=json.dumps(faults).encode(),
            method="PUT",
            headers={"Authorization": f"Bearer {token}"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            assert answer.status == 200

    yield put
    put()


def run(served, tmp_path, rows, **more):
    """Run some rows against the served cluster."""
    _, folder = served
    return harness.run_suite(
        tmp_path, "-k", rows, "--cluster=there", f"--gpucluster-profiles={folder}", **more
    )


def test_a_profile_of_an_existing_cluster_works(served, tmp_path):
    """The same test text runs against a cluster that is only named."""
    done = run(served, tmp_path, "INV-001 or GANG-002 or REF-001")
    report = harness.report_of(tmp_path)
    assert harness.verdicts(report) == {"INV-001": "pass", "GANG-002": "pass", "REF-001": "pass"}, done.stdout
    assert report["cleanup"]["left_overs"] == []


def test_a_watch_that_drops_all_the_time_changes_no_verdict(served, faulty, tmp_path):
    """Dropped watches are resumed where they ended; nothing is lost and nothing is invented.

    They live long enough for a second watch to hear that it is current, which takes servers a second.
    """
    faulty(watch_drop_seconds=2)
    done = run(served, tmp_path, "INV-001 or GANG-002")
    assert harness.verdicts(harness.report_of(tmp_path)) == {"INV-001": "pass", "GANG-002": "pass"}, (
        done.stdout
    )


def test_an_api_server_that_fails_now_and_then_changes_no_verdict(served, faulty, tmp_path):
    """Reads and deletes are asked again; a create that fails is environment, never a violation."""
    faulty(status_500_every=7)
    done = run(served, tmp_path, "INV-001 or GANG-002")
    found = set(harness.verdicts(harness.report_of(tmp_path)).values())
    assert found <= {"pass", "environment", "inconclusive"}, done.stdout
    assert "Traceback" not in done.stdout


def test_an_api_server_that_answers_500_is_environment(served, faulty, tmp_path):
    """Every row says which request failed; none is green, none is a violation."""
    faulty(status_500_every=1)
    done = run(served, tmp_path, "INV-001 or GANG-002")
    report = harness.report_of(tmp_path)
    assert set(harness.verdicts(report).values()) == {"environment"}, done.stdout
    for row in report["requirements"]:
        assert "500" in row["finding"]["observed"], row
    assert "Traceback" not in done.stdout
    assert done.returncode == 1


def test_an_api_server_that_hangs_is_environment_in_bounded_time(served, faulty, tmp_path):
    """A request without an answer ends by its own limit and names itself."""
    faulty(hang_paths=["/api"])
    done = run(served, tmp_path, "INV-001", timeout=200)
    report = harness.report_of(tmp_path)
    assert harness.verdicts(report) == {"INV-001": "environment"}, done.stdout
    assert "Traceback" not in done.stdout


def test_refused_namespaces_make_rows_environment(tmp_path):
    """Where the machine refuses user namespaces nothing that needs pods is decided, and the row says why."""
    fake = tmp_path / "bin" / "unshare"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    done = harness.run_suite(
        tmp_path / "reports",
        "-k",
        "INV-001 or GANG-001 or REF-003",
        env={"PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}"},
    )
    report = harness.report_of(tmp_path / "reports")
    assert harness.verdicts(report) == {"INV-001": "pass", "GANG-001": "environment", "REF-003": "pass"}, (
        done.stdout
    )
    row = next(row for row in report["requirements"] if row["id"] == "GANG-001")
    assert "user namespaces are refused" in row["finding"]["observed"]


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["--cluster=embeded"], "did you mean 'embedded'"),
        (["--gpucluster-defect=gang.bind-partially"], "did you mean 'gang.binds-partially'"),
        (["--cluster=broken", "--gpucluster-profiles={folder}"], "does not exist"),
        (["--cluster=typo", "--gpucluster-profiles={folder}"], "schedular"),
        (
            ["--cluster=there", "--gpucluster-profiles={served}", "--gpucluster-defect=gang.binds-partially"],
            "embedded",
        ),
    ],
    ids=["cluster", "defect", "kubeconfig", "key", "real"],
)
def test_a_mistake_is_one_clear_line(args, line, served, tmp_path):
    """Usage errors end with status 4, name what is wrong and what is near, and touch nothing."""
    good = yaml.safe_load((served[1] / "there.yaml").read_text())
    folder = tmp_path / "clusters"
    folder.mkdir()
    broken = {**good, "connection": {"kubeconfig": "/nowhere/config", "context": "x"}}
    (folder / "broken.yaml").write_text(yaml.safe_dump(broken))
    (folder / "typo.yaml").write_text(yaml.safe_dump({**good, "schedular": "volcano"}))
    args = [arg.format(folder=folder, served=served[1]) for arg in args]
    done = harness.run_suite(tmp_path / "reports", *args)
    assert done.returncode == 4, done.stdout + done.stderr
    said = [each for each in done.stderr.splitlines() if each.strip()]
    assert any(line in each for each in said), done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert not (tmp_path / "reports").exists()


MALFORMED = '''
from pytest_gpucluster import requirement
from pytest_gpucluster.requirement import Finding, Verdict
from pytest_gpucluster.scenario import Needs, Scenario


def run(stage):
    stage.submit({manifest})


bad = Scenario(name="bad", summary="a malformed manifest", run=run, needs=Needs(pods_run=False))


def judge(evidence, given):
    refused = [line for line in evidence.responses() if line.data["code"] >= 400]
    if refused:
        return Finding(Verdict.INCONCLUSIVE, "accepted", str(refused[0].data["status"].get("message")))
    return Finding(Verdict.PASS, "accepted", "accepted")


@requirement("GANG-099", level="should", documents="+", scenario=bad, judge=judge)
def test_bad(settle):
    """A malformed manifest.

    It SHOULD be told.
    """
    settle()
'''


@pytest.mark.parametrize(
    ("manifest", "line"),
    [
        ("{'kind': 'Pod', 'metadata': {'name': 'x'}, 'spec': {}}", "apiVersion"),
        ("{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'x'}, 'spec': {}}", "containers"),
        ("{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'X_'}, 'spec': {}}", "name"),
        ("{'apiVersion': 'nosuch/v1', 'kind': 'Thing', 'metadata': {'name': 'x'}}", "Thing"),
    ],
    ids=["no-version", "no-containers", "bad-name", "unknown-kind"],
)
def test_a_malformed_manifest_is_told(manifest, line, served, tmp_path):
    """The row is not green and says in one line what the API server or the driver found wrong."""
    (tmp_path / "test_bad.py").write_text(MALFORMED.replace("{manifest}", manifest), encoding="utf-8")
    command = harness.suite_command(
        tmp_path / "reports", "--cluster=there", f"--gpucluster-profiles={served[1]}"
    )
    command[command.index("suites")] = str(tmp_path / "test_bad.py")
    import subprocess

    done = subprocess.run(command, cwd=harness.ROOT, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout
    row = harness.report_of(tmp_path / "reports")["requirements"][0]
    assert row["verdict"] in {"environment", "inconclusive"}
    assert line in row["finding"]["observed"], row["finding"]


def test_the_folder_of_a_run_is_the_only_thing_it_writes(tmp_path):
    """Nothing stays beside the report folder."""
    # Short, or the run would not put its sockets there; its own, since others write to the one of the machine.
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        harness.run_suite(tmp_path, "-k", "REF-003", env={"TMPDIR": temporary, "XDG_RUNTIME_DIR": ""})
        assert harness.verdicts(harness.report_of(tmp_path)) == {"REF-003": "pass"}
        assert list(pathlib.Path(temporary).iterdir()) == []
