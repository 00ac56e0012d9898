"""All or nothing, under scarcity."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.gang import two_gangs
from pytest_gpucluster.judge.gang.all_or_nothing import all_or_nothing, gang_gate_reached
from pytest_gpucluster.judge.gang.runs_whole import half_placed_control

from ..scenarios import scarcity


@requirement(
    "GANG-002",
    level="must",
    documents="R J P",
    scenario=scarcity.scarce_gang,
    judge=all_or_nothing,
    presupposes=[gang_gate_reached],
    smoke=True,
)
def test_no_member_starts_until_all_can(settle: Callable[[], None]) -> None:
    """All or nothing.

    While there is room for only N-1 of its N members, a gang's members MUST NOT be bound. When there is room for the
    last one, all MUST be bound.
    """
    settle()


@requirement(
    "GANG-004",
    level="must",
    documents="P",
    scenario=scarcity.two_gangs,
    judge=two_gangs.two_gangs,
    presupposes=[gang_gate_reached],
)
def test_two_gangs_do_not_starve_each_other(settle: Callable[[], None]) -> None:
    """Two gangs, room for one.

    If two gangs fit one at a time but not together, one MUST run whole while the other holds nothing, and the other
    MUST run after it.
    """
    settle()


@requirement(
    "GANG-008",
    level="control",
    documents="R J P",
    scenario=scarcity.contrast_gang,
    judge=half_placed_control,
)
def test_the_default_scheduler_half_places_the_same_gang(settle: Callable[[], None]) -> None:
    """The contrast: the default scheduler places only a part of the same gang.

    The detector MUST see the documented failure on this cluster: the default scheduler places only a part of the gang
    of GANG-002. The finding names the documented fix.
    """
    settle()
