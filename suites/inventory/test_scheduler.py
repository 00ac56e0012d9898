"""The declared scheduler is there, in all its parts."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.inventory import scheduler_parts

from ..scenarios.probe import probe


@requirement(
    "INV-001",
    level="must",
    documents="R J",
    scenario=probe,
    judge=scheduler_parts.scheduler_answers,
    presupposes=[scheduler_parts.queue_takes_jobs],
    smoke=True,
)
def test_the_declared_scheduler_answers(settle: Callable[[], None]) -> None:
    """The declared scheduler answers.

    The APIs of the declared scheduler MUST be served. Its admission MUST complete a Job that leaves out
    schedulerName, minAvailable and task names. Its controllers MUST make a PodGroup for a Job. Its scheduler MUST
    give that PodGroup a phase and consider a pod that names it.
    """
    settle()
