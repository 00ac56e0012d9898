"""Which nodes a run of collectives uses: as many as the profile says, with as many pods on each."""

from types import SimpleNamespace

import pytest

from suites.scenarios import collectives

GPU = "nvidia.com/gpu"


class Live:
    """The nodes of a cluster."""

    def __init__(self, nodes, gpus, most_nodes=None):
        """Name them n0, n1 and so on."""
        self.most_nodes = most_nodes
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {GPU: str(gpus)}}
        self._nodes = [{"metadata": {"name": f"n{n}"}, "spec": {}, "status": ready} for n in range(nodes)]

    def objects(self, kind):
        """Return the nodes."""
        assert kind == "Node"
        return self._nodes


def stage(nodes, gpus=8, **overlay):
    """Return what a layout reads of a stage: the profile, and the nodes of the cluster."""
    profile = SimpleNamespace(gpu_resource=GPU, gpus_per_node=gpus, numa=None, overlay=overlay)
    return SimpleNamespace(profile=profile, live=Live(nodes, gpus))


def fabric(nodes, pods_per_node):
    """Return what a layout reads of the fabric."""
    return SimpleNamespace(nodes=nodes, pods_per_node=pods_per_node, device="gpu")


@pytest.mark.parametrize(
    ("there", "nodes", "pods", "chosen"),
    [(3, 2, 2, ("n0", "n1")), (4, 1, 4, ("n0",)), (2, 2, 2, ()), (3, None, 2, ()), (3, 2, 1, ()), (1, 2, 2, ())],
)  # fmt: skip
def test_pods_that_share_nodes_stay_on_as_many_as_are_declared(there, nodes, pods, chosen):
    """Where there are more, the scheduler would spread them, and the row would blame the cluster for it."""
    who = collectives.layout(stage(there), fabric(nodes, pods))
    assert who.names == chosen
    assert who.members == (nodes or there) * pods


def test_a_site_that_chooses_nodes_itself_is_not_overruled():
    """Its selector may leave out the nodes that come first by name."""
    site = stage(3, spec={"nodeSelector": {"pool": "a"}})
    assert collectives.layout(site, fabric(2, 2)).names == ()


def test_a_bound_of_nodes_holds_for_layouts_that_take_all():
    """Where the run may use two nodes, a layout of all nodes has two."""
    bound = stage(4)
    bound.live = Live(4, 8, most_nodes=2)
    assert collectives.layout(bound, SimpleNamespace(nodes=None, pods_per_node=1, device="gpu")).nodes == 2
