"""Jobs that hang on the embedded cluster, looked at as a user looks: the command, a kubeconfig, nothing else."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster import cli, profile, provider
from pytest_gpucluster.kube.connection import Connection
from pytest_gpucluster.kube.objects import Objects
from tests.interrupting import LISTENS_TO_CTRL_C

pytestmark = pytest.mark.slow

Obj = dict[str, Any]
NAMESPACE = "ml"
SLEEP = "sleep 600"
COMPLETE = [{"event": "TaskCompleted", "action": "CompleteJob"}]
PYTORCH = {"pytorch": ["--master=master", "--worker=worker"]}
START = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"
PATIENCE = 60.0
"""Seconds within which a planted failure must be found; it takes the time of a back-off or of a silence."""


def task(
    name: str, replicas: int, command: str, *, gpus: int = 1, resource: str = "nvidia.com/gpu", **spec: Any
) -> Obj:
    """Return a task of one container that runs a shell command."""
    box: Obj = {"name": "main", "image": spec.pop("image", "python"), "command": ["sh", "-c", command]}
    box["resources"] = {"requests": {"cpu": "10m"}, "limits": {resource: str(gpus)} if gpus else {}}
    policies = spec.pop("policies", None)
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [box], **spec}
    made: Obj = {"name": name, "replicas": replicas, "template": {"spec": pod}}
    return made | ({"policies": policies} if policies else {})


def job(name: str, *tasks: Obj, **spec: Any) -> Obj:
    """Return a Volcano Job."""
    told = {"schedulerName": "volcano", "queue": "default", "tasks": list(tasks), **spec}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": told}


class Site:
    """A running cluster, and the command pointed at it."""

    def __init__(self, kubeconfig: Path) -> None:
        """Make the namespace."""
        self.kubeconfig = kubeconfig
        self.api = Objects(Connection.open(kubeconfig))
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})

    def create(self, *objects: Obj) -> None:
        """Create objects."""
        for obj in objects:
            self.api.create(obj)

    def delete(self, name: str) -> None:
        """Delete a job."""
        self.api.delete(self.api.info("batch.volcano.sh/v1alpha1", "Job"), name, NAMESPACE, grace=0)

    def look(self, name: str, capsys: pytest.CaptureFixture[str], *more: str) -> Obj:
        """Return what one look says."""
        cli.main([
            "diagnose", f"vcjob/{name}", "-n", NAMESPACE, "--kubeconfig", str(self.kubeconfig), "--json", *more,
        ])  # fmt: skip
        told: Obj = json.loads(capsys.readouterr().out)
        return told

    def until(self, name: str, code: str, capsys: pytest.CaptureFixture[str]) -> Obj:
        """Look until the likeliest cause, or else the state, is the one that was planted."""
        ends = time.monotonic() + PATIENCE
        while True:
            told = self.look(name, capsys)
            first = told["causes"][0]["code"] if told["causes"] else told["state"]
            if first == code or time.monotonic() > ends:
                assert first == code, json.dumps(told, indent=1)
                return told


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder for the clusters."""
    return tmp_path_factory.mktemp("diagnose")


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Site]:
    """Have the healthy cluster; skipped where the host runs no pods."""
    with provider.start(profile.load("embedded"), folder / "well") as cluster:
        if not cluster.pods_run:
            pytest.skip(f"pods do not run here: {cluster.facts.get('pods_run_problem')}")
        yield Site(Path(cluster.kubeconfig))


