"""What comes before the launcher."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import network_wait, presupposed

from ..scenarios.prepared import prepared


@requirement(
    "RDZV-008",
    level="should",
    documents="E",
    scenario=prepared,
    judge=network_wait.ready_first,
    presupposes=[presupposed.pods_ran, network_wait.peers_known],
    defects=[
        "node.init-not-awaited",
        "rendezvous.launched-early",
        "rendezvous.gate-unexplained",
        "rendezvous.gate-unbounded",
    ],
)
def test_training_starts_once_the_network_is_there(settle: Callable[[], None]) -> None:
    """The launcher starts only once the network is ready.

    Before its launcher starts, each member SHOULD wait until the declared interface is up and its peers answer over
    it; where that never comes the wait SHOULD end with a code other than 0 within its bound and say what is missing.
    """
    settle()
