"""What topology-aware scheduling keeps together."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.kueue import shared, topology

from ..scenarios.topology import kueue_topology


@requirement(
    "KUE-007",
    level="should",
    documents="E P",
    scenario=kueue_topology,
    judge=topology.keeps_domain,
    presupposes=[shared.pods_can_run],
)
def test_topology_aware_placement_stays_inside_the_required_domain(settle: Callable[[], None]) -> None:
    """Topology-aware placement stays inside the required domain.

    A Job that requires one domain of a level SHOULD be placed whole on nodes of one domain, as its Workload's
    topologyAssignment says. While there is room for a Job across domains but in none of them alone, the Job SHOULD have
    no pod on a node, and its Workload SHOULD name the topology.
    """
    settle()