CRASH = "exec python -c \"import os; os.environ['RANK']\""
CONNECT = "python -c \"import socket; socket.create_connection(('%s', 9))\""
PLANTED: dict[str, tuple[Callable[[], Obj], str, list[str]]] = {
    "well": (
        lambda: job("well", task("master", 1, SLEEP, policies=COMPLETE), task("worker", 1, SLEEP), plugins=PYTORCH),
        "healthy", ["well"],
    ),
    "image": (
        lambda: job("image", task("master", 1, SLEEP, image="registry.example/none:1")),
        "image", ["registry.example/none:1"],
    ),
    "misspelt": (
        lambda: job("misspelt", task("worker", 2, SLEEP, resource="nvidia.com/gpus")),
        "resource-nowhere", ["nvidia.com/gpus", "did you mean 'nvidia.com/gpu'"],
    ),
    "toobig": (lambda: job("toobig", task("worker", 25, SLEEP)), "over-cluster", ["25 nvidia.com/gpu", "24"]),
    "wide": (
        lambda: job("wide", task("worker", 2, SLEEP, gpus=9)), "member-too-large",
        ["9 nvidia.com/gpu", "more than 8"],
    ),
    "noplugin": (
        lambda: job("noplugin", task("master", 1, CRASH, policies=COMPLETE), task("worker", 1, SLEEP)),
        "rank-variables", ["no pytorch plugin", "KeyError: 'RANK'"],
    ),
    "nompi": (
        lambda: job("nompi", task("head", 1, "set -u; mpiexec --host ${MPI_HOST} hello"), task("node", 1, SLEEP)),
        "mpi-plugin", ["MPI_HOST", "--master=head", "--worker=node"],
    ),
    "inplace": (
        lambda: job(
            "inplace", task("master", 1, "echo out of luck; exit 3", restartPolicy="OnFailure"),
            task("worker", 1, SLEEP), policies=[{"event": "PodFailed", "action": "RestartJob"}],
        ),
        "restart-in-place", ["inplace-master-0", "exit code 3", "out of luck", "PodFailed"],
    ),
    "retries": (
        lambda: job(
            "retries", task("worker", 1, "echo no luck; exit 4"), maxRetry=2,
            policies=[{"event": "PodFailed", "action": "RestartJob"}],
        ),
        "retries-exhausted", ["maxRetry 2", "exit code 4", "no luck"],
    ),
    "linger": (
        lambda: job("linger", task("master", 1, "exit 0"), task("worker", 1, SLEEP)),
        "no-complete-policy", ["linger-worker-0", "CompleteJob"],
    ),
    "scheduler": (
        lambda: job("scheduler", task("master", 1, SLEEP), task("worker", 1, SLEEP, schedulerName="mine")),
        "scheduler-name", ["spec.tasks[1].template.spec.schedulerName", "names mine"],
    ),
    "wrongname": (
        lambda: job(
            "wrongname", task("master", 1, SLEEP, policies=COMPLETE),
            task("worker", 1, CONNECT % "wrongname-master-0.nosuch",
                 restartPolicy="OnFailure"), plugins=PYTORCH,
        ),
        "name-unresolved", ["wrongname-master-0.nosuch", "no Service nosuch"],
    ),
    "noport": (
        lambda: job(
            "noport", task("master", 1, SLEEP, policies=COMPLETE),
            task("worker", 1, f"sleep 3; {CONNECT % 'noport-master-0.noport'}",
                 restartPolicy="OnFailure"),
            plugins={**PYTORCH, "svc": ["--publish-not-ready-addresses=true"]},
        ),
        "port-refused", ["noport-master-0"],
    ),
    "secret": (
        lambda: job("secret", task("worker", 1, SLEEP) | _with_secret()), "start",
        ["CreateContainerConfigError", "nosuch"],
    ),
}  # fmt: skip
"""Job -> how it is made, the code of the likeliest cause, what must be named."""


def _with_secret() -> Obj:
    made = task("worker", 1, SLEEP)
    made["template"]["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "nosuch"}}]
    return made


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_a_planted_failure_is_found(site: Site, name: str, capsys: pytest.CaptureFixture[str]):
    """The command alone says what was planted, with names and numbers."""
    make, code, words = PLANTED[name]
    site.create(make())
    try:
        told = site.until(name, code, capsys)
    finally:
        site.delete(name)
    text = json.dumps(told, ensure_ascii=False)
    for word in words:
        assert word in text, text


def test_a_queue_without_room_then_with_it(site: Site, capsys: pytest.CaptureFixture[str]):
    """Over its queue's capability a gang is refused, and the queue is named; raised, it runs and is healthy."""
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "small"}}
    site.create({**queue, "spec": {"weight": 1, "capability": {"nvidia.com/gpu": "2"}}})
    site.create(job("capped", task("worker", 3, SLEEP), queue="small"))
    told = site.until("capped", "over-capability", capsys)
    assert told["state"] == "refused"
    assert "queue small may have 2" in told["causes"][0]["cause"]["text"]
    info = site.api.info("scheduling.volcano.sh/v1beta1", "Queue")
    site.api.patch(info, "small", {"spec": {"capability": {"nvidia.com/gpu": "3"}}})
    site.until("capped", "healthy", capsys)
    site.delete("capped")


