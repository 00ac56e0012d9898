"""How Jobs end by failures, by their own numbers, and how restarts inside a pod escape all of it."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.lifecycle import container_restarts, policies, restarts
from pytest_gpucluster.judge.lifecycle import min_success_and_ttl as judges

from ..scenarios.endings import endings


@requirement(
    "LIFE-004",
    level="must",
    documents="R J",
    schedulers=["volcano"],
    scenario=endings,
    judge=restarts.attempts_bounded,
    presupposes=[presuppositions.pods_ran],
)
def test_attempts_are_bounded(settle: Callable[[], None]) -> None:
    """The attempts of a Job are bounded.

    If each attempt of a Job fails, the Job MUST be attempted maxRetry times in total. It MUST then be Failed with
    nothing left running.
    """
    settle()


@requirement(
    "LIFE-005",
    level="must",
    documents="R J",
    scenario=endings,
    judge=judges.removed_after_ttl,
    presupposes=[presuppositions.pods_ran],
)
def test_finished_jobs_are_removed(settle: Callable[[], None]) -> None:
    """A finished Job is removed after its time to live.

    With ttlSecondsAfterFinished, the finished Job and the objects that it owns MUST be removed after that time.
    Removal up to one second early is allowed, because time stamps are rounded.
    """
    settle()


@requirement(
    "LIFE-006",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=endings,
    judge=judges.min_success_decides,
    presupposes=[presuppositions.pods_ran],
)
def test_min_success_decides(settle: Callable[[], None]) -> None:
    """The number of successes decides how a Job ends.

    The Job MUST be Completed as soon as minSuccess members have succeeded; its other members are then ended. A Job
    whose members end with fewer successes MUST NOT be Completed.
    """
    settle()


@requirement(
    "LIFE-007",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=endings,
    judge=policies.act_as_documented,
    presupposes=[presuppositions.pods_ran],
)
def test_failure_policies_act(settle: Callable[[], None]) -> None:
    """Policies for failures act as documented.

    When a pod fails, the policy for PodFailed or for its exit code MUST act: AbortJob ends in Aborted and
    TerminateJob in Terminated, with nothing left running, and RestartJob MUST replace every member.
    """
    settle()


@requirement(
    "LIFE-012",
    level="control",
    documents="R J",
    schedulers=["volcano"],
    scenario=endings,
    judge=container_restarts.restarts_in_place_control,
    presupposes=[presuppositions.pods_ran],
)
def test_restarts_in_place_escape_the_policies(settle: Callable[[], None]) -> None:
    """The contrast: no policy sees a restart in place.

    Under restartPolicy OnFailure, the detector MUST see that a crash restarts the container inside its pod: no
    PodFailed policy acts, and no attempt of maxRetry is counted. The finding counts the restarts and names the fix.
    """
    settle()
