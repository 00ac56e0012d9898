"""How a Job comes to its end."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.lifecycle import completion, phases

from ..scenarios.healthy import healthy, lingering


@requirement(
    "LIFE-001",
    level="must",
    documents="R J",
    scenario=healthy,
    judge=completion.completes_with_policy,
    presupposes=[presuppositions.pods_ran],
    smoke=True,
)
def test_the_job_completes_when_the_master_does(settle: Callable[[], None]) -> None:
    """TaskCompleted ends the Job.

    With the policy TaskCompleted -> CompleteJob on the master, the Job MUST complete when rank 0 exits, and MUST NOT
    leave a worker running.
    """
    settle()


@requirement(
    "LIFE-002",
    level="control",
    documents="J",
    scenario=lingering,
    judge=completion.lingers_without_policy_control,
    presupposes=[presuppositions.pods_ran],
)
def test_workers_linger_without_the_policy(settle: Callable[[], None]) -> None:
    """The contrast: without the policy the workers linger.

    Without a completion policy, the detector MUST see that the workers stay and that the Job does not complete when
    the master has ended. The finding names the documented fix.
    """
    settle()


@requirement(
    "LIFE-008",
    level="must",
    documents="R J",
    schedulers=["volcano"],
    scenario=healthy,
    judge=phases.documented_path,
    presupposes=[presuppositions.pods_ran],
)
def test_the_phases_are_documented_ones(settle: Callable[[], None]) -> None:
    """The phases follow each other as documented.

    Each change of the Job's phase that a watch sees MUST be a documented one. If the master of a Job ends with 0, the
    last phase MUST be Completed.
    """
    settle()
