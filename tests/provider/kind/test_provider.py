"""A kind cluster from its making to its end, with programs that only say what they were asked."""

import os
import pathlib
import signal
import stat
import subprocess
import sys
import time

import pytest
import yaml

from pytest_gpucluster import profile, provider
from pytest_gpucluster.provider.kind import claims, config, engine, manager, payload, removal, waiting
from tests.interrupting import LISTENS_TO_CTRL_C

ROOT = pathlib.Path(__file__).resolve().parents[3]
ANSWER = "; --cluster=embedded needs no container engine"


def load(*cli, given=()):
    """Return the built-in profile with changes."""
    return profile.load("kind", [], cli=cli, given=given)


def test_a_cluster_is_made_filled_and_removed(programs, api, tmp_path):
    """Argument lists, our own kubeconfig, the payload on the workers, GPUs, and nothing left."""
    run = tmp_path / "run"
    with provider.start(load("kind.image=kindest/node:v1.37.2"), run) as cluster:
        (name,) = programs.clusters()
        made = programs.clusters()[name]
        assert (cluster.provider, cluster.context, cluster.pods_run) == ("kind", f"kind-{name}", True)
        assert claims.NAMED.match(name)
        assert pathlib.Path(cluster.kubeconfig) == run / "kubeconfig"
        assert stat.S_IMODE(pathlib.Path(cluster.kubeconfig).stat().st_mode) == 0o600
        assert [node["role"] for node in made["nodes"]] == ["control-plane", *["worker"] * 4]
        assert [node.get("labels") for node in made["nodes"]].count({"gpucluster.dev/gpus": "0"}) == 1
        assert {node["image"] for node in made["nodes"]} == {"kindest/node:v1.37.2"}
        image = f"{payload.REPOSITORY}:{payload.digest(payload.folder())}"
        assert cluster.images == {"python": image, "torch": image}
        assert cluster.facts["versions"] == {"kubernetes": "v1.37.2"}
        assert cluster.facts["nodes"] == [{"name": name, "gpus": 8} for name in ("c-worker", "c-worker2")]
        (loaded,) = programs.calls("kind", "load", "image-archive")
        assert loaded[-2:] == ["--nodes", "c-worker,c-worker2"]
        assert not pathlib.Path(loaded[3]).exists()
        assert any("daemonsets" in path for path in api.applied)
        assert claims.read(name).run == "run"
    assert programs.clusters() == {}
    assert claims.all_claims() == ()
    assert not list(claims.folder().glob("*.numa"))
    assert programs.calls("kind", "delete", "cluster") == [["kind", "delete", "cluster", "--name", name]]


def test_the_configuration_has_gates_alignment_and_what_is_mounted(programs, api, tmp_path):
    """Native gangs on, NUMA alignment on, the fake tree on workers only, mounts on all, read-only."""
    more = (("kind", "mounts"), [{"host": str(tmp_path), "node": "/opt/more"}], "test")
    with provider.start(load(given=[more]), tmp_path / "run"):
        (made,) = programs.clusters().values()
    gates = ("GenericWorkload", "WorkloadWithJob", "TopologyAwareWorkloadScheduling")
    assert made["featureGates"] == dict.fromkeys(gates, True)
    assert made["runtimeConfig"] == {"scheduling.k8s.io/v1beta1": "true"}
    patches = {each["kind"]: each for each in map(yaml.safe_load, made["kubeadmConfigPatches"])}
    kubelet = patches["KubeletConfiguration"]
    assert (kubelet["topologyManagerPolicy"], kubelet["topologyManagerScope"]) == ("single-numa-node", "pod")
    assert (kubelet["failCgroupV1"], kubelet["nodeStatusUpdateFrequency"]) == (False, "2s")
    for node in made["nodes"]:
        mounts = {each["containerPath"]: each for each in node["extraMounts"]}
        assert mounts["/opt/more"] == {
            "hostPath": str(tmp_path),
            "containerPath": "/opt/more",
            "readOnly": True,
        }
        assert (config.NUMA_TREE in mounts) == (node["role"] == "worker")


