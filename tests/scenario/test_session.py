"""Sessions against an embedded control plane: evidence, economy, cleanup, trouble, sweeping."""

import datetime as dt
import socket
import time
import types

import pytest

from pytest_gpucluster import evidence
from pytest_gpucluster.evidence.objects import network_places
from pytest_gpucluster.kube import connection, errors, kinds, objects
from pytest_gpucluster.scenario import Needs, RunStore, Scenario, Session, evidence_header, sweep
from pytest_gpucluster.workload import GangSpec, Role
from tests.kube import fake_api

from . import conftest, kubelet

GANG = ("Pod", "Job.batch.volcano.sh", "PodGroup", "Queue", "Event", "Service", "ConfigMap", "Node")


def bound(live, handle):
    """Return how many pods of a handle have a node."""
    return sum(1 for pod in live.pods_of(handle) if pod["spec"].get("nodeName"))


def gang(stage, members, resource, size, name=None):
    """Submit a gang of one role."""
    spec = GangSpec(
        name or stage.name,
        roles=(Role("worker", members, ("sleep", "1")),),
        resources={resource: size},
        image="python",
    )
    return stage.submit(stage.dialect.write(spec))


def play_slots(stage):
    """Run a gang on slots and delete it."""
    pool = stage.slots(nodes=2, per_node=8)
    handle = gang(stage, 4, pool.resource, 4)
    assert stage.wait("all bound", lambda live: bound(live, handle) == 4, budget="bind")
    stage.window("bound")
    stage.delete(handle, note="room-made")


slots_scenario = Scenario("slots", "A gang on slots.", play_slots, Needs(slot_nodes=2, slots_per_node=8))


def play_fits(stage):
    """Run a gang and leave it to the cleanup."""
    handle = gang(stage, 3, "nvidia.com/gpu", 4)
    stage.wait("all bound", lambda live: bound(live, handle) == 3, budget="bind")


fits = Scenario("fits", "A gang that fits.", play_fits, kinds=GANG)


def namespaces(cluster):
    """Return the namespaces of ours."""
    opened = connection.Connection.at(cluster.url)
    listed = objects.Objects(opened).list(objects.NAMESPACE, labels="gpucluster.dev/run")
    opened.close()
    return [n["metadata"]["name"] for n in listed]


def slots_on(cluster):
    """Return the slot resources on all nodes."""
    opened = connection.Connection.at(cluster.url)
    nodes = objects.Objects(opened).list(objects.NODE)
    opened.close()
    return [
        r for n in nodes for part in ("capacity", "allocatable") for r in n["status"][part] if "slots." in r
    ]


def test_a_topology_that_is_not_declared_is_told_as_such(profile):
    """Evidence of such a profile has the key, so that judges tell it from evidence that does not say."""
    cluster = types.SimpleNamespace(name="c", features=frozenset())
    for topology in (profile.topology, None):
        declared = profile.model_copy(update={"topology": topology})
        given = evidence_header.header("s", (declared, cluster, "n"), {}, {}, None)["given"]
        assert network_places.undeclared(given) is (topology is None)
        assert (network_places.levels(given) is None) is (topology is None)


def test_scenario_runs_once_is_frozen_and_leaves_nothing(cluster, profile, tmp_path):
    """A scenario's evidence tells its whole story, is the same for the next who asks, and nothing stays behind."""
    store = RunStore(tmp_path / "run-a1")
    with Session(cluster, profile, store) as session:
        found = session.evidence(slots_scenario)
        again = session.evidence(slots_scenario)
        space = session.namespace
        assert namespaces(cluster) == [space] == ["gpucluster-run-a1-main"]
    assert session.left_overs == []
    assert namespaces(cluster) == []
    assert slots_on(cluster) == []
    assert "problem" not in found.header
    assert [line.key for line in found] == [line.key for line in again]
    assert [n.data["note"] for n in found.notes()] == [
        "submitted", "window-begin", "window-end", "proven", "room-made", "end", "proven",
    ]  # fmt: skip
    assert {"Pod", "Job.batch.volcano.sh", "PodGroup", "Event", "Node", "Queue"} <= found.kinds
    assert {line.name for line in found.of_kind("Node")} == {"gpu-0", "gpu-1"}
    for uid in found.uids("Pod"):
        assert found.history(uid)[-1].type == "DELETED"
    begin, end = found.notes("window-begin")[0].t, found.notes("window-end")[0].t
    assert found.gaps("Pod", begin, end) == ()
    assert found.gaps("Pod", end, found.end) == ()
    assert found.end == pytest.approx(found.notes("end")[0].t, abs=1e-5)
    assert found.given["roles"]["subject"][0]["name"] == "slots"
    assert found.given["slots"]["total"] == 16
    assert found.header["source"]["namespace"] == space
    times = [line.t for line in found]
    assert times == sorted(times)
    assert len(evidence.read(store.session_log("main")).lines) >= len(found.lines)


