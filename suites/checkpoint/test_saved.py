"""What is saved: by whom, and whether others can load it."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.checkpoint import resharding, sharded_save

from ..scenarios.checkpoint import checkpoint


@requirement(
    "CKPT-001",
    level="must",
    documents="P",
    scenario=checkpoint,
    judge=sharded_save.writes_own_parts,
    presupposes=[presuppositions.pods_ran],
)
def test_every_rank_saves_its_own_part(settle: Callable[[], None]) -> None:
    """Every rank saves its own part.

    In a sharded save every rank MUST write its own part of the state to a file of its own. No rank, rank 0 neither,
    MUST hold the parts of others to write them: that is where a save runs out of memory.
    """
    settle()


@requirement(
    "CKPT-002",
    level="must",
    documents="P",
    scenario=checkpoint,
    judge=resharding.loads_elsewhere,
    presupposes=[presuppositions.pods_ran],
)
def test_a_checkpoint_loads_on_other_ranks(settle: Callable[[], None]) -> None:
    """A checkpoint loads on another number of ranks.

    Each checkpoint MUST load on another number of ranks, with the same bits in every tensor. They MUST be those of the
    step at which the save was asked for, although training went on while it was written.
    """
    settle()
