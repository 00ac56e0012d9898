"""What Kueue takes back: a gang that cannot become ready, and what an eviction leaves."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.kueue import shared, status_and_pods, wait_for_pods_ready

from ..scenarios.kueue import drained, promised


@requirement(
    "KUE-004",
    level="must",
    documents="P",
    scenario=promised,
    judge=wait_for_pods_ready.evicts_what_is_not_ready,
    presupposes=[shared.pods_can_run],
)
def test_a_gang_that_cannot_become_ready_is_taken_back(settle: Callable[[], None]) -> None:
    """A gang that cannot become ready is evicted and queued again.

    If waitForPodsReady is configured and not all pods of an admitted gang become ready, the gang MUST be evicted
    within the timeout: its pods go, its quota is free, and it is queued again.
    """
    settle()


@requirement(
    "KUE-005",
    level="must",
    documents="+",
    scenario=drained,
    judge=status_and_pods.status_and_pods_agree,
    presupposes=[shared.pods_can_run],
)
def test_status_and_pods_agree(settle: Callable[[], None]) -> None:
    """Status and pods agree.

    An evicted Workload MUST give its quota back once its pods are gone. Pods MUST hold places only while quota is
    held for them. All pods together, and all Workloads together, MUST hold no more than the quota.
    """
    settle()
