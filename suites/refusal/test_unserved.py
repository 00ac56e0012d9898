"""No scheduler is no refusal."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.refusal import no_scheduler

from ..scenarios.unserved import unserved


@requirement(
    "REF-008",
    level="must",
    documents="J",
    scenario=unserved,
    judge=no_scheduler.not_served_is_no_refusal,
)
def test_a_scheduler_that_does_not_run_is_no_refusal(settle: Callable[[], None]) -> None:
    """A scheduler that does not run is not reported as a refusal.

    If no scheduler looks at a Job (its PodGroup gets no phase, or its pods stay Pending without a reason), the Job
    MUST NOT be reported as refused, and the cause MUST be named.
    """
    settle()