def test_a_named_cluster_stays_and_is_found_again_without_filling_it_twice(programs, api, tmp_path):
    """A name is how the next run finds the cluster; what was loaded is not loaded again."""
    for folder in ("one", "two"):
        with provider.start(load("kind.name=mine"), tmp_path / folder) as cluster:
            assert cluster.facts["kept"]
        assert list(programs.clusters()) == ["mine"]
    assert len(programs.calls("kind", "create")) == 1
    assert len(programs.calls("kind", "load")) == 1
    assert len(programs.calls("docker", "build")) == 1
    assert len(programs.calls("kind", "export", "kubeconfig")) == 1
    assert removal.remove_orphans() == []
    assert list(programs.clusters()) == ["mine"]


def test_the_claim_on_a_cluster_that_somebody_removed_by_hand_is_forgotten(programs, api, tmp_path):
    """`kind delete cluster` is how the end of a run says a named one is removed."""
    with provider.start(load("kind.name=mine"), tmp_path / "one"):
        pass
    programs.remove_cluster("mine")
    assert removal.remove_orphans() == []
    assert claims.all_claims() == ()


def test_a_cluster_that_another_run_is_making_anew_is_not_taken_for_one_that_is_gone(programs, api, tmp_path):
    """Between the claim and the end of `kind create` the engine does not know the name yet."""
    with provider.start(load("kind.name=mine"), tmp_path / "one"):
        pass
    programs.remove_cluster("mine")
    with claims.locked("mine"):
        assert removal.remove_orphans() == []
    assert [claim.name for claim in claims.all_claims()] == ["mine"]
    assert programs.calls("kind", "delete") == []


def test_a_kept_cluster_outlives_its_run(programs, api, tmp_path):
    """`--gpucluster-keep` leaves it; `cleanup` by the run's id finds it."""
    held = provider.obtain(load(), tmp_path / "run-1", keep=True)
    assert held.close() == []
    (name,) = programs.clusters()
    due, kept = removal.due(None, programs.clusters())
    assert (due, kept) == ([], [f"kind cluster {name} of run run-1: is kept on purpose"])
    due, _ = removal.due("run-1", programs.clusters())
    assert [(each.name, each.why) for each in due] == [(name, "of run run-1")]
    removal.remove(name)
    assert programs.clusters() == {}


def test_two_runs_have_two_clusters(programs, api, tmp_path):
    """Names of runs differ, whatever the clock says."""
    with provider.start(load(), tmp_path / "a"), provider.start(load(), tmp_path / "b"):
        assert len(programs.clusters()) == 2
    assert programs.clusters() == {}


def test_workers_of_one_run_share_a_cluster(programs, api, tmp_path):
    """The second process attaches; only the owner removes."""
    first = provider.obtain(load(), tmp_path / "run")
    second = provider.obtain(load(), tmp_path / "run", owner_pid=os.getppid())
    assert second.cluster == first.cluster
    assert second.close() == []
    assert len(programs.clusters()) == 1
    first.close()
    assert programs.clusters() == {}


@pytest.mark.parametrize(
    ("verb", "said_and_told"),
    [
        ("kind-create-cluster", ("Creating cluster ...\nERROR: failed to create cluster: port is taken\n",
         "kind create cluster: exit status 1: ERROR: failed to create cluster: port is taken (log: *kind.log)")),
        ("kind-load-image-archive", ("ERROR: no space left\n",
         "kind load image-archive: exit status 1: ERROR: no space left (log: *")),
        ("docker-build", ("step 1\nstep 2\nno route to host\n",
         "the payload image could not be built: docker build *no route to host *; --gpucluster-kind-payload names *")),
    ],
)  # fmt: skip
def test_what_fails_is_told_with_what_was_said_and_nothing_is_left(
    programs, api, tmp_path, verb, said_and_told
):
    """The program's own words are in the one line; the cluster that was begun is removed."""
    import fnmatch

    said, told = said_and_told
    programs.fails(verb, said)
    with pytest.raises(provider.ProviderError) as caught:
        provider.obtain(load(), tmp_path / "run")
    assert fnmatch.fnmatch(str(caught.value), told), str(caught.value)
    assert "\n" not in str(caught.value)
    assert programs.clusters() == {}
    assert claims.all_claims() == ()
    assert not list((tmp_path / "run").glob("payload-*"))


