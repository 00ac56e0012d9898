"""Logs of real machines: one host with four H200, and one with four H100 parted into two pods."""

from pytest_gpucluster.measure import nccl
from pytest_gpucluster.measure.nccl import verdict
from tests.measure.nccl import logs


def test_one_host_with_direct_paths() -> None:
    """Sockets are chosen and not used: nothing goes between nodes, and inside the one that was told all is direct."""
    found = logs.of_files([logs.ONE_NODE], ranks=4, nodes=1)
    assert (found.kind, found.evidence, found.gdr) == ("intra_node", "channel", "n/a")
    assert (found.net, found.selected, found.intra) == ((), ("Socket",), ("P2P/CUMEM",))
    assert (found.nranks, found.nnodes, found.worlds, found.versions) == (4, 1, 1, ("2.28.9",))
    assert found.ranks == dict.fromkeys(range(4), "vm")
    assert len([path for path in found.paths if path.kind == nccl.line_patterns.INTRA]) == 4
    assert verdict.decide(found).verdict == "pass"
    assert "between nodes: not applicable" in verdict.question(found)
    of_two = logs.of_files([logs.ONE_NODE], ranks=4, nodes=2)
    assert verdict.decide(of_two).verdict == "fail"


def test_one_host_over_sockets() -> None:
    """Four hosts' worth of ranks on one machine: every rank is named."""
    found = logs.of_files([logs.SOCKETS], ranks=4, nodes=4)
    assert (found.kind, found.net, found.nnodes) == ("tcp", ("Socket",), 4)
    assert found.values()["socket_ranks"] == [0, 1, 2, 3]
    assert found.errors == ("no_ib_device",)


def test_two_pods_fall_back_to_sockets() -> None:
    """The ranks at the border of the pods are named with their pod; inside the pods they are direct."""
    found = logs.of_files(logs.TWO_PODS, ranks=4, nodes=2)
    assert (found.kind, found.nranks, found.nnodes, found.worlds) == ("tcp", 4, 2, 1)
    assert found.values()["socket_ranks"] == [0, 2]
    assert found.ranks == {0: "pod-0", 1: "pod-0", 2: "pod-1", 3: "pod-1"}
    assert found.intra == ("P2P/CUMEM",)
    decision = verdict.decide(found)
    assert decision.verdict == "fail"
    assert "rank 0 on pod-0, rank 2 on pod-1" in decision.reasons[0].text
    assert found.settings["NCCL_SOCKET_IFNAME"] == {"eth0": ("pod-0", "pod-1")}


def test_two_pods_of_two_kubelets_went_over_sockets() -> None:
    """A real cluster: one GPU and one rank in each pod, nothing between ranks of one node."""
    found = logs.of_files(logs.TWO_KUBELETS, ranks=2, nodes=2)
    assert (found.kind, found.nranks, found.nnodes, found.worlds) == ("tcp", 2, 2, 1)
    assert found.values()["socket_ranks"] == [0, 1]
    assert found.ranks == {0: "collectives-0", 1: "collectives-1"}
    assert found.intra == ()
    assert verdict.decide(found).verdict == "fail"


def test_two_pods_in_either_order_and_interleaved() -> None:
    """Order of files and of lines does not matter."""
    first, second = (path.read_text().splitlines(keepends=True) for path in logs.TWO_PODS)
    mixed = [line for pair in zip(first, [*second, "", "", ""], strict=False) for line in pair]
    one = logs.of_files(logs.TWO_PODS, ranks=4, nodes=2).values()
    assert logs.of_files(reversed(logs.TWO_PODS), ranks=4, nodes=2).values() == one
    assert logs.facts("".join(mixed), ranks=4, nodes=2).values() == one
