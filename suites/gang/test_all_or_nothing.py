"""All or nothing, under scarcity."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.gang import two_gangs
from pytest_gpucluster.judge.gang.all_or_nothing import all_or_nothing
from pytest_gpucluster.judge.gang.gate import gang_gate_reached
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
    defects=["gang.binds-partially", "gang.forgets-room", "gang.min-member-short"],
)
def test_no_member_starts_until_all_can(settle: Callable[[], None]) -> None:
    """All or nothing.

    While there is room for only N-1 of its N members, none MUST be bound. When room for the last appears, all
    MUST be.
    """
    settle()


@requirement(
    "GANG-004",
    level="must",
    documents="P",
    scenario=scarcity.two_gangs,
    judge=two_gangs.two_gangs,
    presupposes=[gang_gate_reached],
    defects=["gang.binds-partially", "gang.starves-loser"],
)
def test_two_gangs_do_not_starve_each_other(settle: Callable[[], None]) -> None:
    """Two gangs for the room of one.

    Of two gangs that each fit but not both, one MUST run whole while the other holds nothing, and the other MUST
    run after it.
    """
    settle()


@requirement(
    "GANG-008",
    level="control",
    documents="R J P",
    scenario=scarcity.contrast_gang,
    judge=half_placed_control,
    defects=["default-scheduler.gang-aware"],
)
def test_the_default_scheduler_half_places_the_same_gang(settle: Callable[[], None]) -> None:
    """The contrast: the same gang under the default scheduler is half placed.

    The detector MUST see the documented failure on this very cluster: under the default scheduler the gang of
    GANG-002 is placed in part, and the finding names the documented fix.
    """
    settle()
