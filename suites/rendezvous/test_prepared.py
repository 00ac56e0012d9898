"""What comes before the launcher."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.rendezvous import network_ready, node_labels

from ..scenarios.prepared import prepared


@requirement(
    "RDZV-007",
    level="must",
    documents="E",
    scenario=prepared,
    judge=node_labels.labels_arrive,
    presupposes=[presuppositions.pods_ran, network_ready.peers_known],
)
def test_the_launcher_knows_where_it_runs(settle: Callable[[], None]) -> None:
    """Topology labels reach the launcher; missing labels are empty.

    An init container that asks the API for the labels of its node MUST bring them into the launcher's environment, by
    a file that the entrypoint sources. Each label MUST have the value of the pod's own node, and MUST be empty if the
    node does not have it.
    """
    settle()


@requirement(
    "RDZV-008",
    level="should",
    documents="E",
    scenario=prepared,
    judge=network_ready.ready_first,
    presupposes=[presuppositions.pods_ran, network_ready.peers_known],
)
def test_training_starts_once_the_network_is_there(settle: Callable[[], None]) -> None:
    """The launcher starts only when the network is ready.

    Before its launcher starts, each member SHOULD wait until the declared interface is up and its peers answer over
    it. If that never happens, the wait SHOULD end with a code other than 0 within its bound and say what is missing.
    """
    settle()
