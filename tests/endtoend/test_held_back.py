"""A stream that is held back or poisoned never turns a row green: the defect is planted, and the watch is attacked."""

import contextlib
import os
import pathlib

import pytest
import yaml

from pytest_gpucluster import profile, provider
from pytest_gpucluster.evidence import read
from tests.endtoend import harness, proxy

pytestmark = pytest.mark.slow

BOUND = (b'"name":"scarce-worker-', b'"nodeName"')
"""What a line of the first bind of a member says."""


@contextlib.contextmanager
def attacked(folder, defect):
    """Run an embedded cluster with a planted defect behind a proxy; yields the proxy and the options of a run."""
    with (
        provider.start(profile.load("embedded"), folder, [defect], os.getpid()) as cluster,
        proxy.before(cluster.facts["url"]) as between,
    ):
        config = yaml.safe_load(pathlib.Path(cluster.kubeconfig).read_text(encoding="utf-8"))
        for each in config["clusters"]:
            each["cluster"]["server"] = between.url
        kubeconfig = folder / "behind"
        kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        written = {
            "connection": {"kubeconfig": str(kubeconfig), "context": cluster.context},
            "scheduler": "volcano",
            "queue": "default",
            "gpu_resource": "nvidia.com/gpu",
            "gpus_per_node": 8,
            "scheduler_period": 0.05,
            "images": {"python": "python"},
        }
        (folder / "behind.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
        yield between, ("--cluster=behind", f"--gpucluster-profiles={folder}")


def decided(done, reports):
    """Return the one row of a run that was not stopped by an error of its own."""
    assert "Traceback" not in done.stdout + done.stderr
    (row,) = harness.report_of(reports)["requirements"]
    return row


def test_pods_held_back_over_the_window_are_not_green(tmp_path):
    """Members are bound before all fit; the stream of pods tells it seven seconds later, and loses nothing."""
    (tmp_path / "served").mkdir()
    with attacked(tmp_path / "served", "gang.binds-partially") as (between, options):
        between.attack = proxy.Hold("pods", BOUND, 7.0)
        done = harness.run_suite(tmp_path / "reports", "-k", "GANG-002", *options)
        assert between.attack.begun.is_set()
    row = decided(done, tmp_path / "reports")
    assert row["verdict"] in {"fail", "inconclusive"}, row["finding"]
    evidence = read(harness.run_folder(tmp_path / "reports") / "evidence" / "scarce.jsonl")
    (begin,), (end,) = evidence.notes("window-begin"), evidence.notes("window-end")
    assert evidence.gaps("Pod", begin.t, end.t), "a window over which the stream was held back has a gap"
    bound = [line.t for line in evidence.of_kind("Pod") if line.object["spec"].get("nodeName")]
    assert any(begin.t < t < end.t for t in bound), "what happened in the window is told in it"


def test_pods_held_back_beyond_the_wait_for_a_proof_are_not_green(tmp_path):
    """What we write last does not come back: the row says which watch is not current, and since when."""
    (tmp_path / "served").mkdir()
    with attacked(tmp_path / "served", "gang.binds-partially") as (between, options):
        between.attack = proxy.Hold("pods", BOUND, 25.0)
        done = harness.run_suite(tmp_path / "reports", "-k", "GANG-002", *options)
    row = decided(done, tmp_path / "reports")
    evidence = read(harness.run_folder(tmp_path / "reports") / "evidence" / "scarce.jsonl")
    assert [note.data["kind"] for note in evidence.notes("unproven")] == ["Pod"]
    assert row["verdict"] in {"fail", "inconclusive"}, row["finding"]
    if row["verdict"] == "inconclusive":
        assert "the watch of Pod did not prove to be current from t=" in row["finding"]["observed"]


@pytest.mark.parametrize("filters", [(), ("-W", "default")], ids=["errors", "default"])
def test_a_malformed_event_does_not_end_a_watch(filters, tmp_path):
    """One event that nobody can read; what follows it is seen all the same, whatever warnings count."""
    (tmp_path / "served").mkdir()
    with attacked(tmp_path / "served", "gang.min-member-short") as (between, options):
        line = b'{"type":"MODIFIED","object":{"kind":"X","metadata":"oops"}}\n'
        between.attack = proxy.Poison("podgroups", (b'"ADDED"',), line)
        done = harness.run_suite(tmp_path / "reports", "-k", "GANG-001", *options, *harness.BUSY, *filters)
        assert between.attack.given.is_set()
    row = decided(done, tmp_path / "reports")
    assert row["verdict"] == "fail", row["finding"]
    assert "minMember" in row["finding"]["observed"]
