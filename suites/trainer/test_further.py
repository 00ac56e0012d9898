"""Every further scheduler that the profile declares."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.trainer import further_schedulers

from ..scenarios.further import further


@requirement(
    "TRN-003",
    level="should",
    documents="+",
    scenario=further,
    judge=further_schedulers.further_hold,
)
def test_further_schedulers_hold_gangs_whole(settle: Callable[[], None]) -> None:
    """Further schedulers place gangs whole.

    For each further scheduler that the profile declares: a gang that fits SHOULD run whole; its members SHOULD NOT be
    bound while only a part of the gang fits, and all SHOULD be bound when room appears; of two gangs that fit one at
    a time, the first SHOULD run whole and the other after it. PodGroups of Kubernetes itself are also tried if native
    is the main scheduler.
    """
    settle()
