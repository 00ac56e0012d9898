"""Jobs that admission must reject."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.refusal import admission

from ..scenarios.refusals import invalid_jobs


@requirement(
    "REF-003",
    level="must",
    documents="J",
    schedulers=["volcano"],
    scenario=invalid_jobs,
    judge=admission.invalid_rejected,
    smoke=True,
)
def test_invalid_jobs_are_rejected_at_admission(settle: Callable[[], None]) -> None:
    """Invalid Jobs are rejected at admission.

    The admission MUST reject each of these: minAvailable above the replicas, a duplicate task, an unknown plugin, an
    invalid policy and a missing mpi master. The Jobs and their objects MUST NOT be created.
    """
    settle()
