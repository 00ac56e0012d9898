"""What priority does for a Job."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.inventory import scheduler_actions
from pytest_gpucluster.judge.lifecycle import priority

from ..scenarios.contention import priorities as by_priority


@requirement(
    "LIFE-013",
    level="should",
    documents="J",
    schedulers=["volcano"],
    scenario=by_priority,
    judge=priority.orders_the_queue,
)
def test_priority_orders_the_queue(settle: Callable[[], None]) -> None:
    """Priority orders the queue.

    If two gangs wait in one queue for the same room, the one whose priorityClassName has the higher value SHOULD be
    placed first, even if it came later.
    """
    settle()


@requirement(
    "LIFE-014",
    level="should",
    documents="J",
    schedulers=["volcano"],
    scenario=by_priority,
    judge=priority.makes_room,
    presupposes=[scheduler_actions.preempt_configured],
)
def test_priority_makes_room(settle: Callable[[], None]) -> None:
    """Preemption by priority.

    If the scheduler's configuration has the action preempt, a gang of higher priority that finds no room SHOULD get
    the room of a gang of lower priority in its queue, and only of such a gang.
    """
    settle()
