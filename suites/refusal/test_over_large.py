"""A gang larger than the cluster."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.refusal.over_large import control_ran, over_large_refused

from ..scenarios.refusals import over_large


@requirement(
    "REF-001",
    level="must",
    documents="R J",
    scenario=over_large,
    judge=over_large_refused,
    presupposes=[control_ran],
    smoke=True,
)
def test_a_gang_larger_than_the_cluster_is_refused(settle: Callable[[], None]) -> None:
    """A gang larger than the cluster stays pending.

    The members of a gang larger than the cluster MUST NOT be bound, and it MUST NOT hold a slot or GPU. The refusal
    MUST come from the gang scheduler. A fitting gang on the same queue MUST run right after.
    """
    settle()
