"""One elastic job through its life: smaller, whole again, below its minimum, and back at its checkpoint."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.elastic import shrink

from ..scenarios.elastic_training import elastic_training


@requirement(
    "ELA-001",
    level="must",
    documents="E",
    scenario=elastic_training,
    judge=shrink.goes_on,
    presupposes=[presuppositions.pods_ran],
)
def test_a_lost_worker_shrinks_the_world(settle: Callable[[], None]) -> None:
    """A lost worker shrinks the world, which goes on.

    When a worker is killed and cannot be placed again, or a Job is given fewer members, the workers that are left MUST
    form a smaller world of at least the declared minimum, and take their next step in the declared time. How long it
    took to notice, to form and to step, the steps lost and the restarts used are reported.
    """
    settle()
