"""A gang that fits runs, whole."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.gang import runs_whole, spread
from pytest_gpucluster.judge.rendezvous.presuppositions import master_name_resolves, master_port_open

from ..scenarios.healthy import healthy


@requirement(
    "GANG-001",
    level="must",
    documents="R J",
    scenario=healthy,
    judge=runs_whole.runs_whole,
    presupposes=[
        presuppositions.pods_ran,
        master_name_resolves,
        master_port_open,
    ],
    smoke=True,
)
def test_a_gang_that_fits_runs_whole(settle: Callable[[], None]) -> None:
    """A gang that fits runs.

    Every member of a gang that fits MUST be bound. All members MUST meet at a barrier inside the payload, which shows
    that they ran together. The PodGroup's minMember MUST equal the Job's minAvailable.
    """
    settle()


@requirement(
    "GANG-007",
    level="should",
    documents="R J",
    scenario=healthy,
    judge=spread.within,
    presupposes=[presuppositions.pods_ran],
)
def test_members_are_bound_and_start_together(settle: Callable[[], None]) -> None:
    """Bind spread and start spread.

    The needed members of a gang SHOULD be bound, and SHOULD start, within the spreads that the profile declares. The
    finding reports both spreads.
    """
    settle()
