"""What cannot go on ends in time and says why: a rendezvous out of reach, a rank that stands still."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.rendezvous import stall
from pytest_gpucluster.judge.rendezvous import unreachable_endpoint as judging
from pytest_gpucluster.judge.rendezvous.presuppositions import no_interception

from ..scenarios.stuck import stalled, unreachable


@requirement(
    "RDZV-004",
    level="must",
    documents="R P",
    scenario=unreachable,
    judge=judging.ends_explained,
    presupposes=[presuppositions.pods_ran, no_interception],
)
def test_a_rendezvous_out_of_reach_ends_with_an_explanation(settle: Callable[[], None]) -> None:
    """A rendezvous that cannot be reached ends with an explanation.

    If nobody hosts the endpoint, or if the subdomain is wrong and the endpoint's name does not exist, every member
    MUST end with a code other than 0 within its bound and say which endpoint it could not reach. It MUST NOT hang.
    """
    settle()


@requirement(
    "RDZV-009",
    level="must",
    documents="+",
    scenario=stalled,
    judge=stall.ends_named,
    presupposes=[presuppositions.pods_ran],
)
def test_a_stall_outside_collectives_names_rank_and_place(settle: Callable[[], None]) -> None:
    """A stall outside collectives ends in time and names its rank.

    A rank that stalls while it imports, restores or waits for data MUST end within the bound of that place. Its log
    MUST name the rank, the place and the line of the program.
    """
    settle()
