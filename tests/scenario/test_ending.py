"""The proof of the end: kinds looked through, pods gone, and what cleanup does not know of is found."""

import pytest

from pytest_gpucluster.kube import connection, errors, objects
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import Needs, RunStore, Scenario, Session

from . import conftest
from .test_session import fits

QUEUES = ("create,delete queues.scheduling.volcano.sh", "create,delete priorityclasses.scheduling.k8s.io")


def forgetful(cluster, run, *, label):
    """Return a scenario that makes a queue of which its cleanup never hears, under the name of a scenario."""

    def play(stage):
        labels = {names.LABEL_RUN: run, names.LABEL_SCENARIO: label}
        opened = connection.Connection.at(cluster.url)
        api = objects.Objects(opened)
        api.create(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": f"forgotten-{run}", "labels": labels},
                "spec": {"weight": 1},
            }
        )
        opened.close()

    return Scenario("forgetful", "", play, Needs(permissions=QUEUES, gang=False), kinds=("Pod",))


@pytest.fixture
def queue_removed(cluster):
    """Remove queues that a test forgot on purpose."""
    yield
    opened = connection.Connection.at(cluster.url)
    api = objects.Objects(opened)
    for queue in api.list(objects.table_row("Queue"), labels=names.LABEL_RUN):
        api.delete(objects.table_row("Queue"), queue["metadata"]["name"])
    opened.close()


def test_pods_are_counted_and_their_namespace_was_seen_to_go(cluster, profile, tmp_path):
    """Three members were made and are gone; no kind outside of namespaces could have been made, so none is listed."""
    with Session(cluster, profile, RunStore(tmp_path / "run-p1")) as session:
        session.evidence(fits)
    assert session.left_overs == []
    pods, namespace = session.proof
    assert pods.endswith(" pods made in gpucluster-run-p1-main, all gone")
    assert int(pods.split()[1]) >= 3
    assert namespace == "Namespace: gpucluster-run-p1-main was seen to go, with all that was in it"


def test_a_session_that_did_nothing_proves_nothing(cluster, profile, tmp_path):
    """No scenario ran, so that nothing was made and nobody is asked."""
    with Session(cluster, profile, RunStore(tmp_path / "run-p2")) as session:
        pass
    assert session.proof == ()
    assert session.requests["total"] == 0


def test_what_cleanup_does_not_know_of_is_found(cluster, profile, tmp_path, queue_removed):
    """A queue of a scenario of ours that is still there is a left-over; what was looked through is named."""
    with Session(cluster, profile, RunStore(tmp_path / "run-p3")) as session:
        session.evidence(forgetful(cluster, "run-p3", label="forgetful"))
    assert [str(item) for item in session.left_overs] == [
        "Queue/forgotten-run-p3: still there after the cleanup"
    ]
    assert session.proof[-1] == "looked through outside namespaces: Queue, PriorityClass"


def test_what_another_session_of_the_run_still_has_is_not_ours_to_blame(
    cluster, profile, tmp_path, queue_removed
):
    """A worker that ends first says nothing of the scenarios of others."""
    with Session(cluster, profile, RunStore(tmp_path / "run-p4")) as session:
        session.evidence(forgetful(cluster, "run-p4", label="of-another-worker"))
    assert session.left_overs == []


def test_a_kind_that_cannot_be_listed_is_named(cluster, profile, tmp_path, monkeypatch):
    """What could not be seen is said, and is no proof."""
    found = objects.Objects.list

    def refused(self, info, *args, **more):
        if info.key == "PriorityClass":
            raise errors.Unreachable("the API server does not answer")
        return found(self, info, *args, **more)

    monkeypatch.setattr(objects.Objects, "list", refused)
    quiet = Scenario("quiet", "", lambda _stage: None, Needs(permissions=QUEUES, gang=False), kinds=("Pod",))
    with Session(cluster, profile, RunStore(tmp_path / "run-p5")) as session:
        session.evidence(quiet)
    assert "PriorityClass: not looked through: the API server does not answer" in session.proof
    assert session.proof[-1] == "looked through outside namespaces: Queue"


def test_in_a_namespace_that_stays_each_pod_is_seen_to_go(cluster, tmp_path):
    """A pod of ours that is still there when the session ends is a left-over."""
    opened = connection.Connection.at(cluster.url)
    objects.Objects(opened).create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lent-p6"}})
    opened.close()
    with Session(
        cluster, conftest.make_profile(namespace="lent-p6"), RunStore(tmp_path / "run-p6")
    ) as session:
        session.evidence(fits)
    assert session.left_overs == []
    assert session.proof[0].endswith(" pods made in lent-p6, all gone")
    assert not any(line.startswith("Namespace") for line in session.proof)
