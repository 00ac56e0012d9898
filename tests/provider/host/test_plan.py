"""How nodes are made of a machine, and what its profile is completed with."""

import pytest

from pytest_gpucluster import profile
from pytest_gpucluster.node import config
from pytest_gpucluster.provider import ProviderError
from pytest_gpucluster.provider.host import completed, plan

from . import machines
from .machines import Card, Slice


@pytest.fixture
def hgx(tmp_path):
    """Eight GPUs on two sockets."""
    return machines.look(*machines.hgx(tmp_path))


def _load(*more):
    return profile.load("host", cli=more)


def test_one_node_has_all(hgx):
    """Capacity, labels and devices are the machine's."""
    (entry,) = plan.node_entries(_load(), hgx)
    assert [device["numa"] for device in entry["hardware"]["devices"]] == [0] * 4 + [1] * 4
    assert entry["memory"] == f"{2 << 20}Ki"
    assert entry["extra"] == {"rdma/hca": "4"}
    assert entry["hardware"]["files"] == {"rdma/hca": ["/dev/infiniband/rdma_cm"]}
    hcas = entry["hardware"]["further"]["rdma/hca"]
    assert hcas[2] == {"id": "mlx5_2", "numa": 1, "files": ["/dev/infiniband/uverbs2"]}
    assert entry["memory_policy"] == "Static"
    assert entry["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert entry["labels"]["nvidia.com/gpu.machine"] == "HGX-H100-R2"
    assert entry["labels"]["nvidia.com/gpu.family"] == "hopper"
    assert entry["labels"]["nvidia.com/cuda.driver-version.full"] == "580.159.04"
    assert entry["labels"]["nvidia.com/cuda.runtime-version.major"] == "13"
    read = config._node(entry, "none")
    assert (read.gpus, read.numa, read.cpus) == (8, 2, 16)


def test_two_nodes_have_a_socket_each(hgx):
    """GPUs are divided in order; a NUMA node's CPUs go to the node that has its GPUs."""
    one, two = plan.shares(hgx, 2)
    assert [gpu.index for gpu in one.gpus] == [0, 1, 2, 3]
    assert (one.cpus, one.memory) == ({0: (0, 1, 2, 3, 8, 9, 10, 11)}, 1 << 20)
    assert two.cpus == {1: (4, 5, 6, 7, 12, 13, 14, 15)}


def test_four_nodes_halve_the_sockets(hgx):
    """CPUs are nobody's twice."""
    parts = plan.shares(hgx, 4)
    cpus = [cpu for part in parts for own in part.cpus.values() for cpu in own]
    assert sorted(cpus) == list(range(16))
    assert {part.memory for part in parts} == {1 << 19}


def test_a_node_whose_gpus_are_nowhere_known_has_cpus_too(tmp_path):
    """GPUs without a NUMA node, or on one of which nothing may be used, leave no node without CPUs."""
    root, cards = machines.hgx(tmp_path)
    one, two = plan.shares(machines.look(root, cards, {0, 1, 2, 3}), 2)
    assert (one.cpus, two.cpus) == ({0: (0, 1)}, {0: (2, 3)})
    assert one.memory == two.memory == 1 << 19


def test_adapters_are_near_their_nodes(hgx):
    """Each node has the adapters of its NUMA nodes; a socket that two nodes share lends them to both."""
    entries = plan.node_entries(_load("host.nodes=2"), hgx)
    assert [[a["id"] for a in e["hardware"]["further"]["rdma/hca"]] for e in entries] == [
        ["mlx5_0", "mlx5_1"], ["mlx5_2", "mlx5_3"],
    ]  # fmt: skip
    assert [e["extra"]["rdma/hca"] for e in plan.node_entries(_load("host.nodes=4"), hgx)] == ["2"] * 4


def test_gpus_of_each_node_by_name(hgx):
    """By number, UUID or PCI address, in whatever number."""
    parts = plan.shares(hgx, 1, [["7"], [hgx.vendor.gpus[0].id, "0000:2b:00.0"]])
    assert [[gpu.index for gpu in part.gpus] for part in parts] == [[7], [0, 1]]


@pytest.mark.parametrize(
    ("count", "chosen", "told"),
    [
        (3, (), "host.nodes: 8 GPUs cannot be divided evenly among 3 nodes; assign them with host.gpus"),
        (1, [["8"]], "host.gpus: no GPU '8' on this host"),
        (1, [["1"], ["0000:2b:00.0"]], "host.gpus: GPU '0000:2b:00.0' is named twice"),
    ],
)
def test_gpus_that_cannot_be_divided_so(hgx, count, chosen, told):
    """One line says what is wrong."""
    with pytest.raises(ProviderError) as caught:
        plan.shares(hgx, count, chosen)
    assert told in str(caught.value)


def test_slices_of_several_kinds_are_no_one_resource(tmp_path):
    """A pod that asks for a GPU would get whichever."""
    cards = [
        Card(0, "0000:1b:00.0", mig=True, slices=[Slice("MIG-a", "1g.10gb", 9)]),
        Card(1, "0000:2b:00.0"),
    ]
    root = machines.tree(tmp_path, cards)
    machines.put(root / "proc/driver/nvidia-caps/mig-minors", "gpu0/gi9/access 84\ngpu0/gi9/ci0/access 85")
    found = machines.look(root, cards)
    with pytest.raises(ProviderError, match=r"node 0 would have 1g\.10gb, whole GPUs under one resource"):
        plan.shares(found, 1)
    one, two = plan.node_entries(_load("host.gpus=[[MIG-a],['1']]"), found)
    assert one["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    assert two["labels"]["nvidia.com/mig.strategy"] == "none"


def test_a_profile_is_completed_with_what_was_found(hgx):
    """GPUs per node and NUMA nodes are the machine's, and say so; what somebody declared stays."""
    found = completed(_load(), hgx)
    assert (found.profile.gpus_per_node, found.profile.numa.nodes) == (8, 2)
    assert found.profile.numa.functions == "rdma/hca"
    assert found.sources["gpus_per_node"] == found.sources["numa.nodes"] == "found on this host"
    assert completed(_load("host.nodes=2"), hgx).profile.numa.nodes == 1
    declared = completed(_load("gpus_per_node=7"), hgx)
    assert declared.profile.gpus_per_node == 7
    assert declared.sources["gpus_per_node"] == "option --gpucluster-set"


def test_a_lost_gpu_still_counts(tmp_path):
    """The machine has eight; that seven can be used is for a requirement to find."""
    root, cards = machines.hgx(tmp_path)
    cards[0].lost = True
    found = machines.look(root, cards)
    assert completed(_load(), found).profile.gpus_per_node == 8
    (entry,) = plan.node_entries(_load(), found)
    assert [device["healthy"] for device in entry["hardware"]["devices"]] == [False] + [True] * 7
    assert entry["labels"]["nvidia.com/gpu.count"] == "7"


def test_variables_of_the_machine_that_containers_get():
    """What the libraries of training read, and nothing else."""
    given = {
        "NCCL_NVLS_ENABLE": "0",
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
        "SECRET": "x",
        "MY_NCCL_": "y",
    }
    kept = plan.environment(_load().profile.host.environment, given)
    assert kept == {"NCCL_NVLS_ENABLE": "0", "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
