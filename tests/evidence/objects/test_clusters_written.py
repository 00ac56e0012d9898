"""A cluster that was written and read back is the same; what several scenarios saw is put together in one way."""

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.evidence.objects import clusters
from pytest_gpucluster.evidence.objects.clusters import Cluster, Node
from pytest_gpucluster.report import identity
from tests import amount

WORD = st.text("abcd-019", min_size=1, max_size=6)
NODES = st.builds(
    Node,
    name=st.sampled_from(["gpu-0", "gpu-1", "gpu-2"]),
    state=st.sampled_from(["", "cordoned", "NotReady"]),
    facts=st.dictionaries(st.sampled_from(["uid", "machineID", "driver"]), WORD),
    offered=st.integers(0, 8),
    gpus=st.frozensets(WORD, max_size=3),
)
CLUSTERS = st.builds(
    Cluster,
    uid=st.sampled_from(["", "u-1", "u-2"]),
    nodes=st.lists(NODES, max_size=3).map(lambda found: {node.name: node for node in found}),
    versions=st.dictionaries(st.sampled_from(["kubernetes", "volcano"]), WORD),
)


@amount.examples(100)
@given(st.lists(CLUSTERS, max_size=4))
def test_the_record_says_what_the_typed_facts_say(found):
    """One subject, one place: the record's machines and components are those of `clusters.together`."""
    assert [clusters.read_back(clusters.written(one)) for one in found] == found
    told = identity.together({"seen": clusters.written(one)} for one in found)
    whole = clusters.written(clusters.together(found))
    assert told.get("uid", "") == whole["uid"]
    assert told.get("machines", {}) == whole["nodes"]
    assert told.get("components", {}) == whole["versions"]


def test_what_is_of_another_shape_is_left_out():
    """A record is a file that anybody may have edited."""
    assert clusters.read_back(
        {"uid": 3, "nodes": {"a": 7, "b": {"gpus": "x"}}, "versions": []}
    ).nodes.keys() == {"b"}
    assert identity.together([{}, {"seen": None}]) == {}
