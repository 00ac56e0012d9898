"""The documented smoke loop."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.mfu.smoke_loop import counts_right

from ..scenarios.speed import smoke_loop


@requirement(
    "MFU-004",
    level="must",
    documents="R",
    scenario=smoke_loop,
    judge=counts_right,
    presupposes=[presuppositions.pods_ran],
)
def test_the_smoke_loop_counts_its_flops_right(settle: Callable[[], None]) -> None:
    """The smoke loop counts its FLOPs correctly.

    A rank's throughput in the loop of product and all-reduce MUST be its own steps times 2 N^3, divided by its
    seconds. The sum over ranks MUST be right. The finding shows the result of the documented formula beside it.
    """
    settle()
