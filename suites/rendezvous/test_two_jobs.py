"""Two Jobs beside each other, and what training in a world of its own gives."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.rendezvous import training_step, two_worlds

from ..scenarios.two_jobs import two_jobs


@requirement(
    "RDZV-005",
    level="must",
    documents="E",
    scenario=two_jobs,
    judge=two_worlds.apart,
    presupposes=[presuppositions.pods_ran],
)
def test_two_jobs_form_two_worlds(settle: Callable[[], None]) -> None:
    """Two Jobs at the same time form two worlds.

    Two Jobs of the same shape that start together MUST each form a world, with its own ranks once each, at its own
    rendezvous. What a rank gets by a collective MUST come from ranks of its own Job.
    """
    settle()


@requirement(
    "RDZV-006",
    level="must",
    documents="P",
    scenario=two_jobs,
    judge=training_step.agrees,
    presupposes=[presuppositions.pods_ran, training_step.ranks_met],
)
def test_training_steps_agree_with_one_process(settle: Callable[[], None]) -> None:
    """Steps of DDP and FSDP2 agree with one process.

    Every rank MUST take its training steps with DDP and with FSDP2 (`fully_shard`); FSDP2 holds a part of the model
    on each rank. The loss of each step, and every parameter after the steps, MUST agree with one process that trains
    on the whole batch.
    """
    settle()