def test_a_gang_that_blocks_is_named(site: Site, capsys: pytest.CaptureFixture[str]):
    """An enqueued gang that cannot be placed keeps the room of another, which is told whose it is."""
    # Two of three GPUs fit a node, one on each of its NUMA nodes: 21 of 24 are asked for, and one member has no room.
    site.create(job("blocker", task("worker", 7, SLEEP, gpus=3)))
    site.until("blocker", "no-room", capsys)
    site.create(job("blocked", task("worker", 3, SLEEP, gpus=3)))
    told = site.until("blocked", "blocked-by-enqueued", capsys)
    assert "blocker" in told["causes"][0]["cause"]["text"]
    assert "24 nvidia.com/gpu are free" in told["causes"][0]["seen"]
    site.delete("blocker")
    site.until("blocked", "healthy", capsys)
    site.delete("blocked")


def test_what_was_saved_says_the_same(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A dump is diagnosed like the cluster that it was made of, without the cluster, and holds no secret."""
    secret = "hunter2-hunter2"
    made = job("saved", task("worker", 2, "echo boom; exit 5", restartPolicy="OnFailure"))
    made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "WANDB_API_KEY", "value": secret}
    ]
    site.create(made)
    site.until("saved", "restart-in-place", capsys)
    dump = tmp_path / "dump.json"
    live = site.look("saved", capsys, "--save", str(dump))
    site.delete("saved")
    assert cli.main(["diagnose", "--from", str(dump), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [one["code"] for one in told["causes"]] == [one["code"] for one in live["causes"]]
    assert told["subject"] == live["subject"]
    assert secret not in dump.read_text()


def test_following_tells_each_change_and_ends_with_the_job(site: Site):
    """It says what holds the job up, says so when that is gone, and ends when the job has ended."""
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "followed"}}
    site.create({**queue, "spec": {"weight": 1, "capability": {"nvidia.com/gpu": "1"}}})
    site.create(job("followed", task("worker", 2, "sleep 4"), queue="followed"))
    words = [
        "diagnose",
        "vcjob/followed",
        "-n",
        NAMESPACE,
        "--kubeconfig",
        str(site.kubeconfig),
        "--follow",
        "--json",
    ]
    command = [*LISTENS_TO_CTRL_C, sys.executable, "-c", START, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen: list[str] = []
        for line in process.stdout:
            told = json.loads(line)
            seen.append(told["causes"][0]["code"] if told["causes"] else told["phase"])
            if seen[-1] == "over-capability":
                info = site.api.info("scheduling.volcano.sh/v1beta1", "Queue")
                site.api.patch(info, "followed", {"spec": {"capability": {"nvidia.com/gpu": "2"}}})
        _, err = process.communicate(timeout=PATIENCE)
    assert err == ""
    assert "over-capability" in seen
    assert seen[-1] == "Completed"
    assert process.returncode == 0
    site.delete("followed")


def test_following_ends_with_ctrl_c(site: Site):
    """Ctrl-C ends it at once; the exit status is that of the last look."""
    site.create(job("watched", task("worker", 25, SLEEP)))
    words = [
        "diagnose",
        "vcjob/watched",
        "-n",
        NAMESPACE,
        "--kubeconfig",
        str(site.kubeconfig),
        "--follow",
        "--json",
    ]
    command = [*LISTENS_TO_CTRL_C, sys.executable, "-c", START, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["causes"]:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert err == ""
    assert process.returncode == 1
    site.delete("watched")


DEFECTS = {
    "scheduler.down": ("scheduler-silent", ["volcano-system", "no phase"]),
    "controllers.down": ("controllers-silent", ["vc-controller-manager"]),
    "gang.binds-partially": ("half-placed", ["gang plugin", "6 of 7"]),
    "lifecycle.complete-job-keeps-workers": ("left-running", ["worker-0"]),
}


@pytest.mark.parametrize("defect", sorted(DEFECTS))
def test_a_defect_of_the_cluster_is_found(defect: str, folder: Path, capsys: pytest.CaptureFixture[str]):
    """What is wrong with the cluster itself is named too, from the job's side."""
    code, words = DEFECTS[defect]
    loaded = profile.load("embedded")
    with provider.start(loaded, folder / defect, [defect]) as cluster:
        if not cluster.pods_run:
            pytest.skip(f"pods do not run here: {cluster.facts.get('pods_run_problem')}")
        site = Site(Path(cluster.kubeconfig))
        if code == "half-placed":
            made = job("hurt", task("worker", 7, SLEEP, gpus=3))
        else:
            made = job("hurt", task("master", 1, "sleep 1", policies=COMPLETE), task("worker", 1, SLEEP))
        site.create(made)
        told = site.until("hurt", code, capsys)
    text = json.dumps(told["causes"][0], ensure_ascii=False)
    for word in words:
        assert word in text, text
