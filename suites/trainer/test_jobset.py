"""JobSet: how sets succeed, restart, begin, and what their pods are called."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.plugins import name_resolution
from pytest_gpucluster.judge.trainer import failure_policy, stable_names, startup_order, success_policy

from ..scenarios.jobset import jobset_ends, jobset_names, jobset_order


@requirement(
    "TRN-004",
    level="must",
    documents="+",
    scenario=jobset_ends,
    judge=success_policy.ends_the_set,
    presupposes=[presuppositions.pods_ran],
)
def test_the_success_policy_ends_a_jobset(settle: Callable[[], None]) -> None:
    """The success policy of a JobSet ends it.

    A JobSet MUST be Completed as soon as any of the target Jobs of its success policy has completed (operator Any), or
    all of them (All), and not before. Its other Jobs MUST then be ended, with nothing left running.
    """
    settle()


@requirement(
    "TRN-005",
    level="must",
    documents="+",
    scenario=jobset_ends,
    judge=failure_policy.restarts_bounded,
    presupposes=[presuppositions.pods_ran],
)
def test_restarts_of_a_jobset_are_bounded(settle: Callable[[], None]) -> None:
    """The failure policy of a JobSet restarts all of it, and not without end.

    If a Job of a JobSet fails, all its Jobs MUST be made anew, at most maxRestarts times. The next failure MUST make it
    Failed with nothing left running, and so MUST the first one that a rule FailJobSet is for. A set whose restart
    succeeds MUST be Completed.
    """
    settle()


@requirement(
    "TRN-006",
    level="should",
    documents="+",
    scenario=jobset_order,
    judge=startup_order.in_order,
    presupposes=[presuppositions.pods_ran],
)
def test_replicated_jobs_begin_in_order(settle: Callable[[], None]) -> None:
    """Replicated Jobs of a JobSet begin in the order that it asks for.

    With startupPolicy InOrder, or dependsOn Ready, a later replicated Job SHOULD have no pod before all pods of the
    earlier one are ready. With dependsOn Complete it SHOULD have none before the earlier one has completed. Then it
    SHOULD get its pods.
    """
    settle()


@requirement(
    "TRN-007",
    level="must",
    documents="+",
    scenario=jobset_names,
    judge=stable_names.resolve,
    presupposes=[presuppositions.pods_ran, name_resolution.cluster_dns_asked],
)
def test_pods_of_a_jobset_have_stable_names(settle: Callable[[], None]) -> None:
    """Pods of a JobSet have stable names, which all members resolve.

    Each pod MUST have the host name <jobset>-<replicated Job>-<Job's index>-<pod's index> in the subdomain of the
    JobSet's network. Every name MUST resolve to its pod's address from every member, also before members are ready.
    """
    settle()