def test_requests_are_few_and_counted(cluster, profile, tmp_path):
    """Connecting, watching eight kinds, and cleaning up cost 21 requests; a scenario its own, and a proof."""
    with Session(cluster, profile, RunStore(tmp_path / "run-b1")) as session:
        session.evidence(fits)
        session.evidence(Scenario("fits-again", "The same.", play_fits, kinds=GANG))
    counted = session.requests["requests"]
    assert counted.pop("create Job.batch.volcano.sh") == 2
    assert counted.pop("delete Job.batch.volcano.sh") == 2
    assert (
        counted.pop("create Namespace")
        == counted.pop("delete Namespace")
        == counted.pop("watch Namespace")
        == 1
    )
    assert counted.pop("create SelfSubjectRulesReview") == 1
    assert counted.pop("get Namespace") == 1, "the uid of the cluster"
    assert counted.pop("create Pod") == counted.pop("patch Pod") == 1, (
        "the marker is made once, and changed after that"
    )
    assert counted == {f"{verb} {kind}": 1 for verb in ("list", "watch") for kind in GANG}
    assert session.requests["retries"] == {}


def test_worker_that_only_loads_asks_nothing(cluster, profile, tmp_path):
    """A session whose scenarios have all run makes no request and no namespace."""
    store = RunStore(tmp_path / "run-c1")
    with Session(cluster, profile, store, worker="gw0") as session:
        session.evidence(fits)
    with Session(cluster, profile, store, worker="gw1") as other:
        assert other.evidence(fits).header["source"]["worker"] == "gw0"
    assert other.requests == {"total": 0}
    assert other.namespace is None


def test_what_cannot_be_removed_is_named_and_the_namespace_takes_it_later(cluster, profile, tmp_path):
    """A pod that does not end is a left-over in the evidence; once its namespace is gone it is none."""
    cluster.kubelet.stubborn.add("fits-worker-0")
    profile = conftest.make_profile(budgets={**conftest.BUDGETS, "delete": 0.5})
    try:
        with Session(cluster, profile, RunStore(tmp_path / "run-d1")) as session:
            found = session.evidence(fits)
            assert [str(item) for item in session.left_overs] == [
                f"Pod/fits-worker-0 in {session.namespace}: deleting"
            ]
            assert found.notes("left-over")[0].data["name"] == "fits-worker-0"
            cluster.kubelet.stubborn.clear()
            pod = cluster.kubelet.api.get(objects.POD, "fits-worker-0", session.namespace)
            cluster.kubelet.line("MODIFIED", "Pod", pod, 0.0)
    finally:
        cluster.kubelet.stubborn.clear()
    assert session.left_overs == []
    assert namespaces(cluster) == []


