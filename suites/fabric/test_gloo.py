"""Collectives without GPUs."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.fabric import gloo_interface
from pytest_gpucluster.judge.rendezvous.presuppositions import members_find_each_other

from ..scenarios.indexed import indexed_world


@requirement(
    "FAB-013",
    level="must",
    documents="P",
    scenario=indexed_world,
    judge=gloo_interface.on_declared_interface,
    presupposes=[presuppositions.pods_ran, members_find_each_other],
)
def test_gloo_uses_the_declared_interface(settle: Callable[[], None]) -> None:
    """On CPUs gloo uses the declared interface.

    Without GPUs, the connections over which the members of a group reduce MUST use the declared interface, and the
    all-reduce MUST give the right sum.
    """
    settle()
