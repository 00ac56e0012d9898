"""One uid, one name, one scheduler, one node; one name, one object at a time."""

import dataclasses

import pytest

from pytest_gpucluster.evidence.log import identities
from pytest_gpucluster.evidence.log.model import Line, Span

WATCHED = (Span("Pod", 0.0, 10.0, "list"),)


def pod(t, uid="u", what="MODIFIED", name="p", **spec):
    """Return a line of a pod."""
    meta = {"name": name, "namespace": "n", "uid": uid}
    return Line(t, what, "Pod", {"metadata": meta, "spec": spec}, {}, int(t * 10))


BOUND = pod(1.0, nodeName="a", schedulerName="s")


@pytest.mark.parametrize(
    ("later", "watched", "word"),
    [
        (pod(2.0, nodeName="b", schedulerName="s"), (), "has node b"),
        (pod(2.0, nodeName="a", schedulerName="x"), (), "has scheduler x"),
        (pod(2.0, name="q", nodeName="a", schedulerName="s"), (), "has name n/q"),
        (pod(2.0, schedulerName="s"), WATCHED, "has node none"),
        (pod(2.0, uid="v", what="ADDED"), WATCHED, "was not deleted"),
    ],
    ids=["node", "scheduler", "name", "unbound", "doubled"],
)
def test_what_no_api_server_says_is_told(later, watched, word):
    """Each contradiction is named in one line."""
    assert word in identities.contradiction([BOUND, later], watched)


def test_what_was_deleted_does_not_come_back():
    """A line of an object after its deletion is out of order, or of another file."""
    gone = dataclasses.replace(BOUND, t=2.0, type="DELETED")
    back = dataclasses.replace(BOUND, t=3.0)
    assert "after it was deleted" in identities.contradiction([BOUND, gone, back], WATCHED)


@pytest.mark.parametrize(
    "later",
    [
        (dataclasses.replace(BOUND, t=2.0),),
        (dataclasses.replace(BOUND, t=2.0, type="DELETED"), pod(3.0, uid="v", what="ADDED")),
        (pod(11.0, uid="v", what="ADDED"),),
        (pod(2.0, uid="v", name="q", what="ADDED"),),
    ],
    ids=["again", "made-again", "watch-ended-between", "another-name"],
)
def test_what_may_be_is_none(later):
    """Pods are told of again, made again by their controller, and replaced while nobody watches."""
    assert identities.contradiction([BOUND, *later], WATCHED) == ""
