"""Minimums below the number of members."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.gang import min_available
from pytest_gpucluster.judge.gang.all_or_nothing import gang_gate_reached

from ..scenarios.minimums import minimums as scenario


@requirement(
    "GANG-003",
    level="must",
    documents="J",
    scenario=scenario,
    judge=min_available.never_below_minimum,
    presupposes=[presuppositions.members_made, gang_gate_reached],
)
def test_a_gang_never_runs_below_its_minimum(settle: Callable[[], None]) -> None:
    """A minimum below the number of members.

    If minAvailable is below the number of replicas, the number of bound members MUST at no time be above zero and
    below minAvailable. Surplus members may come at any time.
    """
    settle()


@requirement(
    "GANG-005",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=scenario,
    judge=min_available.roles_gated,
    presupposes=[presuppositions.members_made, gang_gate_reached],
)
def test_each_task_has_its_own_minimum(settle: Callable[[], None]) -> None:
    """Minimum counts per task.

    While a task lacks room for its own minAvailable, the members of the gang MUST NOT be bound, even if enough
    members of other tasks would fit. This holds if the Job's minAvailable is at least the sum of its tasks' minimums.
    If it is lower, Volcano ignores the minimums of tasks, and the finding MUST say so.
    """
    settle()


@requirement(
    "GANG-006",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=scenario,
    judge=min_available.minimum_defaulted,
)
def test_min_available_defaults_to_the_sum(settle: Callable[[], None]) -> None:
    """The default of minAvailable.

    If a Job leaves minAvailable out, it MUST get the sum over its tasks: the task's minAvailable if it states one,
    else its replicas. Its PodGroup MUST get the same minMember.
    """
    settle()
