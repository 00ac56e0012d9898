"""Native gangs inside one domain: which nodes are tried together, and what is said where none will do."""

import pytest

from pytest_gpucluster.embedded.fitting import rooms_of
from pytest_gpucluster.embedded.native.plan import plan_in_domain

RACK = "example.com/rack"


def node(name, rack, slots):
    """Return a node of a rack, None for one that does not tell its rack."""
    labels = {} if rack is None else {RACK: rack}
    status = {"allocatable": {"example.com/slot": str(slots), "pods": "110"}}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def pods(count):
    """Return pods of one slot each."""
    container = {"name": "c", "resources": {"limits": {"example.com/slot": "1"}}}
    return [
        {"metadata": {"name": f"p{n}", "uid": f"p{n}"}, "spec": {"containers": [container]}}
        for n in range(count)
    ]


NODES = [node("a", "r0", 2), node("b", "r0", 2), node("c", "r1", 3), node("d", None, 9)]


def tried(count, *, there=()):
    """Return the plan of a gang of so many pods, of which some may be there already."""
    minimum = count + len(there)
    return plan_in_domain(pods(count), rooms_of(NODES, []), RACK, minimum=minimum, there=there)


@pytest.mark.parametrize(("count", "nodes"), [(4, {"a", "b"}), (3, {"a", "b"}), (2, {"a", "b"}), (1, {"a"})])
def test_a_gang_that_fits_is_in_one_rack(count, nodes):
    """Nodes that tell no rack are in none, however empty they are."""
    found = tried(count)
    assert found.short is None
    assert {name for _, name in found.places} <= nodes
    assert len(found.places) == count


def test_a_gang_that_fits_only_across_is_refused_with_the_number_of_racks():
    """In the words of kube-scheduler; nothing of the trial holds."""
    found = tried(5)
    assert found.short.startswith("0/2 placements are available, first placement status: minCount (5)")
    assert not found.places
    assert found.refusals


def test_members_that_are_there_bind_the_rest_to_their_rack():
    """Two more fit into the other rack only, which is not theirs."""
    assert {name for _, name in tried(2, there=("c",)).places} == {"c"}
    refused = tried(4, there=("c",))
    assert refused.short.startswith("0/1 placements are available")


def test_no_node_tells_its_rack():
    """Then there is no placement at all."""
    found = plan_in_domain(pods(1), rooms_of([node("d", None, 9)], []), RACK, minimum=1, there=())
    assert found.short.startswith("0/0 placements are available")