def test_nodes_that_are_not_ready_are_named(programs, api, tmp_path, monkeypatch):
    """Workers too are waited for, by watch, and what their kubelets say is told."""
    from pytest_gpucluster.provider.kind import provider as kinds
    from tests.provider.kind import fakes

    monkeypatch.setattr(kinds, "READY_LIMIT", 0.5)
    api.put("/api/v1/nodes/c-worker2", fakes.node("c-worker2", ready=False))
    with pytest.raises(
        provider.ProviderError, match=r"nodes were not Ready within 0 s: c-worker2 \(cni is not"
    ):
        provider.obtain(load(), tmp_path / "run")
    assert programs.clusters() == {}


def test_a_node_that_becomes_ready_is_noticed(api):
    """The wait ends with the event, not with the limit."""
    import threading

    from pytest_gpucluster.kube import connection, objects
    from tests.provider.kind import fakes

    api.put("/api/v1/nodes/c-worker2", fakes.node("c-worker2", ready=False))
    timer = threading.Timer(0.3, api.put, ("/api/v1/nodes/c-worker2", fakes.node("c-worker2")))
    timer.start()
    began = time.monotonic()
    waiting.nodes_ready(objects.Objects(connection.Connection.at(api.url)), 20)
    assert 0.25 < time.monotonic() - began < 5


