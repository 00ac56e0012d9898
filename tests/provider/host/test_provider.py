"""The provider on a made-up machine: a cluster that answers, with nodes that have what the machine has."""

import json
import os
import tempfile
import urllib.request
from pathlib import Path

import pytest
import yaml

from pytest_gpucluster import profile, provider
from pytest_gpucluster.node import sandbox
from pytest_gpucluster.provider.host import HostProvider, completed, discover

from . import machines


@pytest.fixture
def machine():
    """Eight GPUs on two sockets; all of this machine's CPUs are said to be on the first."""
    with tempfile.TemporaryDirectory(prefix="gc-") as folder:
        root, cards = machines.hgx(Path(folder))
        (root / "sys/devices/system/node/node0/cpulist").write_text("0-1023\n")
        (root / "sys/devices/system/node/node1/cpulist").write_text("\n")
        yield machines.look(root, cards, os.sched_getaffinity(0))


def _nodes(cluster):
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text(encoding="utf-8"))
    headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
    ask = urllib.request.Request(f"{cluster.facts['url']}/api/v1/nodes", headers=headers)  # noqa: S310
    with urllib.request.urlopen(ask, timeout=30) as answer:  # noqa: S310
        return json.load(answer)["items"]


def test_nodes_have_what_the_machine_has(machine, tmp_path, monkeypatch):
    """Capacity, labels and facts are the machine's; variables that training reads reach the containers' image."""
    if sandbox.probe() is not None:
        pytest.skip("sandboxes are refused here")
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    loaded = completed(profile.load("host", cli=["host.nodes=2"]), machine)
    with provider.start(loaded, tmp_path, source=HostProvider(lambda: machine)) as cluster:
        assert provider.ONE_MACHINE in cluster.features
        assert (cluster.provider, cluster.pods_run) == ("host", True)
        one, two = sorted(_nodes(cluster), key=lambda node: node["metadata"]["name"])
        for node in (one, two):
            assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
            assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
            assert node["metadata"]["labels"]["nvidia.com/gpu.count"] == "4"
        assert [node["status"]["capacity"].get("rdma/hca") for node in (one, two)] == ["4", "4"]
        told = cluster.facts["host"]
        assert told["gpus"][0]["numa"] == told["gpus"][0]["index"] == 0
        assert [gpu["pci"] for gpu in told["gpus"]] == [gpu.pci for gpu in machine.vendor.gpus]
        assert "NCCL_NVLS_ENABLE" in told["environment"]
        assert provider.attach(tmp_path).facts["host"] == told


def test_a_machine_that_refuses_namespaces_costs_only_the_pods(machine, tmp_path, monkeypatch):
    """The control plane runs, the cluster lacks pods, and says why in one line."""
    monkeypatch.setattr(sandbox, "probe", lambda: "user namespaces are refused on this machine")
    loaded = completed(profile.load("host"), machine)
    with provider.start(loaded, tmp_path, source=HostProvider(lambda: machine)) as cluster:
        assert not cluster.pods_run
        assert cluster.facts["pods_run_problem"] == "user namespaces are refused on this machine"


def test_a_machine_without_gpus_is_told_before_anything_starts(monkeypatch):
    """What `verify` and the completion of a profile say is the one line of the look."""

    def none():
        raise provider.ProviderError("no usable GPU was found on this host: ...")

    monkeypatch.setattr(discover, "this_machine", none)
    loaded = profile.load("host")
    with pytest.raises(provider.ProviderError, match="no usable GPU"):
        HostProvider(none).verify(loaded)
    with pytest.raises(provider.ProviderError, match="no usable GPU"):
        provider.completed(loaded)
    assert provider.completed(profile.load("embedded")).profile.gpus_per_node == 8


def test_defects_are_not_planted_on_real_machines():
    """Planted defects belong to the embedded cluster."""
    with pytest.raises(
        provider.ProviderError, match="planted in the embedded cluster only, but this one is 'host'"
    ):
        provider.check_defects(["node.devices-leak"], "host")
