"""Real torchrun, real gloo or NCCL."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.rendezvous import torchrun_world

from ..scenarios.world import torch_world


@requirement(
    "RDZV-001",
    level="must",
    documents="R J P",
    scenario=torch_world,
    judge=torchrun_world.one_world,
    presupposes=[presuppositions.pods_ran],
)
def test_the_ranks_form_one_world(settle: Callable[[], None]) -> None:
    """Torchrun over c10d forms one world.

    nnodes x nproc ranks MUST form one world in which each rank occurs once, and an all-reduce MUST give the right
    sum. This holds for the documented manifest and for its robust form.
    """
    settle()