def test_namespace_that_stays_is_named_with_the_reason(cluster, profile, tmp_path):
    """A namespace that is not gone in time is a left-over; `sweep` of that run finds it again."""
    cluster.kubelet.stubborn.add("fits-worker-1")
    profile = conftest.make_profile(budgets={**conftest.BUDGETS, "delete": 0.5})
    with Session(cluster, profile, RunStore(tmp_path / "run-e1")) as session:
        session.evidence(fits)
        pod = cluster.kubelet.api.get(objects.POD, "fits-worker-1", session.namespace)
    left = [item for item in session.left_overs if item.kind == "Namespace"]
    assert len(left) == 1
    assert "still there after 0.5 s" in left[0].why
    with pytest.raises(errors.CleanupFailed, match="remove with: gpucluster cleanup --run run-e1"):
        session.check_clean()
    opened = connection.Connection.at(cluster.url)
    swept = sweep(opened, run_id="run-e1", seconds=0.3)
    opened.close()
    assert [str(item) for item in swept.failed] == [
        "Namespace/gpucluster-run-e1-main: still there after 0.3 s"
    ]
    assert swept.removed == ()
    cluster.kubelet.stubborn.clear()
    cluster.kubelet.line("MODIFIED", "Pod", pod, 0.0)


def test_scenario_that_fails_by_itself_is_inconclusive_and_cleaned_up(cluster, profile, tmp_path):
    """A fault of the scenario leaves evidence that says so, and nothing in the cluster."""

    def broken(stage):
        gang(stage, 2, "nvidia.com/gpu", 1)
        raise TypeError("oops")

    with Session(cluster, profile, RunStore(tmp_path / "run-f1")) as session:
        found = session.evidence(Scenario("broken", "", broken, kinds=("Pod", "PodGroup")))
    problem = found.header["problem"]
    assert problem["verdict"] == "inconclusive"
    assert problem["text"] == "the scenario itself failed: TypeError: oops"
    assert "broken" in problem["trace"]
    assert session.left_overs == []


def test_kind_that_is_not_served_is_an_answer_without_coverage(cluster, profile, tmp_path):
    """A kind that the API lacks is recorded as 404 and leaves a gap, and the scenario goes on."""

    def ask(stage):
        assert not stage.served("kueue.x-k8s.io/v1beta2", "LocalQueue")
        assert stage.served("v1", "Pod")
        assert not stage.served("x.io/v1", "Widget")

    with Session(cluster, profile, RunStore(tmp_path / "run-g1")) as session:
        found = session.evidence(Scenario("ask", "", ask, kinds=("Pod", "ClusterQueue")))
    answers = {line.data["case"]: line.data["code"] for line in found.responses()}
    assert answers == {
        "api:ClusterQueue": 404, "api:LocalQueue": 404, "api:Pod": 200, "api:Widget": 404,
    }  # fmt: skip
    assert found.gaps("ClusterQueue", 0.0, 1.0) == ((0.0, 1.0),)
    assert "problem" not in found.header


