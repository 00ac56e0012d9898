"""Quota of Kueue of our own: made and waited for, stopped, removed in the order that Kueue wants."""

import types

import pytest

from pytest_gpucluster.kube import errors
from pytest_gpucluster.scenario import Needs, RunStore, Scenario, Session, kueue_queues, permissions

from .conftest import make_profile

NAME = "gpucluster-play-run-1"


def _see_active(theatre, kind, name, status):
    conditions = [{"type": "Active", "status": status, "reason": "Ready"}]
    space = "ns" if kind == "LocalQueue" else ""
    theatre.see("MODIFIED", kind, name, namespace=space, status={"conditions": conditions})


def _serve(theatre, after, status="True"):
    def act():
        _see_active(theatre, "ClusterQueue", NAME, status)
        _see_active(theatre, "LocalQueue", "play-left", "False")
        _see_active(theatre, "LocalQueue", "play-left", status)

    theatre.clock.at(theatre.clock.monotonic() + after, act)


def test_quota_is_made_in_order_and_waited_for(theatre):
    """Flavor, ClusterQueue and LocalQueue, named after scenario and run; ready once all say Active=True."""
    _serve(theatre, 1.0)
    quota = theatre.stage.cluster_queue({"example.com/x": 4}, teams=("left",))
    assert (quota.ok, quota.name, quota.queue, theatre.stage.now()) == (True, NAME, "play-left", 1.0)
    assert [asked[1] for asked in theatre.api.asked] == ["ResourceFlavor", "ClusterQueue", "LocalQueue"]
    flavor, queue, local = theatre.api.created
    assert flavor["spec"] == {}
    assert queue["spec"]["namespaceSelector"] == {}
    (group,) = queue["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["cpu", "memory", "example.com/x"]
    assert group["flavors"][0]["name"] == NAME
    assert group["flavors"][0]["resources"][2] == {"name": "example.com/x", "nominalQuota": "4"}
    assert "cohortName" not in queue["spec"]
    assert (local["metadata"]["namespace"], local["spec"]) == ("ns", {"clusterQueue": NAME})
    assert {one["metadata"]["labels"]["gpucluster.dev/run"] for one in theatre.api.created} == {"run-1"}


def test_a_condition_that_is_there_and_false_is_not_enough(theatre):
    """Active=False, for example because the flavor is missing, ends in a wait that expired, which judges see."""
    _serve(theatre, 1.0, "False")
    quota = theatre.stage.cluster_queue({"example.com/x": 4}, teams=("left",), cohort="one")
    assert not quota.ok
    assert theatre.notes()[-1]["what"] == f"ClusterQueue {NAME} is Active"
    assert theatre.api.created[1]["spec"]["cohortName"] == "one"
    assert not kueue_queues.is_active(None)


def test_what_is_refused_is_not_waited_for(theatre):
    """Where the API does not serve Kueue the answer is recorded, and nothing is waited for."""
    theatre.api.answer = errors.ApiError(404, "NotFound", "not served")
    assert not theatre.stage.cluster_queue({"example.com/x": 4}).ok
    assert theatre.stage.now() == 0.0
    assert {note["code"] for note in theatre.notes()} == {404}


def test_a_queue_is_stopped_with_a_note_before_the_request(theatre, monkeypatch):
    """Nothing that follows from it can be seen before the note; a refusal is an answer."""
    _serve(theatre, 0.5)
    quota = theatre.stage.cluster_queue({"example.com/x": 4}, teams=("left",))
    assert theatre.stage.stop_queue(quota, "HoldAndDrain")
    assert theatre.api.asked[-1] == ("patch", "ClusterQueue", NAME)
    note = theatre.notes()[-1]
    assert (note["note"], note["action"], note["name"]) == ("commanded", "HoldAndDrain", NAME)

    def refuse(*_args, **_more):
        raise errors.ApiError(403, "Forbidden", "clusterqueues is forbidden")

    monkeypatch.setattr(theatre.api, "patch", refuse)
    assert not theatre.stage.stop_queue(quota, "None")


def test_the_queue_goes_before_its_flavor(theatre):
    """Finalizers would hold the reverse order; the LocalQueue goes with our namespace, without a request."""
    _serve(theatre, 0.5)
    theatre.stage.cluster_queue({"example.com/x": 4}, teams=("left",))
    for kind in ("ClusterQueue", "ResourceFlavor"):
        theatre.later(0.5, "DELETED", kind, NAME, namespace="")
    theatre.later(0.4, "MODIFIED", "ResourceFlavor", NAME, namespace="")
    theatre.stage.stack.run(5.0)
    assert [asked for asked in theatre.api.asked if asked[0] == "delete"] == [
        ("delete", "ClusterQueue", NAME),
        ("delete", "ResourceFlavor", NAME),
    ]


NEEDS = Needs(
    section="kueue",
    gang=False,
    permissions=("create,delete clusterqueues.kueue.x-k8s.io", "create localqueues.kueue.x-k8s.io"),
)
ABOUT = Scenario("about", "About Kueue.", lambda _: None, NEEDS, kinds=("Workload",))


def test_where_kueue_is_not_declared_nothing_is_asked_for():
    """A scenario about Kueue takes no permission from an operator who does not declare `kueue`."""
    assert permissions.of_scenario(ABOUT, make_profile(), namespace=None) == set()
    declared = make_profile(kueue=types.SimpleNamespace())
    found = {str(one) for one in permissions.of_scenario(ABOUT, declared, namespace=None)}
    assert "list workloads.kueue.x-k8s.io" in found
    assert "delete localqueues.kueue.x-k8s.io" not in found
    lent = {str(one) for one in permissions.of_scenario(ABOUT, declared, namespace="lent")}
    assert "delete localqueues.kueue.x-k8s.io" in lent


@pytest.mark.parametrize("declared", [None, {}])
def test_a_scenario_about_kueue_applies_only_where_it_is_declared(cluster, tmp_path, declared):
    """Without `kueue` in the profile its rows do not apply; with it, and without Kueue, the missing API is recorded."""
    profile = (
        make_profile() if declared is None else make_profile(kueue=types.SimpleNamespace(model_dump=dict))
    )
    with Session(cluster, profile, RunStore(tmp_path / "run")) as session:
        evidence = session.evidence(ABOUT)
    if declared is None:
        assert evidence.header["problem"]["verdict"] == "not_applicable"
        assert "does not declare `kueue`" in evidence.header["problem"]["text"]
    else:
        answers = [(line.data["case"], line.data["code"]) for line in evidence.responses()]
        assert answers == [("api:Workload", 404)]
