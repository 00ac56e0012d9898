"""What is advised fits the network and the vendor of the GPUs that the log is of."""

import re

import pytest

from pytest_gpucluster.measure.nccl import verdict
from tests.measure.nccl import logs

HOSTS = ("a-0", "a-1")
RCCL = logs.record("RCCL version : 2.22.3-develop:9ab1f7a")
NVIDIA = re.compile(r"nvidia(?!-smi topo)|\bcuda\b|peermem(?! module)", re.IGNORECASE)


def advice(*lines):
    """Return all that is advised on a log of two ranks on two nodes that is no pass."""
    decision = verdict.decide(logs.facts("\n".join(lines) + "\n", ranks=2, nodes=2))
    assert decision.verdict != "pass"
    assert decision.advice
    return " ".join(f"{one.cause} {one.fix}" for one in decision.advice)


def world(network):
    """Return what ranks of two nodes say of their communicator and its network."""
    said = []
    for rank, host in enumerate(HOSTS):
        said.append(logs.record(f"Using network {network}", host=host, pid=11 + rank))
        of = f"rank {rank} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0"
        said.append(logs.record(f"comm 0x{rank + 1}a {of}", host=host, pid=11 + rank))
    return said


@pytest.mark.parametrize(
    "lines",
    [
        [*world("Socket"), *logs.ring(HOSTS, "NET/Socket/0")],
        [logs.record("NET/IB : No device found."), *world("Socket"), *logs.ring(HOSTS, "NET/Socket/0")],
        [
            logs.record("Failed to open libibverbs.so[.1]"),
            *world("Socket"),
            *logs.ring(HOSTS, "NET/Socket/0"),
        ],
        [*world("IB"), *logs.ring(HOSTS, "NET/IB/0")],
        world("Socket"),
    ],
    ids=["sockets", "no device", "no verbs", "no GPUDirect", "chosen"],
)
def test_rccl_is_not_told_of_nvidia(lines):
    """Its devices, drivers and modules have other names; the same log of NCCL may be told of them."""
    assert not NVIDIA.search(advice(RCCL, *lines))
    assert advice(*lines)


@pytest.mark.parametrize(("provider", "named"), [("efa", "EFA"), ("cxi", "FI_HMEM"), ("opx", "FI_HMEM")])
@pytest.mark.parametrize("network", ["AWS Libfabric", "OFI", "Libfabric"])
def test_libfabric_without_gpudirect_is_told_of_its_provider(provider, named, network):
    """Its adapters are no InfiniBand ones: nvidia-peermem and lines about HCAs are not theirs."""
    chosen = [
        logs.record(f"NET/OFI Selected Provider is {provider} (found 4 nics)", host=host) for host in HOSTS
    ]
    said = advice(*chosen, *world(network), *logs.ring(HOSTS, f"NET/{network}/0"))
    assert named in said
    assert not re.search(r"nvidia[-_]peermem|for HCA|/dev/infiniband", said)


def test_infiniband_without_gpudirect_is_told_of_its_module():
    """As before."""
    assert "nvidia_peermem" in advice(*world("IB"), *logs.ring(HOSTS, "NET/IB/0"))


@pytest.mark.parametrize(("words", "good"), [(["Disabled"], False), (["Disabled", "Disabled"], False),
                                             (["Disabled", "Enabled"], True), (["Enabled"], True)])  # fmt: skip
def test_gpudirect_that_is_denied_and_said_to_be_used_is_no_pass(words, good):
    """A host that says of every adapter that it is off, and of a connection that it is on, says nothing."""
    said = [
        logs.record(
            f"NET/IB : GPU Direct RDMA {word} for HCA {number} 'mlx5_{number}'", host=host, pid=11 + rank
        )
        for rank, host in enumerate(HOSTS)
        for number, word in enumerate(words)
    ]
    lines = [*world("IB"), *said, *logs.ring(HOSTS, "NET/IB/0/GDRDMA")]
    decision = verdict.decide(logs.facts("\n".join(lines) + "\n", ranks=2, nodes=2))
    assert (decision.verdict == "pass") is good
    assert any("disabled for every adapter" in one.text for one in decision.reasons) is not good
