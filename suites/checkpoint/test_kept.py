"""What checkpoints are kept on: how fast it is, what a kill leaves there, and whether it outlives a node."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.checkpoint import async_pause, flush, killed_save, storage_speed

from ..scenarios.checkpoint import checkpoint


@requirement(
    "CKPT-003",
    level="must",
    documents="P",
    scenario=checkpoint,
    judge=async_pause.pauses_little,
    presupposes=[presuppositions.pods_ran],
)
def test_an_asynchronous_save_hardly_pauses_training(settle: Callable[[], None]) -> None:
    """An asynchronous save hardly pauses training.

    From the moment at which an asynchronous save is asked for, the next step of training MUST NOT come later than a
    usual step by more than the declared time, on any rank.
    """
    settle()


@requirement(
    "CKPT-004",
    level="must",
    documents="P",
    scenario=checkpoint,
    judge=storage_speed.reaches_floor,
    presupposes=[presuppositions.pods_ran],
)
def test_storage_reaches_its_floors(settle: Callable[[], None]) -> None:
    """Storage reaches its floors from all nodes at once.

    While all nodes write as much as a checkpoint has, synchronise it, and read it with a cleared cache, every node MUST
    reach the declared GB/s. What is read MUST be what was written.
    """
    settle()


@requirement(
    "CKPT-005",
    level="must",
    documents="P",
    scenario=checkpoint,
    judge=killed_save.last_complete_loads,
    presupposes=[presuppositions.pods_ran],
)
def test_a_kill_while_saving_leaves_the_last_checkpoint(settle: Callable[[], None]) -> None:
    """A kill while saving leaves the last checkpoint intact.

    After a rank was killed at any moment of a save, the last complete checkpoint MUST load with the same bits. The
    pointer `latest` MUST name a complete checkpoint, and an unfinished one MUST NOT look complete.
    """
    settle()


@requirement(
    "CKPT-006",
    level="should",
    documents="P",
    scenario=checkpoint,
    judge=flush.reaches_durable,
    presupposes=[presuppositions.pods_ran],
)
def test_a_local_checkpoint_reaches_durable_storage(settle: Callable[[], None]) -> None:
    """A local checkpoint reaches durable storage in time.

    A checkpoint that is saved to the disks of its nodes SHOULD be whole on the durable volume within the declared
    time. It SHOULD then load with the same bits on another node, without those that wrote it.
    """
    settle()
