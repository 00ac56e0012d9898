"""The live state: it equals what the lines say, by place, owner and uid."""

import threading
import types

import hypothesis
import hypothesis.strategies as st

from pytest_gpucluster.scenario import live


def obj(name, uid, owner=None, namespace="ns", **more):
    """Return an object with a name, a uid and an owner."""
    meta = {"name": name, "uid": uid, "namespace": namespace}
    if owner:
        meta["ownerReferences"] = [{"uid": owner}]
    return {"metadata": meta, **more}


def view(state):
    """Return the view of a state."""
    return live.Live(state, threading.Condition(), "ns")


def test_pods_of_follows_owners_at_any_depth():
    """Pods of a handle are found through whatever lies between, and a pod is its own."""
    state = live.State()
    state.apply("ADDED", "Deployment", obj("d", "d"))
    state.apply("ADDED", "ReplicaSet", obj("r", "r", "d"))
    state.apply("ADDED", "Pod", obj("p", "p", "r"))
    state.apply("ADDED", "Pod", obj("q", "q"))
    seen = view(state)
    assert [p["metadata"]["name"] for p in seen.pods_of(types.SimpleNamespace(uid="d"))] == ["p"]
    assert [p["metadata"]["name"] for p in seen.pods_of(types.SimpleNamespace(uid="q"))] == ["q"]
    assert seen.objects("Pod", owner_uid="r")[0]["metadata"]["name"] == "p"
    assert seen.objects("Pod", owner_uid="d") == []


def test_view_is_of_our_namespace_and_the_cluster():
    """Without a namespace asked for, objects of other namespaces are not seen; cluster-scoped ones are."""
    state = live.State()
    state.apply("ADDED", "Pod", obj("a", "1"))
    state.apply("ADDED", "Pod", obj("a", "2", namespace="other"))
    state.apply("ADDED", "Node", obj("n", "3", namespace=""))
    seen = view(state)
    assert [p["metadata"]["uid"] for p in seen.objects("Pod")] == ["1"]
    assert seen.get("Pod", "a", "other")["metadata"]["uid"] == "2"
    assert seen.get("Node", "n")["metadata"]["uid"] == "3"
    assert seen.get("Node", "m") is None


def test_answers_are_the_state_itself():
    """Asking does not copy objects."""
    state = live.State()
    pod = obj("a", "1")
    state.apply("ADDED", "Pod", pod)
    assert view(state).objects("Pod")[0] is pod
    assert view(state).by_uid("1") is pod


def test_events_are_found_by_what_they_are_about():
    """Events are found by the uid of their object."""
    state = live.State()
    state.apply("ADDED", "Event", obj("e", "1", involvedObject={"uid": "p"}))
    state.apply("ADDED", "Event", obj("f", "2", involvedObject={"uid": "q"}))
    assert [e["metadata"]["name"] for e in view(state).events_about("p")] == ["e"]


LINES = st.lists(
    st.tuples(
        st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
        st.sampled_from("abc"),
        st.sampled_from("123"),
        st.sampled_from(["", "x", "y"]),
    )
)


@hypothesis.given(LINES)
def test_state_is_the_fold_of_its_lines(lines):
    """After any lines, each index holds exactly the objects that are there."""
    state, expected = live.State(), {}
    for change, name, uid, owner in lines:
        made = obj(name, name + uid, owner)
        state.apply(change, "Pod", made)
        if change == "DELETED":
            expected.pop(name, None)
        else:
            expected[name] = made
    assert dict(state.shelf("Pod", "ns")) == expected
    for owner in "xy":
        owned = {o["metadata"]["name"] for _, o in state.owned_by(owner)}
        assert owned == {n for n, o in expected.items() if live.owners_of(o) == (owner,)}
    for name, made in expected.items():
        assert state.by_uid(live.uid_of(made)) == (("Pod", "ns", name), made)
