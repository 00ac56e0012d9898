"""The default scheduler: order, fit, refusals in Kubernetes' words, and its one defect."""

import pytest

from pytest_gpucluster.embedded.fitting import Misfit, refusal_text
from tests.embedded.support import bound, cluster, end_pod, job, node, pod, run, settle, until

RECORDED = (
    "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: "
    "0/2 nodes are available: 2 No preemption victims found for incoming pod."
)


def events(store, reason):
    """Return the events of a reason."""
    return [e for e in store.list("Event") if e["reason"] == reason]


def test_pods_are_bound_and_spread():
    """Equal pods go to the emptier node, each with the recorded condition and event."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            for name in ("n0", "n1"):
                store.create("Node", node(name))
            for n in range(4):
                store.create("Pod", pod(f"p{n}", 2))
            await until(runtime, lambda: len(bound(store)) == 4)
            assert sorted(bound(store).values()) == ["n0", "n0", "n1", "n1"]
            event = next(e for e in events(store, "Scheduled") if e["involvedObject"]["name"] == "p0")
            assert event["message"] == f"Successfully assigned default/p0 to {bound(store)['p0']}"
            assert event["reportingComponent"] == "default-scheduler"
            assert (event["source"], event["action"], event["firstTimestamp"]) == ({}, "Binding", None)
            assert "." in event["eventTime"]
            assert "count" not in event

    run(scene())


def test_pod_that_does_not_fit_is_told_why_and_bound_when_room_appears():
    """A pod without room gets the recorded texts once, and its node as soon as another pod ends."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            for name in ("n0", "n1"):
                store.create("Node", node(name))
            for n in range(3):
                store.create("Pod", pod(f"p{n}", 8))
            await until(runtime, lambda: events(store, "FailedScheduling"))
            await settle()
            condition = store.get("Pod", "default", "p2")["status"]["conditions"][0]
            assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
            assert (condition["reason"], condition["message"]) == ("Unschedulable", RECORDED)
            (event,) = events(store, "FailedScheduling")
            assert (event["type"], event["message"], event["action"]) == ("Warning", RECORDED, "Scheduling")
            end_pod(store, "p0", "Succeeded")
            await until(runtime, lambda: "p2" in bound(store))
            conditions = store.get("Pod", "default", "p2")["status"]["conditions"]
            assert [(c["type"], c["status"]) for c in conditions] == [("PodScheduled", "True")]

    run(scene())


def test_capacity_that_is_added_is_used_at_once():
    """A raised allocatable of a node gives room to a waiting pod: this is how slots are made."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 0))
            store.create("Pod", pod("p", 1))
            await until(runtime, lambda: events(store, "FailedScheduling"))

            def add(obj):
                obj["status"]["allocatable"]["nvidia.com/gpu"] = "1"

            store.mutate("Node", None, "n0", add, subresource="status")
            await until(runtime, lambda: bound(store) == {"p": "n0"})

    run(scene())


def test_first_come_first_served():
    """Of pods that compete for the last room the one that came first gets it."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            for n in range(3):
                store.create("Pod", pod(f"p{2 - n}", 8))
            await settle()
            store.create("Node", node("n0"))
            await until(runtime, lambda: bound(store))
            await settle()
            assert bound(store) == {"p2": "n0"}

    run(scene())