def test_cluster_that_does_not_answer_is_environment_for_every_scenario(profile, tmp_path):
    """Without an API server each scenario's evidence says so in one line, and the second asks nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    cluster = types.SimpleNamespace(
        name="gone", kubeconfig=kubelet.kubeconfig(tmp_path / "kc", url), context="e", features=frozenset()
    )
    with Session(cluster, profile, RunStore(tmp_path / "run-h1")) as session:
        first = session.evidence(fits).header["problem"]
        asked = session.requests["total"]
        second = session.evidence(slots_scenario).header["problem"]
    assert (
        first == second == {"verdict": "environment", "text": f"cannot connect to {url}: connection refused"}
    )
    assert session.requests["total"] == asked
    assert session.left_overs == []


def test_forbidden_namespace_says_what_to_grant(profile, tmp_path):
    """Who may not make namespaces is told so in one line, with both ways out."""
    with fake_api.serving() as fake:
        fake.fail(fake_api.anything, 403, times=99, message="namespaces is forbidden")
        cluster = types.SimpleNamespace(
            name="c",
            kubeconfig=kubelet.kubeconfig(tmp_path / "kc", fake.url),
            context="e",
            features=frozenset(),
        )
        with Session(cluster, profile, RunStore(tmp_path / "run-l1")) as session:
            problem = session.evidence(fits).header["problem"]
    assert problem == {
        "verdict": "environment",
        "text": "create Namespace/gpucluster-run-l1-main: 403 Forbidden: namespaces is forbidden "
        "(grant create on namespaces, or name one in the profile)",
    }
    assert session.requests["total"] == 2


def test_interrupt_cleans_up_once_and_leaves_no_evidence(cluster, profile, tmp_path):
    """Ctrl-C in a scenario removes what it made, is passed on, and the scenario counts as not run."""

    def interrupted(stage):
        stage.slots(nodes=1, per_node=2)
        gang(stage, 2, "nvidia.com/gpu", 1)
        raise KeyboardInterrupt

    said = []
    store = RunStore(tmp_path / "run-i1")
    with pytest.raises(KeyboardInterrupt), Session(cluster, profile, store, say=said.append) as session:
        session.evidence(Scenario("interrupted", "", interrupted))
    assert not store.has("interrupted")
    assert said == []
    assert namespaces(cluster) == []
    assert slots_on(cluster) == []


def test_second_interrupt_leaves_with_the_command_that_cleans_up(cluster, profile, tmp_path):
    """Ctrl-C during the cleanup leaves at once and names `gpucluster cleanup`, which removes what was left."""
    said = []
    store = RunStore(tmp_path / "run-j1")
    session = Session(cluster, profile, store, say=said.append)

    def interrupted(stage):
        stage.slots(nodes=1, per_node=2)

        def again():
            raise KeyboardInterrupt

        from pytest_gpucluster.scenario import cleanup

        stage.stack.push(cleanup.Undo(errors.LeftOver("x", "", "x", ""), again))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), session:
        session.evidence(Scenario("twice", "", interrupted))
    assert said == ["cleanup was interrupted; remove what is left with: gpucluster cleanup --run run-j1"]
    assert namespaces(cluster) == ["gpucluster-run-j1-main"]
    opened = connection.Connection.at(cluster.url)
    swept = sweep(opened, run_id="run-j1")
    opened.close()
    assert swept.removed == (
        "Namespace/gpucluster-run-j1-main (of run run-j1)",
        "slots.gpucluster.dev/twice.run-j1 on node gpu-0",
    )
    assert swept.failed == ()
    assert namespaces(cluster) == []
    assert slots_on(cluster) == []


def test_sweep_takes_what_a_dead_run_made_in_a_namespace_that_is_lent(cluster):
    """The namespace stays, and so do what others made in it and what goes with its owner."""
    opened = connection.Connection.at(cluster.url)
    api = objects.Objects(opened)
    for name, run in (("ours", "run-lent1"), ("theirs", "run-lent2"), ("foreign", None)):
        labels = {"gpucluster.dev/run": run} if run else {}
        meta = {"name": name, "namespace": "default", "labels": labels}
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        api.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
    swept = sweep(opened, run_id="run-lent1", namespace="default")
    assert swept.removed == (
        "ConfigMap/ours in default (of run run-lent1)",
        "Secret/ours in default (of run run-lent1)",
    )
    assert swept.failed == ()
    left = {each["metadata"]["name"] for each in api.list(objects.table_row("ConfigMap"), "default")}
    assert {"theirs", "foreign"} <= left
    assert "ours" not in left
    assert sweep(opened, run_id="run-lent1").removed == ()
    opened.close()


def test_sweep_takes_what_expired_and_keeps_the_rest(cluster, profile, tmp_path):
    """Without a run named, only runs whose time has passed lose their namespace and slots."""
    opened = connection.Connection.at(cluster.url)
    api = objects.Objects(opened)
    for run, expires in (("old", "2026-01-01T00:00:00Z"), ("new", "2099-01-01T00:00:00Z")):
        meta = {"name": f"ns-{run}", "labels": {"gpucluster.dev/run": run}}
        meta["annotations"] = {"gpucluster.dev/expires": expires}
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        capacity = {f"slots.gpucluster.dev/s.{run}": "4"}
        api.patch(objects.NODE, "gpu-2", {"status": {"capacity": capacity}}, subresource="status")
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "spec": {"weight": 1}}
    meta = {"name": "q-old", "labels": {"gpucluster.dev/run": "old"}}
    meta["annotations"] = {"gpucluster.dev/expires": "2026-01-01T00:00:00Z"}
    api.create({**queue, "metadata": meta})
    swept = sweep(opened)
    assert swept.removed == (
        "Namespace/ns-old (expired 2026-01-01T00:00:00Z)",
        "Queue/q-old (expired 2026-01-01T00:00:00Z)",
        "slots.gpucluster.dev/s.old on node gpu-2",
    )
    assert swept.kept == (
        "Namespace/ns-new of run new: expires 2099-01-01T00:00:00Z",
        "slots.gpucluster.dev/s.new on gpu-2",
    )
    assert swept.failed == ()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=5)
    swept = sweep(opened, older_than=dt.timedelta(hours=4), now=later)
    assert [line.partition(" ")[0] for line in swept.removed] == [
        "Namespace/ns-new",
        "slots.gpucluster.dev/s.new",
    ]
    opened.close()


def test_named_namespace_stays_and_loses_what_is_ours(cluster, tmp_path):
    """An operator's own namespace is used, not removed, and nothing of ours stays in it."""
    opened = connection.Connection.at(cluster.url)
    api = objects.Objects(opened)
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lent"}})
    profile = conftest.make_profile(namespace="lent")

    def keep(stage):
        stage.submit({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})

    with Session(cluster, profile, RunStore(tmp_path / "run-k1")) as session:
        session.evidence(Scenario("lent", "", keep, kinds=("ConfigMap",)))
        session.evidence(fits)
    assert session.left_overs == []
    assert session.namespace == "lent"
    assert api.get(objects.NAMESPACE, "lent")["status"]["phase"] == "Active"
    left = [c["metadata"]["name"] for c in api.list(kinds.by_key("ConfigMap"), "lent")]
    assert "mine" not in left
    opened.close()


