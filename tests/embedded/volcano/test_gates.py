"""The gates of enqueue and the gang rule, on plain numbers."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.embedded.volcano.amounts import show, total
from pytest_gpucluster.embedded.volcano.scheduler import nodes
from pytest_gpucluster.embedded.volcano.scheduler.gates import Overcommit, Proportion, promised_to
from pytest_gpucluster.embedded.volcano.scheduler.model import Gang, NodeRoom, QueueShare, State, Task

GPU = "nvidia.com/gpu"


def gpus(number):
    """Return an amount of GPUs."""
    return {GPU: Fraction(number)}


def gang(name, members, each=1, *, minimum=None, queue="default", phase="", state=State.PENDING, roles=None):
    """Return a gang whose tasks are all in one state."""
    tasks = [
        Task(
            {
                "metadata": {
                    "name": f"{name}-{i}", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z",
                    "annotations": {"volcano.sh/task-spec": "w"},
                },
                "spec": {},
            },
            gpus(each), state, "",
        )
        for i in range(members)
    ]  # fmt: skip
    least = members if minimum is None else minimum
    spec = {
        "minMember": least,
        "queue": queue,
        "minResources": {GPU: str(least * each), "count/pods": str(least), f"requests.{GPU}": "999"},
        "minTaskMember": roles or {},
    }
    meta = {"name": name, "namespace": "n", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return Gang({"metadata": meta, "spec": spec}, tasks, phase=phase)


def queue(name="default", **spec):
    """Return an open queue."""
    meta = {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return QueueShare({"metadata": meta, "spec": {"weight": 1, **spec}, "status": {"state": "Open"}})


@pytest.mark.parametrize(("wanted", "refused"), [(19, []), (20, [GPU])])
def test_overcommit_promises_a_fifth_more_than_there_is(wanted, refused):
    """On 16 GPUs a gang of 19 passes this gate and one of 20 does not."""
    gate = Overcommit(gpus(16), {}, [])
    assert gate.refuses(gang("g", wanted)) == refused


def test_overcommit_counts_what_is_promised_and_used():
    """A gang that was admitted in this session and pods that run leave less for the next."""
    gate = Overcommit(gpus(16), gpus(4), [gang("held", 5, phase="Inqueue")])
    gate.admit(gang("first", 6))
    assert gate.refuses(gang("next", 4)) == []
    assert gate.refuses(gang("next", 5)) == [GPU]


def test_quota_keys_are_not_compared():
    """Keys of minResources that speak of quota do not refuse a gang."""
    assert gang("g", 3).minimum_resources == gpus(3)


@pytest.mark.parametrize(("wanted", "refused"), [(16, []), (17, [GPU])])
def test_proportion_stops_at_the_cluster(wanted, refused):
    """A queue without capability takes no gang above the cluster's total, whatever overcommit allows."""
    gate = Proportion(gpus(16), [queue()], [])
    assert gate.refuses(gang("g", wanted)) == refused


def test_proportion_stops_at_the_capability():
    """A queue's capability is its limit, together with what is already promised in it."""
    gate = Proportion(gpus(16), [queue(capability={GPU: "8"})], [gang("a", 3, phase="Inqueue")])
    assert gate.refuses(gang("g", 5)) == []
    assert gate.refuses(gang("g", 6)) == [GPU]


def test_a_guarantee_of_another_queue_is_left_to_it():
    """What another queue is guaranteed is not to be had; one's own guarantee is."""
    guarded = queue("guarded", guarantee={"resource": {GPU: "4"}})
    gate = Proportion(gpus(16), [queue(), guarded], [])
    assert gate.refuses(gang("g", 13)) == [GPU]
    assert gate.refuses(gang("g", 16, queue="guarded")) == []


def test_a_running_gang_keeps_nothing_promised():
    """What was promised is given once all members are placed."""
    assert promised_to(gang("g", 4, phase="Inqueue")) == gpus(4)
    assert promised_to(gang("g", 4, phase="Running", state=State.RUNNING)) == gpus(0)
    assert promised_to(gang("g", 4, phase="Pending")) == {}


