"""The embedded cluster: had once a run, ended with its owner, told when it cannot be had."""

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import pytest
import yaml

from pytest_gpucluster import profile, provider
from pytest_gpucluster.node import sandbox
from pytest_gpucluster.provider import cluster_of_run, embedded, embedded_config, processes, sockets

PATIENCE = 60.0

STARTER = """
import os, sys
from pathlib import Path
from pytest_gpucluster import profile, provider
held = provider.obtain(profile.load("embedded"), Path(sys.argv[1]), owner_pid=int(sys.argv[2]) or None)
print(held.owned, flush=True)
sys.stdin.read()
if sys.argv[3] == "close":
    held.close()
os._exit(0)
"""


@pytest.fixture
def loaded():
    """The built-in profile without nodes, so that only the control plane starts."""
    return profile.load("embedded", cli=["nodes=simulated"])


def _get(url, token=""):
    ask = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310
    with urllib.request.urlopen(ask, timeout=PATIENCE) as answer:  # noqa: S310
        return json.load(answer)


def _token(cluster):
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text(encoding="utf-8"))
    return config["users"][0]["user"]["token"]


def _running(folder):
    return [
        processes.Running(**item) for item in json.loads((folder / "cluster.json").read_text())["running"]
    ]


def _alive(running):
    return processes.born(running.pid) == running.born


def test_it_answers_while_it_is_had_and_is_gone_afterwards(loaded, tmp_path):
    """The kubeconfig leads to an API that answers; with the block it ends and leaves only logs and kubeconfig."""
    with provider.start(loaded, tmp_path) as cluster:
        config = yaml.safe_load(Path(cluster.kubeconfig).read_text(encoding="utf-8"))
        (server,) = [entry["cluster"]["server"] for entry in config["clusters"]]
        assert _get(f"{server}/version")["gitVersion"] == "v1.37.0"
        assert config["current-context"] == cluster.context
        assert Path(cluster.kubeconfig).stat().st_mode & 0o077 == 0
        (running,) = _running(tmp_path)
        folder = Path(json.loads((tmp_path / "cluster.json").read_text())["folder"])
        assert folder.is_dir()
        assert provider.attach(tmp_path) == cluster
    assert not _alive(running)
    assert not folder.exists()
    assert provider.attach(tmp_path) is None


def test_simulated_nodes_run_no_pods_and_say_why(loaded, tmp_path):
    """Without a sandbox the cluster lacks the feature, and its facts name the reason."""
    with provider.start(loaded, tmp_path) as cluster:
        assert not cluster.pods_run
        assert cluster.facts["pods_run_problem"] == "the profile sets nodes: simulated"


def test_a_host_that_refuses_namespaces_costs_only_the_pods(tmp_path, monkeypatch):
    """Where the sandbox is refused the control plane runs all the same."""
    monkeypatch.setattr(sandbox, "probe", lambda: "user namespaces are refused on this machine")
    with provider.start(profile.load("embedded"), tmp_path) as cluster:
        assert not cluster.pods_run
        assert cluster.facts["pods_run_problem"] == "user namespaces are refused on this machine"


def test_a_second_process_attaches_and_does_not_end_it(loaded, tmp_path):
    """Whoever comes second gets the same cluster, and closing it changes nothing."""
    with provider.start(loaded, tmp_path) as cluster:
        second = provider.obtain(loaded, tmp_path)
        assert second.cluster == cluster
        assert not second.owned
        second.close()
        assert _get(f"{cluster.facts['url']}/version")


@contextlib.contextmanager
def _starter(folder, owner, end):
    command = [sys.executable, "-c", STARTER, str(folder), str(owner), end]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
            provider.stop(folder)


def test_it_outlives_the_worker_that_started_it_and_ends_with_its_owner(tmp_path):
    """A worker starts it for its controller: it ends with the controller, however that dies."""
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with (
        subprocess.Popen(waits, stdin=subprocess.PIPE) as owner,
        _starter(tmp_path, owner.pid, "close") as (worker, owned),
    ):
        assert owned == "False"
        running = _running(tmp_path)
        worker.stdin.close()
        worker.wait(PATIENCE)
        assert running
        assert all(map(_alive, running))
        owner.kill()
        owner.wait(PATIENCE)
        assert all(processes.wait(item, PATIENCE) for item in running)


def test_the_owner_ends_what_a_worker_started(tmp_path):
    """The controller ends it by the run's folder, also while the worker is still there."""
    with _starter(tmp_path, os.getpid(), "close") as (_, owned):
        assert owned == "False"
        running = _running(tmp_path)
        assert all(map(_alive, running))
        provider.stop(tmp_path)
        assert not any(map(_alive, running))
        assert not (tmp_path / "cluster.json").exists()


def test_it_ends_with_an_owner_that_is_killed(tmp_path):
    """Nothing is left running when the process that holds it dies by SIGKILL."""
    with _starter(tmp_path, 0, "exit") as (owner, owned):
        assert owned == "True"
        running = _running(tmp_path)
        owner.kill()
        owner.wait(PATIENCE)
        assert all(processes.wait(item, PATIENCE) for item in running)


