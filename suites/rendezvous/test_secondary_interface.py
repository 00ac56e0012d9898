"""The second interface of pods carries a fleet."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.rendezvous import secondary_interface

from ..scenarios import secondary_interface as scenarios


@requirement(
    "RDZV-010",
    level="should",
    documents="E",
    scenario=scenarios.secondary_interface,
    judge=secondary_interface.over_declared,
    presupposes=[presuppositions.pods_ran, secondary_interface.meeting_told],
)
def test_the_declared_interface_carries_the_fleet(settle: Callable[[], None]) -> None:
    """The declared second interface carries rendezvous and collectives.

    If a second interface of pods or a tunnel is declared, every connection of the rendezvous and of the collectives
    SHOULD use it, on all members. An all-reduce over it SHOULD be right.
    """
    settle()
