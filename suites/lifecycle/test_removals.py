"""What becomes of a Job that loses a pod, or is suspended."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.lifecycle import finished_members, restarts, suspend_resume

from ..scenarios.removals import removals


@requirement(
    "LIFE-003",
    level="must",
    documents="R J",
    schedulers=["volcano"],
    scenario=removals,
    judge=restarts.evicted_restarts_once,
    presupposes=[presuppositions.pods_ran, presuppositions.eviction_permitted],
)
def test_a_lost_member_restarts_the_gang_once(settle: Callable[[], None]) -> None:
    """PodEvicted restarts the whole gang once.

    With the policy PodEvicted -> RestartJob, if one pod is deleted or evicted and its process ends with 0 on TERM,
    every member MUST be replaced exactly once, and the Job MUST then complete.
    """
    settle()


@requirement(
    "LIFE-009",
    level="should",
    documents="J",
    schedulers=["volcano"],
    scenario=removals,
    judge=suspend_resume.suspend_and_resume,
    presupposes=[presuppositions.pods_ran, presuppositions.commands_permitted],
)
def test_suspend_and_resume(settle: Callable[[], None]) -> None:
    """Commands suspend and resume a Job.

    AbortJob SHOULD end every pod and leave the Job Aborted without pods until ResumeJob. ResumeJob SHOULD create
    every member again. Both together cost one retry of maxRetry.
    """
    settle()


@requirement(
    "LIFE-010",
    level="should",
    documents="+",
    scenario=removals,
    judge=finished_members.not_run_again,
    presupposes=[presuppositions.pods_ran],
)
def test_a_finished_member_is_not_run_again(settle: Callable[[], None]) -> None:
    """A member that succeeded is not run again.

    When the pod of a member that has succeeded is taken away (deleted, collected, or lost with its node) while the
    Job goes on, the member SHOULD NOT be run again. A batch Job MUST obey this, and decides the row if there is one.
    If Volcano creates the member again, the finding reports this with its cause.
    """
    settle()