def test_what_a_killed_run_left_is_removed_by_the_next(request, monkeypatch):
    """Folders of ended owners go, those of living ones and of others stay."""
    # Short, wherever the test itself may write: a folder that is too long for sockets is not used for them.
    base = Path(tempfile.mkdtemp(prefix="test-", dir="/tmp"))
    request.addfinalizer(lambda: shutil.rmtree(base))
    monkeypatch.setattr("tempfile.tempdir", str(base))
    mine = sockets.new_folder(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        orphan = sockets.new_folder(other.pid)
    foreign = base / "gpucluster-serve-x"
    foreign.mkdir()
    sockets.remove_orphans()
    assert {path for path in base.iterdir() if path.is_dir()} == {mine, foreign}
    assert not orphan.exists()


def test_a_control_plane_that_does_not_start_is_told_and_leaves_nothing(loaded, tmp_path, monkeypatch):
    """The error has the end of the log, and no process, socket or cluster file stays."""
    monkeypatch.setattr(embedded, "CONTROL_PLANE", ("-c", "raise SystemExit('no such port')"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(
        provider.ProviderError, match=r"the control plane ended before it was ready.*no such port"
    ):
        provider.obtain(loaded, tmp_path / "run")
    assert not (tmp_path / "run" / "cluster.json").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_nodes_that_do_not_start_take_the_control_plane_with_them(tmp_path, monkeypatch):
    """A half-started cluster is ended: the control plane does not outlive nodes that failed."""
    monkeypatch.setattr(sandbox, "probe", lambda: None)
    monkeypatch.setattr(embedded, "NODES", ("-c", 'print(\'{"error": "no bridge"}\')'))
    started = []
    launch = processes.launch

    def noting(*args, **options):
        started.append(launch(*args, **options))
        return started[-1]

    monkeypatch.setattr(processes, "launch", noting)
    with pytest.raises(provider.ProviderError, match="the nodes did not start: no bridge"):
        provider.obtain(profile.load("embedded"), tmp_path)
    (control,) = started
    assert not _alive(control.running)


def test_nodes_that_are_not_ready_are_named(loaded, tmp_path):
    """Nodes are waited for on a watch; those that do not come are named with what is known of them."""
    wanted = ["gpu-0", "gpu-1"]
    with provider.start(loaded, tmp_path) as cluster, pytest.raises(provider.ProviderError) as caught:
        embedded.wait_for_nodes(cluster.facts["url"], wanted, 1.0, tmp_path / "none", _token(cluster))
    assert "nodes were not Ready within 1 s: gpu-0 (did not register), gpu-1 (did not register)" in str(
        caught.value
    )


def test_three_nodes_of_eight_gpus_are_ready(tmp_path):
    """With a sandbox there are three Ready nodes with eight GPUs each and one without, and pods run."""
    problem = sandbox.probe()
    if problem is not None:
        pytest.skip(problem)
    with provider.start(profile.load("embedded"), tmp_path) as cluster:
        assert cluster.pods_run
        nodes = _get(f"{cluster.facts['url']}/api/v1/nodes", _token(cluster))["items"]
        offered = {n["metadata"]["name"]: n["status"]["allocatable"].get("nvidia.com/gpu") for n in nodes}
        assert offered == {"cpu-0": None, "gpu-0": "8", "gpu-1": "8", "gpu-2": "8"}
        facts = {node["name"]: node["gpus"] for node in cluster.facts["nodes"]}
        assert facts == {"cpu-0": 0, "gpu-0": 8, "gpu-1": 8, "gpu-2": 8}


def test_defects_reach_the_half_that_plants_them(loaded, tmp_path):
    """Defects of the control plane and of the nodes go each to its process."""
    owner = os.getpid()
    state = tmp_path
    assert embedded_config.control_plane_config(loaded, state, ["gang.x"], owner)["defects"] == ["gang.x"]
    assert embedded_config.node_config(loaded, state, state, ["node.slow-start"], owner)["defects"] == [
        "node.slow-start"
    ]


@pytest.mark.parametrize("there", [True, False])
def test_torch_is_an_image_only_where_it_is_installed(loaded, tmp_path, monkeypatch, there):
    """Without torch its image is absent and the facts say how to get it; torch itself is not imported."""
    found = importlib.util.find_spec

    def find(name, *more):
        return (object() if there else None) if name == "torch" else found(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with provider.start(loaded, tmp_path) as cluster:
        assert ("torch" in cluster.images) is there
        told = cluster.facts.get("torch_problem", "")
        assert ("pip install torch numpy" in told) is not there
    images = embedded_config.node_config(loaded, tmp_path, tmp_path, [], 1)["images"]
    assert images["python"]["entrypoint"] == [sys.executable]


def test_an_interrupt_before_the_cluster_is_written_down_ends_it(loaded, tmp_path, monkeypatch):
    """What the run's folder does not name can be ended by nobody else."""
    started, folders = [], []

    def interrupted(_folder, what):
        started.extend(what.running)
        folders.append(what.folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster_of_run, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        provider.obtain(loaded, tmp_path)
    (control,) = started
    assert not _alive(control)
    assert not (tmp_path / "cluster.json").exists()
    assert not any(map(os.path.exists, folders))
