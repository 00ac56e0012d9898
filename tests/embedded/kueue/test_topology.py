"""Topology-aware scheduling: domains, what fits where, gates, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.kueue import domains, names
from pytest_gpucluster.embedded.kueue.domains import Room, Unfit, Wish
from tests.embedded.kueue.stage import GPU, stage, virtually

BLOCK, RACK = "example.com/block", "example.com/rack"
LEVELS = (BLOCK, RACK)
RACKS = {"gpu-0": "r0", "gpu-1": "r0", "gpu-2": "r1"}


def room(**fits):
    """Return what racks `block_rack` have room for."""
    return Room("net", LEVELS, {tuple(name.split("_")): count for name, count in fits.items()}, {})


@pytest.mark.parametrize(
    ("wish", "count", "chosen"),
    [
        (Wish(RACK, required=True), 3, {("a", "y"): 3}),
        (Wish(RACK, required=True), 4, {("a", "x"): 4}),
        (Wish(BLOCK, required=True), 7, {("a", "x"): 4, ("a", "y"): 3}),
        (Wish(BLOCK, required=True), 5, {("b", "x"): 5}),
        (Wish(RACK), 6, {("a", "x"): 4, ("a", "y"): 2}),
        (Wish(), 3, {("a", "y"): 3}),
        (Wish(unconstrained=True), 9, {("a", "x"): 4, ("b", "x"): 5}),
    ],
)
def test_as_few_domains_as_can_be(wish, count, chosen):
    """The domain with least room that takes all; else the roomiest first, inside the wished level."""
    assert domains.choose(room(a_x=4, a_y=3, b_x=5), wish, count) == chosen


@pytest.mark.parametrize(
    ("there", "wish", "count", "said"),
    [
        (room(a_x=4, b_x=3), Wish(RACK, required=True), 5, 'topology "net" allows to fit only 4 out of 5 pod(s)'),
        (room(a_x=4, a_y=3), Wish(BLOCK, required=True), 8, 'topology "net" allows to fit only 7 out of 8 pod(s)'),
        (room(a_x=0), Wish(RACK, required=True), 2, 'topology "net" doesn\'t allow to fit any of 2 pod(s)'),
        (room(a_x=1), Wish(unconstrained=True), 2, 'topology "net" allows to fit only 1 out of 2 pod(s)'),
        (room(), Wish(RACK, required=True), 1, "no topology domains at level: example.com/rack"),
        (
            Room("net", LEVELS, {("a", "x"): 0, ("b", "x"): 1}, {GPU: 1}), Wish(RACK, required=True), 2,
            f'topology "net" allows to fit only 1 out of 2 pod(s). Total nodes: 2; excluded: resource "{GPU}": 1',
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_in_kueues_words(there, wish, count, said):
    """With how many would fit, and of what the other domains have too little."""
    with pytest.raises(Unfit) as caught:
        domains.choose(there, wish, count)
    assert str(caught.value) == said


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.sampled_from(("rack-1", "rack-12", "other", "x"))),
        st.integers(1, 9),
        min_size=1,
    )
)
def test_an_assignment_reads_as_it_was_written(chosen):
    """Whatever prefix and suffix the names of the domains share."""
    chosen = dict(sorted(chosen.items()))
    read = domains.decoded(domains.encoded(LEVELS, chosen))
    assert {tuple(labels[level] for level in LEVELS): count for labels, count in read} == chosen


def test_of_single_nodes_only_their_names_are_kept():
    """As Kueue does where the finest level is the host name."""
    levels = (RACK, names.HOSTNAME)
    told = domains.encoded(levels, {("r0", "gpu-0"): 2, ("r0", "gpu-1"): 2})
    assert told["levels"] == [names.HOSTNAME]
    assert told["slices"][0]["podCounts"] == {"universal": 2}
    assert told["slices"][0]["valuesPerLevel"] == [{"individual": {"prefix": "gpu-", "roots": ["0", "1"]}}]


def place(on, levels=LEVELS, gpus=24, **queue):
    """Label the nodes, and make a queue whose flavor has a topology."""
    for name, rack in RACKS.items():
        label(on, name, **{BLOCK: "b0", RACK: rack, "pool": "gpu"})
        on.store.mutate("Node", None, name, ready, subresource="status")
    spec = {"levels": [{"nodeLabel": level} for level in levels]}
    on.store.create(names.TOPOLOGY, {"metadata": {"name": "net"}, "spec": spec})
    on.flavor("placed", topologyName="net", nodeLabels={"pool": "gpu"})
    on.queue("q", gpus, flavors=("placed",), **queue)


def ready(node):
    """Let a node say that it is Ready."""
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]


def label(on, node, **labels):
    """Give a node labels."""
    on.store.mutate("Node", None, node, lambda obj: obj["metadata"].setdefault("labels", {}).update(labels))


def gang(on, name, count, level=RACK, **more):
    """Create a Job of one GPU per pod that requires one domain of a level."""
    annotations = {names.REQUIRED_TOPOLOGY: level} if level else {}
    job = on.job(name, "q", count, **more)
    return on.store.mutate(
        "Job.batch", "default", job["metadata"]["name"],
        lambda obj: obj["spec"]["template"].setdefault("metadata", {}).update(annotations=annotations),
    )  # fmt: skip


def racks_of(on, job):
    """Return the racks in which pods of a Job are."""
    return {RACKS[pod["spec"]["nodeName"]] for pod in on.pods(job) if pod["spec"].get("nodeName")}


@virtually
async def test_a_gang_that_fits_is_in_one_rack_and_one_that_does_not_waits():
    """Sixteen pods fit into the first rack, seventeen fit only across; when nodes get room it is looked at again."""
    async with stage(nodes=3) as on:
        place(on, gpus=64)
        gang(on, "across", 17)
        await on.until(lambda: on.condition("across", "QuotaReserved"))
        assert "allows to fit only 16 out of 17 pod(s)" in on.condition("across", "QuotaReserved")[2]
        gang(on, "inside", 16)
        await on.until(lambda: on.running("inside") == 16)
        assert racks_of(on, "inside") == {"r0"}
        assert not on.pods("across")
        assert on.suspended("across")
        (part,) = on.workload("inside")["status"]["admission"]["podSetAssignments"]
        assert domains.decoded(part["topologyAssignment"]) == [({BLOCK: "b0", RACK: "r0"}, 16)]
        for pod in on.pods("inside"):
            assert pod["spec"]["nodeSelector"] == {"pool": "gpu", BLOCK: "b0", RACK: "r0"}
            assert not pod["spec"].get("schedulingGates")


@virtually
async def test_room_that_appears_lets_a_gang_in():
    """A node that moves into the other rack makes it large enough."""
    async with stage(nodes=3) as on:
        place(on, gpus=64)
        gang(on, "large", 17)
        await on.until(lambda: on.condition("large", "QuotaReserved"))
        label(on, "gpu-2", **{RACK: "r0"})
        await on.until(lambda: on.running("large") == 17)


@virtually
async def test_what_a_topology_does_not_know_counts():
    """Pods without a topology take their room away, and so do other gangs in the domain."""
    async with stage(nodes=3) as on:
        place(on, gpus=64)
        gang(on, "first", 16)
        await on.until(lambda: on.running("first") == 16)
        gang(on, "second", 9)
        await on.until(lambda: on.condition("second", "QuotaReserved"))
        said = on.condition("second", "QuotaReserved")[2]
        assert (
            'allows to fit only 8 out of 9 pod(s). Total nodes: 2; excluded: resource "nvidia.com/gpu": 1'
            in said
        )


@virtually
async def test_nobody_asks_and_any_domains_will_do():
    """A queue with a topology only places every Job by it; its pods are told so, and are gated too."""
    async with stage(nodes=3) as on:
        place(on)
        gang(on, "anywhere", 20, level="")
        await on.until(lambda: on.running("anywhere") == 20)
        assert racks_of(on, "anywhere") == {"r0", "r1"}
        assert on.pods("anywhere")[0]["metadata"]["annotations"][names.UNCONSTRAINED_TOPOLOGY] == "true"


@virtually
async def test_levels_and_flavors_that_do_not_match_are_told():
    """A level that the topology lacks, and a flavor without one."""
    async with stage(nodes=3) as on:
        place(on)
        gang(on, "levelless", 2, level="example.com/row")
        await on.until(lambda: on.condition("levelless", "QuotaReserved"))
        assert (
            'Flavor "placed" does not contain the requested level'
            in on.condition("levelless", "QuotaReserved")[2]
        )


@virtually
async def test_a_planted_defect_lets_a_gang_scatter():
    """Under kueue.ignores-topology seventeen pods are placed across both racks."""
    async with stage("kueue.ignores-topology", nodes=3) as on:
        place(on, gpus=64)
        gang(on, "across", 17)
        await on.until(lambda: on.running("across") == 17)
        assert racks_of(on, "across") == {"r0", "r1"}


@virtually
async def test_a_topology_that_is_missing_or_in_use():
    """A queue says that it is missing; one in use goes after its flavor."""
    async with stage(nodes=3) as on:
        on.flavor("placed", topologyName="net", nodeLabels={"pool": "gpu"})
        on.queue("q", 8, flavors=("placed",))
        await on.until(
            lambda: on.store.get(names.CLUSTER_QUEUE, None, "q").get("status", {}).get("conditions")
        )
        (active,) = on.store.get(names.CLUSTER_QUEUE, None, "q")["status"]["conditions"]
        assert (active["status"], active["reason"]) == ("False", "TopologyNotFound")
        on.store.create(
            names.TOPOLOGY, {"metadata": {"name": "net"}, "spec": {"levels": [{"nodeLabel": RACK}]}}
        )
        await on.until(
            lambda: (
                on.store.get(names.CLUSTER_QUEUE, None, "q")["status"]["conditions"][0]["status"] == "True"
            )
        )
        on.store.delete(names.TOPOLOGY, None, "net")
        await on.rest()
        assert on.store.peek(names.TOPOLOGY, None, "net") is not None
        on.store.delete(names.LOCAL_QUEUE, "default", "q")
        on.store.delete(names.CLUSTER_QUEUE, None, "q")
        await on.until(lambda: on.store.peek(names.CLUSTER_QUEUE, None, "q") is None)
        on.store.delete(names.FLAVOR, None, "placed")
        await on.until(lambda: on.store.peek(names.TOPOLOGY, None, "net") is None)


@virtually
async def test_what_the_schemas_refuse():
    """Levels twice, the host name not last, a changed topology, and a flavor with a topology and no label."""
    async with stage() as on:
        for levels in ([], [RACK, RACK], [names.HOSTNAME, RACK]):
            spec = {"levels": [{"nodeLabel": level} for level in levels]}
            with pytest.raises(ApiError):
                on.store.create(names.TOPOLOGY, {"metadata": {"name": "t"}, "spec": spec})
        with pytest.raises(ApiError, match="at least one nodeLabel is required"):
            on.flavor("bare", topologyName="net")
        on.flavor("placed", topologyName="net", nodeLabels={"pool": "gpu"})
        with pytest.raises(ApiError, match="immutable"):
            on.store.mutate(
                names.FLAVOR, None, "placed", lambda f: f["spec"].update(nodeLabels={"pool": "cpu"})
            )
