"""The disk that all nodes of a kind cluster share: made, mounted, offered as a class, and gone with its cluster."""

import pytest
import yaml

from pytest_gpucluster import profile, provider
from pytest_gpucluster.provider.kind import claims, shared_disk


def load(*cli):
    """Return the built-in profile with changes."""
    return profile.load("kind", [], cli=cli)


def patches(made):
    """Return what kubeadm is told, by kind."""
    return {each["kind"]: each for each in map(yaml.safe_load, made["kubeadmConfigPatches"])}


def test_all_nodes_and_the_controller_manager_see_one_folder_that_goes_with_the_cluster(
    programs, api, tmp_path
):
    """Writable, where Kubernetes' own provisioner makes volumes; a class leads there."""
    with provider.start(load(), tmp_path / "run"):
        ((name, made),) = programs.clusters().items()
        folder = claims.shared_folder(name)
        assert folder.is_dir()
        for node in made["nodes"]:
            mounts = {each["containerPath"]: each for each in node["extraMounts"]}
            assert mounts[shared_disk.VOLUMES] == {
                "hostPath": str(folder),
                "containerPath": shared_disk.VOLUMES,
            }
        (volume,) = patches(made)["ClusterConfiguration"]["controllerManager"]["extraVolumes"]
        assert (volume["hostPath"], volume["mountPath"]) == (shared_disk.VOLUMES, shared_disk.VOLUMES)
        assert any(path.endswith(f"/storageclasses/{shared_disk.CLASS}") for path in api.applied)
    assert not folder.exists()


def test_what_lies_on_the_disk_is_removed_by_a_node_before_the_cluster_goes(programs, api, tmp_path):
    """It may be root's, and who removes the cluster need not be."""
    with provider.start(load(), tmp_path / "run"):
        (name,) = programs.clusters()
        (claims.shared_folder(name) / "volume").mkdir()
    (asked,) = programs.calls("docker", "exec", f"{name}-control-plane")
    assert asked[3:5] == ["find", shared_disk.VOLUMES]
    assert not claims.shared_folder(name).exists()


def test_an_engine_elsewhere_gets_no_folder_and_no_class(programs, api, tmp_path, monkeypatch):
    """It does not see files of this machine; the cluster is made all the same."""
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2376")
    with provider.start(load(), tmp_path / "run"):
        ((name, made),) = programs.clusters().items()
        assert not claims.shared_folder(name).exists()
        assert "ClusterConfiguration" not in patches(made)
    assert not any("storageclasses" in path for path in api.applied)


def test_a_named_cluster_of_before_there_was_a_disk_is_refused_in_one_line(programs, api, tmp_path):
    """Its nodes would each have a folder of their own; who declares another volume may go on with it."""
    programs.add_cluster("mine")
    with pytest.raises(
        provider.ProviderError, match=r"its nodes share no disk.*kind delete cluster --name mine"
    ):
        provider.obtain(load("kind.name=mine"), tmp_path / "one")
    assert list(programs.clusters()) == ["mine"]
    with provider.start(load("kind.name=mine", "storage.durable.name=other"), tmp_path / "two"):
        assert not any("storageclasses" in path for path in api.applied)


def test_a_worker_that_says_so_gets_no_gpus_and_is_waited_for_without(programs, api, tmp_path):
    """Its label keeps the device plugin away, and the cluster is ready though it offers none."""
    path = "/api/v1/nodes/c-worker2"
    node = {**api.objects[path], "metadata": {"name": "c-worker2", "labels": {"gpucluster.dev/gpus": "0"}}}
    node["status"] = {**node["status"], "allocatable": {}}
    api.put(path, node)
    with provider.start(load(), tmp_path / "run") as cluster:
        assert {each["name"]: each["gpus"] for each in cluster.facts["nodes"]} == {
            "c-worker": 8,
            "c-worker2": 0,
        }
    (plugin,) = [each for key, each in api.objects.items() if "/daemonsets/" in key]
    terms = plugin["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "gpucluster.dev/gpus", "operator": "NotIn", "values": ["0"]}]