def test_a_namespace_that_cannot_go_is_left_over_with_what_holds_it(cluster, tmp_path):
    """A finalizer that nobody removes: bounded by the budget, named, and the evidence is there all the same."""
    profile = conftest.make_profile(budgets={**conftest.BUDGETS, "delete": 0.5})
    held = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/stuck"]},
    }
    scenario = Scenario(
        "held", "Leaves what cannot go.", lambda stage: stage.submit(held) and None, kinds=("ConfigMap",)
    )
    began = time.monotonic()
    with Session(cluster, profile, RunStore(tmp_path / "run-held1")) as session:
        assert "problem" not in session.evidence(scenario).header
    assert time.monotonic() - began < 8
    (left,) = session.left_overs
    assert (left.kind, left.name) == ("Namespace", "gpucluster-run-held1-main")
    assert left.why == (
        "still there after 0.5 s; Some resources are remaining: configmaps. has 1 resource instances; "
        "Some content in the namespace has finalizers remaining: example.com/stuck in 1 resource instances"
    )
    opened = connection.Connection.at(cluster.url)
    api = objects.Objects(opened)
    free = {"metadata": {"finalizers": None}}
    api.patch(objects.table_row("ConfigMap"), "held", free, left.name)
    assert sweep(opened, run_id="run-held1").failed == ()
    opened.close()
    assert left.name not in namespaces(cluster)


def test_a_namespace_with_a_finalizer_of_its_own_is_told(cluster, tmp_path):
    """Somebody else's controller put it there."""
    profile = conftest.make_profile(budgets={**conftest.BUDGETS, "delete": 0.5})
    opened = connection.Connection.at(cluster.url)
    api = objects.Objects(opened)

    def play(stage):
        api.patch(objects.NAMESPACE, stage.namespace, {"metadata": {"finalizers": ["example.com/own"]}})

    with Session(cluster, profile, RunStore(tmp_path / "run-own1")) as session:
        session.evidence(Scenario("own", "Is held.", play, kinds=("ConfigMap",)))
    (left,) = session.left_overs
    assert left.why == "still there after 0.5 s; held by its own finalizer example.com/own"
    api.patch(objects.NAMESPACE, left.name, {"metadata": {"finalizers": None}})
    opened.close()
