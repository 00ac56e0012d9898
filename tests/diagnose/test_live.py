"""Jobs that hang on the embedded cluster, looked at as a user looks: the command, a kubeconfig, nothing else."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
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

LIMITS, REQUESTS = ("limits",), ("requests", "limits")
"""Where a template states its GPUs. Under limits alone they are not in the PodGroup's minResources: such a gang passes
enqueue whatever its size, its pods are made, and they wait at allocation."""

STAGES = {LIMITS: "place", REQUESTS: "enqueue"}
"""Where GPUs are stated -> the stage at which a gang that asks for too many is held."""

FORMS = pytest.mark.parametrize("stated", [LIMITS, REQUESTS], ids=["limits", "requests"])


def task(
    name: str, replicas: int, command: str, *, gpus: int = 1, resource: str = "nvidia.com/gpu",
    stated: tuple[str, ...] = LIMITS, **spec: Any,
) -> Obj:  # fmt: skip
    """Return a task of one container that runs a shell command."""
    box: Obj = {"name": "main", "image": spec.pop("image", "python"), "command": ["sh", "-c", command]}
    box["resources"] = {"requests": {"cpu": "10m"}, "limits": {}}
    for part in stated if gpus else ():
        box["resources"][part][resource] = str(gpus)
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

    @contextlib.contextmanager
    def having(self, made: Obj) -> Iterator[None]:
        """Have a job as long as a test looks at it."""
        self.create(made)
        try:
            yield
        finally:
            self.delete(made["metadata"]["name"])

    @contextlib.contextmanager
    def following(self, name: str) -> Iterator[subprocess.Popen[str]]:
        """Follow a job; what has not ended after a while is ended, so that its last line comes."""
        words = ["diagnose", f"vcjob/{name}", "-n", NAMESPACE, "--kubeconfig", str(self.kubeconfig)]
        command = [*LISTENS_TO_CTRL_C, sys.executable, "-c", START, *words, "--follow", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            late = threading.Timer(PATIENCE, process.kill)
            late.start()
            try:
                yield process
            finally:
                late.cancel()
                process.kill()

    def look(self, name: str, capsys: pytest.CaptureFixture[str], *more: str) -> Obj:
        """Return what one look says."""
        cli.main([
            "diagnose", f"vcjob/{name}", "-n", NAMESPACE, "--kubeconfig", str(self.kubeconfig), "--json", *more,
        ])  # fmt: skip
        told: Obj = json.loads(capsys.readouterr().out)
        return told

    def enqueued(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Look until a gang is at the gate: that it never fits is known before, and before it reserves nothing."""
        ends = time.monotonic() + PATIENCE
        while "PodGroup Inqueue" not in (told := self.look(name, capsys))["summary"]:
            assert time.monotonic() < ends, json.dumps(told, indent=1)

    def until(
        self, name: str, code: str, capsys: pytest.CaptureFixture[str], words: Sequence[str] = ()
    ) -> Obj:
        """Look until the likeliest cause, or else the state, is the one that was planted, and all words are said.

        The first look may come while a program is still printing the lines that tell names.
        """
        ends = time.monotonic() + PATIENCE
        while True:
            told = self.look(name, capsys)
            first = told["causes"][0]["code"] if told["causes"] else told["state"]
            text = json.dumps(told, ensure_ascii=False)
            lacking = [word for word in words if word not in text]
            if (first == code and not lacking) or time.monotonic() > ends:
                assert (first, lacking) == (code, []), json.dumps(told, indent=1)
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
    "noservice": (
        lambda: job(
            "noservice", task("worker", 2, CONNECT % "noservice-worker-0.noservice", restartPolicy="OnFailure"),
        ),
        "name-unresolved", ["no Service noservice", "no svc plugin", "add `svc: []` to spec.plugins"],
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
    with site.having(make()):
        site.until(name, code, capsys, words)


@FORMS
def test_a_gang_larger_than_the_cluster_is_called_so(
    site: Site, stated: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    """It can never fit, and that is said, whether it is held at enqueue or waits at allocation."""
    with site.having(job("toobig", task("worker", 25, SLEEP, stated=stated))):
        told = site.until("toobig", "over-cluster", capsys)
    assert told["state"] == "refused"
    assert told["causes"][0]["stage"] == STAGES[stated]
    text = told["causes"][0]["cause"]["text"]
    assert "asks for 25 nvidia.com/gpu, but all usable nodes together have 24" in text


@FORMS
def test_a_resource_that_no_node_has_is_named(
    site: Site, stated: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    """A misspelt resource is named, and what was meant."""
    with site.having(job("misspelt", task("worker", 2, SLEEP, resource="nvidia.com/gpus", stated=stated))):
        told = site.until("misspelt", "resource-nowhere", capsys)
    assert told["causes"][0]["stage"] == STAGES[stated]
    text = json.dumps(told["causes"][0]["cause"])
    assert "no node advertises nvidia.com/gpus" in text
    assert "did you mean 'nvidia.com/gpu'" in text


@FORMS
def test_a_queue_without_room_then_with_it(
    site: Site, stated: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    """Over its queue's capability a gang is refused, and the queue is named; raised, it runs and is healthy."""
    name = f"small-{len(stated)}"
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    site.create({**queue, "spec": {"weight": 1, "capability": {"nvidia.com/gpu": "2"}}})
    with site.having(job("capped", task("worker", 3, SLEEP, stated=stated), queue=name)):
        told = site.until("capped", "over-capability", capsys)
        assert told["state"] == "refused"
        assert told["causes"][0]["stage"] == STAGES[stated]
        assert (
            f"asks for 3 nvidia.com/gpu, but its queue {name} may have 2"
            in told["causes"][0]["cause"]["text"]
        )
        info = site.api.info("scheduling.volcano.sh/v1beta1", "Queue")
        site.api.patch(info, name, {"spec": {"capability": {"nvidia.com/gpu": "3"}}})
        site.until("capped", "healthy", capsys)


@FORMS
def test_a_queue_that_is_full_is_named_with_who_fills_it(
    site: Site, stated: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    """A gang that its queue could hold waits for what runs there, and is told what that is."""
    name = f"full-{len(stated)}"
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    site.create({**queue, "spec": {"weight": 1, "capability": {"nvidia.com/gpu": "3"}}})
    with site.having(job("first", task("worker", 2, SLEEP, stated=stated), queue=name)):
        site.until("first", "healthy", capsys)
        with site.having(job("second", task("worker", 2, SLEEP, stated=stated), queue=name)):
            told = site.until("second", "queue-full", capsys)
    assert told["causes"][0]["stage"] == STAGES[stated]
    assert "in use by Job.batch.volcano.sh/first" in told["causes"][0]["cause"]["text"]


def test_a_gang_that_blocks_is_named(site: Site, capsys: pytest.CaptureFixture[str]):
    """An enqueued gang that cannot be placed keeps the room of another, which is told whose it is."""
    # Two of three GPUs fit a node, one on each of its NUMA nodes: 21 of 24 are asked for, and one member has no room.
    with contextlib.ExitStack() as first:
        first.enter_context(site.having(job("blocker", task("worker", 7, SLEEP, gpus=3, stated=REQUESTS))))
        held = site.until("blocker", "over-cluster", capsys)
        assert "3 usable nodes would take 6 of its 7 members" in held["causes"][0]["cause"]["text"]
        site.enqueued("blocker", capsys)
        with site.having(job("blocked", task("worker", 3, SLEEP, gpus=3, stated=REQUESTS))):
            told = site.until("blocked", "blocked-by-enqueued", capsys)
            assert "blocker" in told["causes"][0]["cause"]["text"]
            assert "24 nvidia.com/gpu are free" in told["causes"][0]["seen"]
            first.close()
            site.until("blocked", "healthy", capsys)


def test_a_gang_that_reserves_nothing_blocks_nobody(site: Site, capsys: pytest.CaptureFixture[str]):
    """GPUs under limits alone are not reserved at enqueue: such a gang waits, and another one starts beside it."""
    with site.having(job("waits", task("worker", 7, SLEEP, gpus=3))):
        held = site.until("waits", "over-cluster", capsys)
        assert "3 usable nodes would take 6 of its 7 members" in held["causes"][0]["cause"]["text"]
        with site.having(job("beside", task("worker", 3, SLEEP, gpus=3))):
            site.until("beside", "healthy", capsys)
            site.until("waits", "over-cluster", capsys)


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


@FORMS
def test_following_tells_each_change_and_ends_with_the_job(site: Site, stated: tuple[str, ...]):
    """It says what holds the job up, says so when that is gone, and ends when the job has ended."""
    name = f"followed-{len(stated)}"
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    site.create({**queue, "spec": {"weight": 1, "capability": {"nvidia.com/gpu": "1"}}})
    seen: list[str] = []
    made = job("followed", task("worker", 2, "sleep 4", stated=stated), queue=name)
    with site.having(made), site.following("followed") as process:
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            seen.append(told["causes"][0]["code"] if told["causes"] else told["phase"])
            if seen[-1] == "over-capability":
                info = site.api.info("scheduling.volcano.sh/v1beta1", "Queue")
                site.api.patch(info, name, {"spec": {"capability": {"nvidia.com/gpu": "2"}}})
        _, err = process.communicate(timeout=PATIENCE)
    assert err == ""
    assert "over-capability" in seen, seen
    assert seen[-1] == "Completed", seen
    assert process.returncode == 0


def test_following_ends_with_ctrl_c(site: Site):
    """Ctrl-C ends it at once; the exit status is that of the last look."""
    with site.having(job("watched", task("worker", 25, SLEEP))), site.following("watched") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["causes"]:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert err == ""
    assert process.returncode == 1


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
