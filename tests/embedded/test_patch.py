"""The patch types and selectors, by example and by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.embedded.api.apply import apply
from pytest_gpucluster.embedded.api.patch import json_patch, merge_patch, strategic_merge
from pytest_gpucluster.embedded.api.selection import parse_fields, selection
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.resources import build_table
from pytest_gpucluster.plain.copies import clone

KEYS = st.sampled_from(["a", "b", "c", "d/e", "f~g"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text("xy", max_size=2)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


def without_null(value):
    """Return a value as it is after its null members were removed."""
    if isinstance(value, dict):
        return {k: without_null(v) for k, v in value.items() if v is not None}
    return value


def has_null(value):
    """Report whether an object has a member that is null (lists are one value)."""
    return isinstance(value, dict) and any(v is None or has_null(v) for v in value.values())


def diff(old, new):
    """Return the merge patch from one object to another."""
    out = {k: None for k in old if k not in new}
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            out[key] = diff(old[key], value)
        elif key not in old or old[key] != value or type(old[key]) is not type(value):
            out[key] = value
    return out


@given(OBJECTS, OBJECTS)
def test_merge_patch_is_idempotent_and_pure(target, patch):
    """Applying a merge patch twice is applying it once, and its arguments stay as they were."""
    before = clone(target), clone(patch)
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
    assert (target, patch) == before


@given(OBJECTS, OBJECTS)
def test_merge_patch_of_a_difference_reaches_the_goal(old, new):
    """The difference of two objects without null, applied to the first, gives the second."""
    old, new = without_null(old), without_null(new)
    assert merge_patch(old, diff(old, new)) == new


@given(OBJECTS)
def test_merge_patch_drops_null(patch):
    """No null member of a patch survives in the result."""
    assert not has_null(merge_patch({}, patch))


@given(VALUES)
def test_json_patch_replaces_the_whole(value):
    """A replacement at the root gives the value."""
    assert json_patch({"a": 1}, [{"op": "replace", "path": "", "value": value}]) == value


@given(OBJECTS, KEYS, VALUES)
def test_json_patch_add_then_remove_is_nothing(target, key, value):
    """Adding a member and removing it again leaves an object as it was without the member."""
    pointer = "/" + key.replace("~", "~0").replace("/", "~1")
    steps = [
        {"op": "add", "path": pointer, "value": value},
        {"op": "test", "path": pointer, "value": value},
        {"op": "remove", "path": pointer},
    ]
    assert json_patch(target, steps) == {k: v for k, v in target.items() if k != key}


@given(st.lists(SCALARS, max_size=4), st.integers(0, 6), SCALARS)
def test_json_patch_inserts_into_lists(listed, at, value):
    """An add at an index inserts there; beyond the end it is refused."""
    step = [{"op": "add", "path": f"/l/{at}", "value": value}]
    if at > len(listed):
        with pytest.raises(ApiError):
            json_patch({"l": listed}, step)
    else:
        assert json_patch({"l": listed}, step)["l"] == [*listed[:at], value, *listed[at:]]


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ({"op": "remove", "path": "/none"}, 422),
        ({"op": "replace", "path": "/none", "value": 1}, 422),
        ({"op": "test", "path": "/a", "value": True}, 422),
        ({"op": "add", "path": "/a/b", "value": 1}, 422),
        ({"op": "add", "path": "a", "value": 1}, 400),
        ({"op": "add", "path": "/b"}, 400),
        ({"op": "jump", "path": "/a"}, 400),
        ({"op": "remove", "path": "/l/01"}, 422),
        ({"op": "remove", "path": "/l/-"}, 422),
        ({"op": "move", "from": "/o", "path": "/o/p"}, 422),
    ],
)
def test_json_patch_refuses(operation, code):
    """A path that is not there or a failed test is 422, a malformed operation 400."""
    with pytest.raises(ApiError) as refused:
        json_patch({"a": 1, "l": [0, 1], "o": {}}, [operation])
    assert refused.value.code == code


def test_json_patch_moves_and_copies():
    """Move takes a value away from where it was, copy leaves it."""
    out = json_patch(
        {"a": {"x": 1}},
        [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "move", "from": "/a/x", "path": "/c"}],
    )
    assert out == {"a": {}, "b": {"x": 1}, "c": 1}


def test_strategic_merge_merges_known_lists_by_key():
    """Containers, their environment and conditions merge item by item; other lists are replaced."""
    live = {
        "containers": [
            {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}], "args": ["p"]},
            {"name": "b", "image": "1"},
        ],
        "conditions": [{"type": "Ready", "status": "False"}],
    }
    patch = {
        "containers": [
            {"name": "a", "env": [{"name": "Y", "value": "2"}], "args": ["q"]},
            {"name": "b", "$patch": "delete"},
            {"name": "c"},
        ],
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "New", "status": "True"}],
    }
    out = strategic_merge(live, patch)
    assert out["containers"] == [
        {
            "name": "a",
            "image": "1",
            "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
            "args": ["q"],
        },
        {"name": "c"},
    ]
    assert out["conditions"] == [{"type": "Ready", "status": "True"}, {"type": "New", "status": "True"}]


def test_strategic_merge_honours_directives():
    """Order, retained keys, replacement and deletion from lists of texts are followed."""
    assert strategic_merge({"containers": [{"name": "a"}, {"name": "b"}]}, {
        "containers": [{"name": "b", "image": "2"}],
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
    }) == {"containers": [{"name": "b", "image": "2"}, {"name": "a"}]}  # fmt: skip
    assert strategic_merge({"s": {"a": 1, "b": 2}}, {"s": {"$retainKeys": ["b", "c"], "c": 3}}) == {
        "s": {"b": 2, "c": 3}
    }
    assert strategic_merge({"s": {"a": 1}}, {"s": {"$patch": "replace", "b": 2}}) == {"s": {"b": 2}}
    assert strategic_merge({"finalizers": ["a", "b"]}, {
        "finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"],
    })["finalizers"] == ["b", "c"]  # fmt: skip


@given(OBJECTS, OBJECTS)
def test_strategic_merge_without_known_lists_is_a_merge_patch(target, patch):
    """Objects without known lists or directives merge as under RFC 7396, but for null inside new objects."""
    patch = without_null(patch)
    assert strategic_merge(target, patch) == merge_patch(target, patch)


def applied(manager, obj, live=None, *, force=False):
    """Apply an object for a manager."""
    return apply(live, obj, manager=manager, force=force, merged=True, now="2026-01-01T00:00:00Z")


def test_apply_removes_what_its_manager_no_longer_states():
    """A field that a manager applied and then leaves out goes; fields of others stay."""
    live = applied("one", {"metadata": {"name": "x", "labels": {"a": "1", "b": "1"}}, "data": {"k": "v"}})
    live["data"]["other"] = "kept"
    out = applied("one", {"metadata": {"name": "x", "labels": {"a": "2"}}}, live)
    assert out["metadata"]["labels"] == {"a": "2"}
    assert out["data"] == {"other": "kept"}


def test_apply_conflicts_over_a_field_of_another_manager():
    """Another value for a field of another manager is a conflict that names it; force takes it over."""
    live = applied("one", {"data": {"k": "1"}})
    with pytest.raises(ApiError) as refused:
        applied("two", {"data": {"k": "2"}}, live)
    assert refused.value.code == 409
    assert '"one"' in refused.value.message
    assert ".data.k" in refused.value.message
    out = applied("two", {"data": {"k": "2"}}, live, force=True)
    assert out["data"] == {"k": "2"}
    assert [m["manager"] for m in out["metadata"]["managedFields"]] == ["two"]
    assert applied("three", {"data": {"k": "1"}}, live)["data"] == {"k": "1"}


def test_apply_merges_containers_by_name():
    """Applying one container leaves another manager's container alone."""
    live = {"spec": {"containers": [{"name": "a", "image": "1"}]}}
    out = applied("one", {"spec": {"containers": [{"name": "b", "image": "2"}]}}, live)
    assert [c["name"] for c in out["spec"]["containers"]] == ["a", "b"]
    out = applied("one", {"spec": {}}, out)
    assert out["spec"]["containers"] == [{"name": "a", "image": "1"}]


POD = build_table(volcano=False)["Pod"]


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2"])), st.sampled_from(["1", "2"]))
def test_selectors_of_a_term_and_its_negation_split_everything(labels, value):
    """Each object is selected by exactly one of a term and its negation."""
    obj = {"metadata": {"name": "p", "labels": labels}}
    for term, negation in ((f"a={value}", f"a!={value}"), ("a", "!a"), ("a in (1,2)", "a notin (1,2)")):
        hits = [selection(POD, {"labelSelector": s})(obj) for s in (term, negation)]
        assert sum(hits) == 1
    for term, negation in (("metadata.name=p", "metadata.name!=p"), ("spec.nodeName=", "spec.nodeName!=")):
        assert sum(selection(POD, {"fieldSelector": s})(obj) for s in (term, negation)) == 1


@pytest.mark.parametrize("text", ["spec.color=red", "metadata.name"])
def test_unknown_field_selectors_are_refused(text):
    """A field that the type does not support, or no operator, is 400."""
    with pytest.raises(ApiError) as refused:
        parse_fields(POD, text)
    assert refused.value.code == 400