@pytest.mark.parametrize(
    ("spec", "where", "text"),
    [
        ({"unschedulable": True}, {}, "1 node(s) were unschedulable"),
        (
            {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            {},
            "1 node(s) had untolerated taint(s)",
        ),
        ({}, {"nodeSelector": {"zone": "b"}}, "1 node(s) didn't match Pod's node affinity/selector"),
    ],
)
def test_node_that_may_not_be_used_is_refused(spec, where, text):
    """Cordoned, tainted and unselected nodes are refused, and preemption is said not to help."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Node", node("n0", labels={"zone": "a"}, **spec))
            store.create("Pod", pod("p", **where))
            await until(runtime, lambda: events(store, "FailedScheduling"))
            message = events(store, "FailedScheduling")[0]["message"]
            assert message.startswith(f"0/1 nodes are available: {text}. ")
            assert message.endswith("1 Preemption is not helpful for scheduling.")

    run(scene())


def test_toleration_and_affinity_let_a_pod_in():
    """A pod that tolerates the taint and asks for the node's zone is bound."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
            store.create("Node", node("n0", labels={"zone": "a"}, taints=taints))
            term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            toleration = {"key": "k", "operator": "Equal", "value": "v"}
            store.create("Pod", pod("p", tolerations=[toleration], affinity={"nodeAffinity": required}))
            await until(runtime, lambda: bound(store) == {"p": "n0"})

    run(scene())


def test_pods_of_other_schedulers_and_gated_pods_are_left_alone():
    """A pod that names another scheduler, or has a scheduling gate, is not touched."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Node", node("n0"))
            store.create("Pod", pod("other", schedulerName="volcano"))
            store.create("Pod", pod("gated", schedulingGates=[{"name": "g"}]))
            await settle()
            assert bound(store) == {}
            said = {p["metadata"]["name"]: p["status"].get("conditions", []) for p in store.list("Pod")}
            # That a pod is gated the API server writes, when the pod is made.
            assert {name: [each["reason"] for each in found] for name, found in said.items()} == {
                "other": [],
                "gated": ["SchedulingGated"],
            }

            def ungate(obj):
                del obj["spec"]["schedulingGates"]

            store.mutate("Pod", "default", "gated", ungate)
            await until(runtime, lambda: bound(store) == {"gated": "n0"})

    run(scene())


def test_gang_is_bound_partially_without_the_defect():
    """Of a Job that is too big, as many pods as fit are bound: the scheduler knows no gangs."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 4))
            store.create("Job.batch", job("j", 5, 1))
            await until(runtime, lambda: len(bound(store)) == 4)
            await settle()
            assert len(bound(store)) == 4

    run(scene())


def test_gang_aware_defect_holds_the_pods_of_one_owner_together():
    """Under default-scheduler.gang-aware none is bound until all of an owner's pods fit."""

    async def scene():
        async with cluster(defects=["default-scheduler.gang-aware"]) as runtime:
            store = runtime.store
            store.create("Node", node("n0", 4))
            store.create("Job.batch", job("j", 5, 1))
            await until(runtime, lambda: len(events(store, "FailedScheduling")) == 5)
            await settle()
            assert bound(store) == {}
            store.create("Node", node("n1", 4))
            await until(runtime, lambda: len(bound(store)) == 5)

    run(scene())


def test_refusal_text_counts_reasons_and_what_preemption_could_do():
    """Reasons are counted over nodes and sorted; nodes that preemption cannot help are counted apart."""
    text = refusal_text(
        [
            Misfit(("Insufficient cpu", "Insufficient nvidia.com/gpu"), preemptible=True),
            Misfit(("Insufficient nvidia.com/gpu",), preemptible=True),
            Misfit(("node(s) had untolerated taint(s)",), preemptible=False),
        ]
    )
    assert text == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
        "2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/3 nodes are available: "
        "1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod."
    )
    assert refusal_text([]) == "no nodes available to schedule pods"


def test_pods_that_demand_it_share_no_node():
    """Required anti-affinity by host name, in both directions, within a namespace."""
    term = {"labelSelector": {"matchLabels": {"job": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def member(name, *, demands):
        made = pod(name, 1)
        made["metadata"]["labels"] = {"job": "a"}
        if demands:
            made["spec"]["affinity"] = apart
        return made

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            for name in ("n0", "n1"):
                store.create("Node", node(name))
            store.create("Pod", pod("other", 1))
            store.create("Pod", member("a0", demands=True))
            await until(runtime, lambda: len(bound(store)) == 2)
            store.create("Pod", member("a1", demands=False))
            await until(runtime, lambda: len(bound(store)) == 3)
            nodes = bound(store)
            assert nodes["a0"] != nodes["a1"]
            store.create("Pod", member("a2", demands=True))
            await until(runtime, lambda: events(store, "FailedScheduling"))
            (refused,) = events(store, "FailedScheduling")
            assert refused["message"].startswith(
                "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
            )

    run(scene())


@pytest.mark.parametrize(("defects", "where"), [((), "cpu"), (("default-scheduler.fills-gpu-nodes",), "gpu")])
def test_a_pod_without_gpus_is_placed_where_its_affinity_says(defects, where):
    """default-scheduler.fills-gpu-nodes: it goes to a node with GPUs all the same; one that asks for them as ever."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["cpu"]}]}
    wanted = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }

    async def scene():
        async with cluster(defects=list(defects)) as runtime:
            store = runtime.store
            store.create("Node", node("gpu"))
            plain = node("cpu")
            del plain["status"]["capacity"]["nvidia.com/gpu"]
            store.create("Node", plain)
            store.create("Pod", pod("store", affinity=wanted))
            store.create("Pod", pod("worker", 1))
            await until(runtime, lambda: len(bound(store)) == 2)
            assert bound(store) == {"store": where, "worker": "gpu"}

    run(scene())
