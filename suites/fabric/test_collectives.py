"""Collectives over whole nodes."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import fabric_devices, fabric_floors, presupposed

from ..scenarios.collectives import collectives


@requirement(
    "FAB-014",
    level="must",
    documents="+",
    scenario=collectives,
    judge=fabric_devices.own_devices,
    presupposes=[presupposed.pods_ran],
    defects=["fabric.two-ranks-on-one-gpu", "fabric.a-node-is-missing"],
)
def test_every_rank_has_a_device_of_its_own(settle: Callable[[], None]) -> None:
    """Every rank has a device of its own on the expected node.

    Before any figure counts, each rank of the world MUST have a device that no other rank has, and every expected node
    MUST hold its part of the ranks.
    """
    settle()


@requirement(
    "FAB-015",
    level="must",
    documents="+",
    scenario=collectives,
    judge=fabric_floors.plausible,
    defects=["fabric.floor-without-shape", "fabric.floor-above-the-wires"],
)
def test_floors_are_plausible(settle: Callable[[], None]) -> None:
    """A bandwidth floor is plausible for its hardware.

    A floor MUST say for how many nodes, GPUs and adapters of which rate it holds, and MUST lie within what these carry;
    otherwise nothing measured is compared with it.
    """
    settle()
