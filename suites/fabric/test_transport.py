"""What carries the traffic, by the connection lines that NCCL itself prints."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.fabric import communicator, intra_node, nccl_settings, transport

from ..scenarios.collectives import collectives


@requirement(
    "FAB-001",
    level="must",
    documents="R J P",
    scenario=collectives,
    judge=transport.on_declared,
    presupposes=[presuppositions.pods_ran],
)
def test_collectives_between_nodes_use_the_declared_transport(settle: Callable[[], None]) -> None:
    """Collectives between nodes use the declared transport.

    Every connection of a rank to another node MUST use the declared transport, according to NCCL's own connection
    lines. The devices that were found, or the network that was chosen, prove nothing.
    """
    settle()


@requirement(
    "FAB-002",
    level="must",
    documents="R J",
    scenario=collectives,
    judge=transport.with_gdr,
    presupposes=[presuppositions.pods_ran],
)
def test_gpudirect_rdma_is_in_use(settle: Callable[[], None]) -> None:
    """GPUDirect RDMA is in use wherever it must be.

    If the profile requires it, every connection between nodes MUST use GPUDirect RDMA, on every rank and in both
    directions.
    """
    settle()


@requirement(
    "FAB-003",
    level="must",
    documents="R P",
    scenario=collectives,
    judge=transport.nobody_on_tcp,
    presupposes=[presuppositions.pods_ran],
)
def test_no_rank_fell_back_to_tcp(settle: Callable[[], None]) -> None:
    """No rank fell back to TCP.

    If another transport is declared, a rank MUST NOT be connected to another node over TCP. The finding names such
    ranks with their node.
    """
    settle()


@requirement(
    "FAB-004",
    level="must",
    documents="R J",
    scenario=collectives,
    judge=communicator.holds_all,
    presupposes=[presuppositions.pods_ran],
)
def test_one_communicator_holds_every_rank(settle: Callable[[], None]) -> None:
    """One communicator holds every rank.

    The ranks MUST form one communicator of the expected size, not several separate ones.
    """
    settle()


@requirement(
    "FAB-005",
    level="must",
    documents="R P",
    scenario=collectives,
    judge=communicator.declared_adapters,
    presupposes=[presuppositions.pods_ran],
)
def test_the_declared_adapters_are_in_use(settle: Callable[[], None]) -> None:
    """The declared adapters are in use.

    The adapters of the connections MUST be declared ones, and every rank MUST find all declared adapters.
    """
    settle()


@requirement(
    "FAB-017",
    level="must",
    documents="R P",
    scenario=collectives,
    judge=nccl_settings.as_declared,
    presupposes=[presuppositions.pods_ran],
)
def test_the_settings_in_force_are_the_declared_ones(settle: Callable[[], None]) -> None:
    """The settings in force are the declared ones.

    The declared settings MUST be in force on every rank, whoever sets them. A setting of an image or of a
    configuration file MUST NOT remove a transport.
    """
    settle()


@requirement(
    "FAB-018",
    level="must",
    documents="+",
    scenario=collectives,
    judge=intra_node.on_declared_path,
    presupposes=[presuppositions.pods_ran],
)
def test_ranks_of_one_node_use_the_declared_path(settle: Callable[[], None]) -> None:
    """Ranks of one node use the declared path.

    Ranks on one node MUST reach each other by P2P or NVLS as declared. They may use the host's shared memory, or the
    network, only if that is declared.
    """
    settle()
