"""Permissions: how they are written, granted, and looked up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.kube import connection, errors, permissions
from pytest_gpucluster.kube.permissions import Permission
from tests.kube import fake_api


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("patch nodes/status", [Permission("", "nodes/status", "patch")]),
        ("create,delete pods", [Permission("", "pods", "create"), Permission("", "pods", "delete")]),
        ("create commands.bus.volcano.sh", [Permission("bus.volcano.sh", "commands", "create")]),
        (
            "patch queues.scheduling.volcano.sh/status",
            [Permission("scheduling.volcano.sh", "queues/status", "patch")],
        ),
        ("get configmaps in volcano-system", [Permission("", "configmaps", "get", "volcano-system")]),
    ],
)
def test_a_permission_is_read_and_written_alike(text, wanted):
    """What a scenario declares is what a message says."""
    found = permissions.parse(text)
    assert list(found) == wanted
    assert all(permissions.parse(str(each)) == (each,) for each in found)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("list nodes and queues", "must be VERB"),
        ("nodes", "must be VERB"),
        ("path nodes/status", "unknown verb 'path'; did you mean 'patch'"),
        ("get pods/", "must be VERB"),
    ],
)
def test_a_malformed_permission_is_one_line(text, line):
    """It names the text, the shape and the nearest verb."""
    with pytest.raises(permissions.MalformedPermission, match=line):
        permissions.parse(text)


PERMISSION = st.builds(
    Permission,
    st.sampled_from(["", "batch", "batch.volcano.sh"]),
    st.sampled_from(["pods", "pods/log", "jobs", "nodes/status", "leases"]),
    st.sampled_from(permissions.VERBS),
    st.just(""),
    st.sampled_from(["", "one"]),
)


@given(st.sets(PERMISSION))
def test_rules_grant_exactly_what_was_asked_for(wanted):
    """Merging rules adds nothing and loses nothing."""
    rules = permissions.rules(wanted)
    every = {
        Permission(group, resource, verb, "", name)
        for group in ("", "batch", "batch.volcano.sh")
        for resource in ("pods", "pods/log", "jobs", "nodes/status", "leases")
        for verb in permissions.VERBS
        for name in ("", "one")
    }
    granted = {each for each in every if any(permissions.grants(rule, each) for rule in rules)}
    # A right on all objects includes the one with a name; a name means nothing to `create`.
    unnamed = {(p.group, p.resource, p.verb) for p in wanted if not p.name or p.verb == "create"}
    assert granted == {
        each
        for each in every
        if (each.group, each.resource, each.verb) in unnamed or (each.name and each in wanted)
    }


@pytest.mark.parametrize(
    ("rule", "wanted", "granted"),
    [
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, "patch nodes/status", True),
        ({"verbs": ["patch"], "apiGroups": [""], "resources": ["*/status"]}, "patch nodes/status", True),
        ({"verbs": ["patch"], "apiGroups": [""], "resources": ["nodes"]}, "patch nodes/status", False),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]},
            "get pods",
            False,
        ),
    ],
)
def test_own_rights_are_read_as_the_server_means_them(rule, wanted, granted):
    """Wildcards, sub-resources and names."""
    assert (permissions.Rights([rule]).missing(permissions.parse(wanted)) == []) is granted


def test_what_the_server_does_not_tell_is_not_missing():
    """Another authorizer, a refusal of the question, another namespace: nobody knows, so nothing is missing."""
    wanted = permissions.parse("get pods")
    assert permissions.Rights(None).missing(wanted) == []
    assert permissions.Rights([]).missing(permissions.parse("get configmaps in elsewhere")) == []
    assert permissions.Rights([]).missing(wanted) == list(wanted)
    with fake_api.serving() as fake:
        opened = connection.Connection.at(fake.url)
        fake.fail(fake_api.anything, 403)
        assert permissions.own_rights(opened, "ns").missing(wanted) == []
        fake.fail(fake_api.anything, 401)
        with pytest.raises(errors.ApiError):
            permissions.own_rights(opened, "ns")
        opened.close()


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ("create Job.batch.volcano.sh", "create jobs.batch.volcano.sh"),
        ("patch Node/status", "patch nodes/status"),
        ("log Pod", "get pods/log"),
        ("create Pod/eviction", "create pods/eviction"),
        ("watch PodGroup", "watch podgroups.scheduling.volcano.sh"),
        ("watch PodGroup.scheduling.k8s.io", "watch podgroups.scheduling.k8s.io"),
        ("watch Workload", "watch workloads.kueue.x-k8s.io"),
    ],
)
def test_a_counted_request_says_what_it_needed(request_, wanted):
    """The counter's words lead to permissions."""
    assert permissions.of_request(request_) == permissions.parse(wanted)[0]


def test_what_everybody_may_ask_needs_no_permission():
    """Reviews of one's own rights and discovery."""
    assert permissions.of_request("create SelfSubjectRulesReview") is None
    assert permissions.of_request("get APIResourceList") is None