def test_shares_are_by_weight_and_need():
    """A queue that asks for less than its share leaves the rest to the others, by their weights."""
    a, b, c = queue("a", weight=1), queue("b", weight=3), queue("c", weight=1)
    gangs = [gang("ga", 16, queue="a"), gang("gb", 16, queue="b"), gang("gc", 1, queue="c")]
    Proportion(gpus(16), [a, b, c], gangs)
    assert [q.deserved[GPU] for q in (a, b, c)] == [Fraction(15, 4), Fraction(45, 4), 1]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 30)), min_size=1, max_size=5), st.integers(0, 60))
def test_shares_never_exceed_cluster_or_need(wants, there_is):
    """Queues get no more than they ask for, and all that there is goes to those that lack."""
    queues = [queue(str(i), weight=w) for i, (w, _) in enumerate(wants)]
    gangs = [gang(f"g{i}", n, queue=str(i)) for i, (_, n) in enumerate(wants)]
    Proportion(gpus(there_is), queues, gangs)
    given_out = [q.deserved.get(GPU, Fraction(0)) for q in queues]
    assert all(got <= n for got, (_, n) in zip(given_out, wants, strict=True))
    assert sum(given_out) == min(there_is, sum(n for _, n in wants))


@pytest.mark.parametrize(
    ("placed", "minimum", "roles", "ready"),
    [
        (3, 4, {}, False),
        (4, 4, {}, True),
        (4, 4, {"w": 4}, True),
        (4, 4, {"w": 3, "ps": 1}, False),
        (4, 4, {"w": 6, "ps": 1}, True),
    ],
)
def test_a_gang_is_ready_when_all_minimums_are_met(placed, minimum, roles, ready):
    """Placed members must reach the minimum, and each role its own unless their sum is above the gang's."""
    found = gang("g", 5, minimum=minimum, roles=roles)
    for task in found.tasks[:placed]:
        task.state = State.BINDING
    assert found.is_ready() is ready


def test_failed_members_make_a_gang_invalid():
    """A gang with fewer than its minimum of members that have not failed is passed over."""
    found = gang("g", 4)
    assert found.is_valid()
    found.tasks[0].state = State.FAILED
    assert not found.is_valid()


NODE = {"metadata": {"name": "a", "labels": {"zone": "x"}}, "spec": {}}


def room(**spec):
    """Return a node of 8 GPUs."""
    return NodeRoom({**NODE, "spec": spec}, gpus(8))


def task(**spec):
    """Return a task that asks for 4 GPUs."""
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": spec}
    return Task(pod, gpus(4), State.PENDING, "")


TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "wanting", "expected"),
    [
        (room(), task(), []),
        (room(unschedulable=True), task(), ["node(s) were unschedulable"]),
        (room(taints=[TAINT]), task(), ["node(s) had untolerated taint {gpu: only}"]),
        (room(taints=[TAINT]), task(tolerations=[{"key": "gpu", "operator": "Exists"}]), []),
        (room(taints=[TAINT]), task(tolerations=[{"operator": "Exists"}]), []),
        (room(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), task(), []),
        (room(), task(nodeSelector={"zone": "x"}), []),
        (room(), task(nodeSelector={"zone": "y"}), ["node(s) didn't match Pod's node affinity/selector"]),
    ],
)
def test_a_node_says_why_it_takes_no_pod(node, wanting, expected):
    """Cordons, taints and selectors are named as Volcano names them."""
    assert nodes.refusals(wanting, node, node.idle()) == expected


def test_a_full_node_names_the_resource_first():
    """A node that is full and cordoned is called full."""
    node = room(unschedulable=True)
    node.take(gpus(6))
    assert nodes.refusals(task(), node, node.idle()) == [f"Insufficient {GPU}"]


def test_the_refusal_counts_nodes_by_reason():
    """Nodes with the same reason are counted together."""
    text = nodes.no_node_text(["node(s) were unschedulable", "Insufficient cpu", "Insufficient cpu"], 3)
    assert text == "0/3 nodes are unavailable: 1 node(s) were unschedulable, 2 Insufficient cpu."


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("memory", 4 * 2**30, "4Gi"), ("memory", 1000, "1000"), ("cpu", Fraction(1, 2), "500m"), (GPU, 8, "8")],
)
def test_amounts_are_shown_as_the_api_shows_them(name, value, shown):
    """Memory is shown in the largest binary unit that divides it."""
    assert show(name, Fraction(value)) == shown


def test_totals_keep_every_name():
    """A sum has every name of its parts."""
    assert total([gpus(1), {"cpu": Fraction(2)}, gpus(3)]) == {GPU: 4, "cpu": 2}
