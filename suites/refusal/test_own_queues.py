"""Queues: a capability that is kept, a closed queue, and what a waiting gang does to others."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.refusal.blocking import enqueued_blocks_control, refused_harms_nobody
from pytest_gpucluster.judge.refusal.closed_queue import closed_queue_refuses
from pytest_gpucluster.judge.refusal.over_large import control_ran
from pytest_gpucluster.judge.refusal.queue_capability import above_capability_refused

from ..scenarios.own_queues import closed_queue, enqueued_blocks, over_capability


@requirement(
    "REF-002",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=over_capability,
    judge=above_capability_refused,
    presupposes=[control_ran],
)
def test_a_gang_above_the_capability_of_its_queue_is_refused(settle: Callable[[], None]) -> None:
    """A gang above its queue's capability is refused.

    If a gang asks for more than the capability of its queue, its members MUST NOT be bound, even if the cluster has
    room. The refusal MUST come from the queue's share. A fitting gang on the same queue MUST run.
    """
    settle()


@requirement(
    "REF-004",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=closed_queue,
    judge=closed_queue_refuses,
)
def test_an_unknown_or_closed_queue_refuses(settle: Callable[[], None]) -> None:
    """An unknown or closed queue refuses.

    The admission webhook MUST refuse a Job for a queue that does not exist, and a Job for a closed queue. The Jobs and
    their objects MUST NOT be created. While the queue was open, it MUST run a fitting Job.
    """
    settle()


@requirement(
    "REF-005",
    level="should",
    documents="+",
    schedulers=["volcano"],
    scenario=over_capability,
    judge=refused_harms_nobody,
)
def test_a_refused_gang_harms_nobody(settle: Callable[[], None]) -> None:
    """A gang refused at enqueue harms no other job.

    While a gang is refused at enqueue, a fitting Job of its own queue and one of another queue SHOULD start, and
    another job SHOULD NOT lose its place to the gang.
    """
    settle()


@requirement(
    "REF-007",
    level="control",
    documents="+",
    schedulers=["volcano"],
    scenario=enqueued_blocks,
    judge=enqueued_blocks_control,
)
def test_an_enqueued_gang_that_cannot_be_placed_blocks_others(settle: Callable[[], None]) -> None:
    """The contrast: an enqueued gang that cannot be placed blocks others.

    The detector MUST see the documented failure on this cluster: a gang that passed the gates at enqueue but fits no
    node keeps a fitting gang of another queue from starting. The finding names cause and fix.
    """
    settle()
