"""What a gang that requires one domain of the network may count on."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.gang import one_domain as judge

from ..scenarios.topology import one_domain


@requirement(
    "GANG-012",
    level="should",
    documents="E P",
    scenario=one_domain,
    judge=judge.stays_in_one_domain,
)
def test_a_gang_with_a_required_domain_stays_inside_one(settle: Callable[[], None]) -> None:
    """A gang with a required topology domain stays inside one.

    A gang that requires one domain of a level SHOULD be placed whole on nodes of one domain. While there is room for a
    gang across domains but in none of them alone, no member of it SHOULD be bound, and the scheduler SHOULD say why.
    The gangs are those of a further scheduler that can be asked for a domain: Kubernetes itself with the feature gate
    TopologyAwareWorkloadScheduling. HyperNodes of Volcano are not tried; KUE-007 is the row of Kueue.
    """
    settle()
