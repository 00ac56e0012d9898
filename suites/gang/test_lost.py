"""A gang that loses a member and its slot."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.gang import lost_member

from ..scenarios.lost import lost_slot


@requirement(
    "GANG-009",
    level="should",
    documents="+",
    schedulers=["volcano", "native"],
    scenario=lost_slot,
    judge=lost_member.reported,
)
def test_a_short_gang_says_so(settle: Callable[[], None]) -> None:
    """A gang that lost a member reports it.

    After a gang has lost a member and its slot, the gang's own object SHOULD report that the gang is short.
    """
    settle()


@requirement(
    "GANG-010",
    level="should",
    documents="+",
    scenario=lost_slot,
    judge=lost_member.healed,
)
def test_a_gang_heals_when_its_slot_returns(settle: Callable[[], None]) -> None:
    """A gang that lost a slot is whole again.

    When a lost slot is back, its gang SHOULD be whole again within the declared time, or be reported as short.
    """
    settle()
