"""Collectives over whole nodes."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.fabric import (
    bandwidth_curve,
    bus_bandwidth,
    floor_sanity,
    forced_transport,
    own_diagnostics,
    pairwise_sweep,
    rank_devices,
    stalled_collective,
    switch_effect,
    switched_off,
)

from ..scenarios.collectives import collectives, diagnosed, forced, sockets, stalled, switched


@requirement(
    "FAB-006",
    level="must",
    documents="R P",
    scenario=collectives,
    judge=bus_bandwidth.reaches_floor,
    presupposes=[presuppositions.pods_ran, rank_devices.apart],
)
def test_bus_bandwidth_reaches_its_floor(settle: Callable[[], None]) -> None:
    """Bus bandwidth reaches its floor with correct data.

    Every element of every collective MUST be right on every rank. From the declared size on, the bus bandwidth MUST
    reach the floor that is declared for this shape of nodes.
    """
    settle()


@requirement(
    "FAB-010",
    level="must",
    documents="+",
    scenario=forced,
    judge=forced_transport.forms,
    presupposes=[presuppositions.pods_ran, rank_devices.apart],
)
def test_the_communicator_forms_with_the_transport_forced(settle: Callable[[], None]) -> None:
    """The communicator forms with a forced transport.

    If NCCL may use only the declared network, and a fallback is an error, all ranks MUST form one communicator over
    it.
    """
    settle()


@requirement(
    "FAB-011",
    level="must",
    documents="R",
    scenario=stalled,
    judge=stalled_collective.ends_named,
    presupposes=[presuppositions.pods_ran],
)
def test_a_stalled_collective_ends_with_a_diagnosis(settle: Callable[[], None]) -> None:
    """A stalled collective ends in time with a diagnosis.

    If one rank does not enter a collective, every rank MUST end within the declared bound. It MUST say which rank is
    missing, in which collective, over which transport.
    """
    settle()


@requirement(
    "FAB-012",
    level="should",
    documents="+",
    scenario=collectives,
    judge=pairwise_sweep.names_slow,
    presupposes=[presuppositions.pods_ran, rank_devices.apart],
)
def test_a_sweep_names_slow_nodes_and_links(settle: Callable[[], None]) -> None:
    """A pairwise sweep names slow nodes and links.

    All pairs of members SHOULD exchange data at about the same speed. The finding names a link or a node that is
    slower than the others.
    """
    settle()


@requirement(
    "FAB-014",
    level="must",
    documents="+",
    scenario=collectives,
    judge=rank_devices.own_devices,
    presupposes=[presuppositions.pods_ran],
)
def test_every_rank_has_a_device_of_its_own(settle: Callable[[], None]) -> None:
    """Every rank has its own device on the expected node.

    Before any figure counts, each rank of the world MUST have its own device, and every expected node MUST hold its
    part of the ranks.
    """
    settle()


@requirement(
    "FAB-015",
    level="must",
    documents="+",
    scenario=collectives,
    judge=floor_sanity.plausible,
)
def test_floors_are_plausible(settle: Callable[[], None]) -> None:
    """A bandwidth floor is plausible for its hardware.

    A floor MUST state its number of nodes, GPUs and adapters and the rate of the adapters, and it MUST be within what
    these can carry. Otherwise no measurement is compared with it.
    """
    settle()


@requirement(
    "FAB-016",
    level="control",
    documents="R P",
    scenario=sockets,
    judge=switched_off.seen_on_sockets,
    presupposes=[presuppositions.pods_ran],
)
def test_a_fabric_that_is_switched_off_is_seen_on_sockets(settle: Callable[[], None]) -> None:
    """With RDMA switched off, traffic moves to sockets, and this is detected.

    If every other network is switched off on purpose, the same collective MUST be seen on sockets. The finding names
    the ranks and shows the figure beside the good one. Without this, a pass of FAB-003 means nothing on this cluster.
    """
    settle()


@requirement(
    "FAB-019",
    level="must",
    documents="+",
    scenario=switched,
    judge=switch_effect.has_effect,
    presupposes=[presuppositions.pods_ran, rank_devices.apart],
)
def test_a_switch_that_is_set_shows_in_the_transport(settle: Callable[[], None]) -> None:
    """A switch that is set shows in the transport.

    A run with one transport of NCCL switched off MUST NOT show that transport in its ranks' logs, and its bus bandwidth
    MUST differ from that of the run with everything on by more than both vary. What is not in use is not compared.
    """
    settle()


@requirement(
    "FAB-020",
    level="should",
    documents="+",
    scenario=diagnosed,
    judge=own_diagnostics.every_edge_tried,
    presupposes=[presuppositions.pods_ran, rank_devices.apart],
)
def test_own_diagnostics_of_nccl_tried_every_edge(settle: Callable[[], None]) -> None:
    """NCCL's own diagnostics tried every edge, and none failed.

    NCCL or RCCL from 2.31 on SHOULD verify every directed pair of GPUs of each node, between several nodes the network
    too, and find GPUs, driver, ECC, links and settings alike and healthy on all ranks. What it did not try is unknown.
    """
    settle()


@requirement(
    "FAB-021",
    level="should",
    documents="+",
    scenario=collectives,
    judge=bandwidth_curve.without_dip,
    presupposes=[presuppositions.pods_ran, rank_devices.apart],
)
def test_bus_bandwidth_by_size_has_no_dip(settle: Callable[[], None]) -> None:
    """Bus bandwidth by size has no dip.

    At each measured size the bus bandwidth of a collective SHOULD reach the declared share of what a smaller size
    reached, on the slowest rank. Only the measured sizes are judged; between them a dip stays unseen.
    """
    settle()
