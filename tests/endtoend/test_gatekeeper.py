"""The gatekeeper on a run that was made: it lets work in while the evidence is young enough, and no longer."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.kube import connection, objects
from pytest_gpucluster.plain import times
from pytest_gpucluster.promotion.following import Following
from pytest_gpucluster.promotion.gatekeeper import forms

from .test_promotion import START, kubectl

KUEUE = "kueue.x-k8s.io/v1beta2"
LIMIT = 64 * 1024
"""Memory of the gatekeeper itself, in KiB."""
PROFILE = """provider: existing
connection: {kubeconfig: kubeconfig, context: embedded}
scheduler: volcano
kueue: {cluster_queue: training}
queue: default
gpu_resource: nvidia.com/gpu
gpus_per_node: 8
"""
POLICY = """summary: a short one
age: 1m
stages:
  - {name: node, rows: [INV-002]}
"""


def setup(folder: Path) -> None:
    """Make a ClusterQueue behind a check, and write profile and policy."""
    (folder / "prod-a.yaml").write_text(PROFILE)
    (folder / "gate.yaml").write_text(POLICY)
    quota = {"name": "any", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}
    capacity = {"cpu": "96", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "gpu-0"},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"machineID": "m-0", "kubeletVersion": "v1.37.2"},
        },
    }
    made: list[dict[str, Any]] = [
        node,
        {"kind": "ResourceFlavor", "metadata": {"name": "any"}},
        {"kind": "AdmissionCheck", "metadata": {"name": "fit"}, "spec": {"controllerName": forms.CONTROLLER}},
        {
            "kind": "ClusterQueue",
            "metadata": {"name": "training"},
            "spec": {
                "namespaceSelector": {},
                "admissionChecksStrategy": {"admissionChecks": [{"name": "fit"}]},
                "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [quota]}],
            },
        },
        {
            "kind": "LocalQueue",
            "metadata": {"name": "training", "namespace": "default"},
            "spec": {"clusterQueue": "training"},
        },
    ]
    for each in made:
        body = json.dumps({"apiVersion": KUEUE, **each})
        kubectl(folder, "create", "--validate=false", "-f", "-", text=body)


def submit(folder: Path, name: str) -> None:
    """Submit a Job of one GPU."""
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": "training"},
        },
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
    kubectl(folder, "create", "--validate=false", "-f", "-", text=json.dumps(job))


def workload(folder: Path, api: objects.Objects, job: str) -> Following:
    """Follow the Workload of a Job."""
    uid = kubectl(folder, "get", "job", job, "-o", "jsonpath={.metadata.uid}")
    for _ in range(100):
        for each in api.list(forms.WORKLOAD, "default"):
            if each["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] == uid:
                return Following(api, forms.WORKLOAD, each["metadata"]["name"], "default")
    raise AssertionError(f"Job {job} has no Workload")


@pytest.mark.slow
@pytest.mark.long
def test_work_is_let_in_while_the_evidence_is_young_enough(tmp_path: Path) -> None:
    """Active and Ready on the run; at its expiry not Active within 2 s; what runs stays; under 64 MiB."""
    kubeconfig = tmp_path / "kubeconfig"
    more = ["--set", "nodes=simulated", "--set", "kueue.wait_for_pods_ready=600"]
    command = [sys.executable, "-c", START, "serve", "--kubeconfig", str(kubeconfig), "--nodes", "2", *more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        assert served.stdout.readline().startswith("export KUBECONFIG=")
        try:
            setup(tmp_path)
            gate(tmp_path)
        finally:
            served.communicate(timeout=60)


def gate(folder: Path) -> None:
    """Run the row that the policy asks for, and let the gatekeeper work on it until it is too old."""
    env = {**os.environ, "GPUCLUSTER_PROFILES": str(folder)}
    run = [
        sys.executable,
        "-m",
        "pytest",
        "--cluster=prod-a",
        "-k",
        "INV-002",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(run, cwd=folder, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    words = ["--check", "fit", "--runs", "reports", "--policy", "gate.yaml", "--for", "prod-a"]
    command = [sys.executable, "-c", START, "gatekeeper", *words]
    api = objects.Objects(connection.Connection.open(folder / "kubeconfig"))
    with (
        subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as keeper,
        Following(api, forms.CHECK, "fit") as check,
    ):
        try:
            assert check.until(lambda obj: forms.is_true(obj, "Active"), 50), check.obj
            submit(folder, "first")
            with workload(folder, api, "first") as first:
                assert first.until(lambda obj: forms.is_true(obj, "Admitted"), 30), first.obj
                until = times.parse_time(forms.condition(check.obj, "Active")["message"].rpartition(" ")[2])
                assert check.until(lambda obj: not forms.is_true(obj, "Active"), 90), check.obj
                told = forms.condition(check.obj, "Active")
                late = times.parse_time(told["lastTransitionTime"]) - until
                assert 0 <= late.total_seconds() <= 2
                assert told["reason"] in ("EvidenceExpired", "GateClosed")
                submit(folder, "second")
                with workload(folder, api, "second") as second:
                    why = "QuotaReserved"
                    assert second.until(
                        lambda obj: forms.condition(obj, why).get("reason") == "Inadmissible", 30
                    ), second.obj
                assert forms.is_true(first.obj or {}, "Admitted"), (first.obj or {}).get("status")
            status = Path(f"/proc/{keeper.pid}/status").read_text(encoding="utf-8")
            peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
            assert int(peak.split()[1]) < LIMIT, peak
        finally:
            keeper.terminate()
            assert keeper.wait(20) == 0