KILLED = """
import os, pathlib, signal, sys
from pytest_gpucluster import profile, provider
held = provider.obtain(profile.load("kind", cli=["kind.payload=team/payload:1"]), pathlib.Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_cluster_of_a_killed_run_is_removed_by_the_next(programs, api, tmp_path):
    """Its claim names a process that is no more."""
    programs.add_image("team/payload:1")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "killed")],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    (name,) = programs.clusters()
    due, _ = removal.due(None, programs.clusters())
    assert [(each.name, each.why) for each in due] == [(name, "its run killed has ended without removing it")]
    with provider.start(load(), tmp_path / "next"):
        assert name not in programs.clusters()
    assert programs.clusters() == {}


def test_an_interrupt_while_it_is_made_ends_kind_and_removes_the_cluster(programs, api, tmp_path):
    """Ctrl-C does not reach kind by itself: it runs in a session of its own and is ended before we go on."""
    programs.add_image("team/payload:1")
    hanging = programs.hangs("kind-create-cluster")
    code = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "")
    process = subprocess.Popen(
        [*LISTENS_TO_CTRL_C, sys.executable, "-c", code, str(tmp_path / "run")], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    end = time.monotonic() + 30
    while not hanging.exists() or not hanging.read_text():
        assert time.monotonic() < end
        time.sleep(0.02)
    pid = int(hanging.read_text())
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in said
    assert programs.clusters() == {}
    assert claims.all_claims() == ()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_removal_that_fails_is_told_and_can_be_repeated(programs, api, tmp_path):
    """The claim stays, so that cleanup finds the cluster."""
    held = provider.obtain(load(), tmp_path / "run")
    programs.fails("kind-delete-cluster", "ERROR: device is busy\n")
    (left,) = held.close()
    assert "device is busy" in left
    assert "gpucluster cleanup --cluster kind" in left
    programs.works("kind-delete-cluster")
    (claim,) = claims.all_claims()
    removal.remove(claim.name)
    assert programs.clusters() == {}
    assert claims.all_claims() == ()


def test_clusters_of_others_are_judged_by_their_names(programs):
    """A name of ours without a claim: old ones are due, young ones and strangers are not."""
    young, old = claims.new_name(), "gpucluster-2001010000-abcdef"
    due, kept = removal.due(None, ["strange", young, old])
    assert [each.name for each in due] == [old]
    assert len(kept) == 1
    assert young in kept[0]


def test_a_claim_of_another_machine_holds_until_it_expires(programs):
    """Its process ids mean nothing here."""
    import dataclasses

    claim = claims.new("gpucluster-2611281400-aaaaaa", "r", 1, kept=False, engine={})
    far = dataclasses.replace(claim, owner=2**22 + 1, machine="elsewhere")
    assert not far.orphaned
    assert dataclasses.replace(far, machine=claims.here()).orphaned
    assert not far.expired
    assert dataclasses.replace(far, expires="2001-01-01T00:00:00Z").expired


# -- what is missing -------------------------------------------------------------------------------------------------


def test_without_kind_the_embedded_cluster_is_offered(programs):
    """One line."""
    (programs.folder / "kind").unlink()
    with pytest.raises(provider.ProviderError) as caught:
        provider.verify(load())
    assert (
        str(caught.value)
        == f"--cluster=kind: the program kind is not on PATH (https://kind.sigs.k8s.io){ANSWER}"
    )


def test_without_an_engine_the_embedded_cluster_is_offered(programs, monkeypatch):
    """One line; an engine that kind was told to use is named."""
    monkeypatch.setenv("PATH", str(programs.folder))
    (programs.folder / "docker").unlink()
    with pytest.raises(provider.ProviderError) as caught:
        provider.verify(load())
    assert str(caught.value) == (
        f"--cluster=kind: no container engine is on PATH (looked for: docker, podman, nerdctl){ANSWER}"
    )
    monkeypatch.setenv(engine.CHOICE, "podman")
    with pytest.raises(provider.ProviderError, match=r"looked for: podman\)"):
        provider.verify(load())


def test_an_engine_that_does_not_answer_is_told(programs):
    """The engine's own words, and the offer."""
    programs.fails("docker-version", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.\n")
    with pytest.raises(provider.ProviderError) as caught:
        provider.verify(load())
    assert str(caught.value) == (
        "--cluster=kind: the container engine does not answer: docker version: exit status 1: Cannot connect to the "
        f"Docker daemon at unix:///var/run/docker.sock.{ANSWER}"
    )


def test_without_pytest_kubernetes_the_extra_is_named(programs, monkeypatch):
    """One line with what to install, and the offer."""
    monkeypatch.setitem(sys.modules, "pytest_kubernetes.providers", None)
    with pytest.raises(provider.ProviderError) as caught:
        provider.verify(load())
    assert str(caught.value) == f"{manager.MISSING}{ANSWER}"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((("kind", "mounts"), [{"host": "/none", "node": "/x"}], "t"), "kind.mounts.0.host: /none does not exist"),
        ((("kind", "config"), "/nowhere.yaml", "t"), "kind.config: /nowhere.yaml cannot be read: *"),
    ],
)  # fmt: skip
def test_files_that_are_named_exist(programs, more, told):
    """Told before anything is made."""
    import fnmatch

    with pytest.raises(provider.ProviderError) as caught:
        provider.verify(load(given=[more]))
    assert fnmatch.fnmatch(str(caught.value), told)


def test_a_configuration_of_ones_own_is_taken(programs, api, tmp_path):
    """Its nodes, with what we add."""
    path = tmp_path / "mine.yaml"
    path.write_text("kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: [{role: control-plane}]\n")
    with provider.start(load(f"kind.config={path}"), tmp_path / "run"):
        (made,) = programs.clusters().values()
    assert [node["role"] for node in made["nodes"]] == ["control-plane"]
    for wrong in ("kind: Pod\n", "kind: Cluster\nnodes: {role: worker}\n", "kind: Cluster\n", "- 1\n"):
        path.write_text(wrong)
        with pytest.raises(provider.ProviderError, match="is not a kind cluster configuration with nodes"):
            provider.verify(load(f"kind.config={path}"))
    path.write_text("kind: Cluster\nnodes:\n- role: control-plane\n-\n")
    with pytest.raises(
        provider.ProviderError, match=r"nodes\[1\] is None, but must be an object such as \{role: worker\}"
    ):
        provider.verify(load(f"kind.config={path}"))
