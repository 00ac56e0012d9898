"""What the API server takes and refuses of native gangs, over HTTP as clients see it."""

import pytest

from pytest_gpucluster.embedded.native import names, rules
from pytest_gpucluster.embedded.native.gates import Gates
from pytest_gpucluster.embedded.native.job_groups import group_name, short_hash, workload_name
from pytest_gpucluster.embedded.process import ConfigError, read_config
from tests.embedded.native.replay import GATES, recorded
from tests.embedded.support import Api, control_plane, job

GROUPS = f"/apis/{names.API}/namespaces/default/podgroups"
WORKLOADS = f"/apis/{names.API}/namespaces/default/workloads"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def api():
    """A client of a control plane with the gates on."""
    with control_plane({"volcano": True, "feature_gates": GATES}) as ready:
        yield Api(ready["url"])


@pytest.fixture(scope="module")
def plain():
    """A client of a control plane with the gates off, as Kubernetes has them."""
    with control_plane({"volcano": True}) as ready:
        yield Api(ready["url"])


def group(name, policy, **spec):
    """Return a PodGroup."""
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}}


def test_group_is_stored_with_its_defaults(api):
    """A PodGroup gets a finalizer, a priority, a disruption mode and an empty status, and no generation."""
    made = api.ok(
        "POST", GROUPS, group("defaults", {"gang": {"minCount": 2}}) | {"status": {"conditions": []}}
    )
    assert made["metadata"]["finalizers"] == [names.PROTECTION]
    assert "generation" not in made["metadata"]
    assert made["spec"]["priority"] == 0
    assert made["spec"]["disruptionMode"] == {"single": {}}
    assert made["status"] == {}


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({}, 'Invalid value: "": must specify one of: `basic`, `gang`'),
        (
            {"basic": {}, "gang": {"minCount": 1}},
            'Invalid value: "{`basic`, `gang`}": must specify exactly one of: `basic`, `gang`',
        ),
        ({"gang": {"minCount": 0}}, "minCount: Invalid value: 0: must be greater than or equal to 1"),
        ({"gang": {}}, "spec.schedulingPolicy.gang.minCount: Required value"),
    ],
)
def test_policy_is_exactly_one_with_a_positive_minimum(api, policy, text):
    """Basic or gang, not both and not neither; minCount is at least 1."""
    code, answer = api.call("POST", GROUPS, group("refused", policy))
    assert (code, answer["reason"]) == (422, "Invalid")
    assert text in answer["message"]


def test_only_the_minimum_of_a_group_may_change(api):
    """MinCount may be raised and lowered; the kind of policy and every other field are fixed."""
    api.ok("POST", GROUPS, group("fixed", {"gang": {"minCount": 2}}))
    path = f"{GROUPS}/fixed"
    api.ok("PATCH", path, {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}, MERGE)
    for spec, text in (
        ({"schedulingPolicy": {"gang": None, "basic": {}}}, "gang: field cannot be cleared once set"),
        ({"disruptionMode": {"single": None, "all": {}}}, "spec.disruptionMode"),
        ({"priorityClassName": "high"}, "spec.priorityClassName"),
    ):
        code, answer = api.call("PATCH", path, {"spec": spec}, MERGE)
        assert code == 422
        assert text in answer["message"]


def test_status_is_written_through_its_own_path(api):
    """Conditions are written through the sub-resource status only."""
    api.ok("POST", GROUPS, group("status", {"basic": {}}))
    said = {"status": {"conditions": [{"type": names.INITIALLY_SCHEDULED, "status": "True"}]}}
    assert api.ok("PATCH", f"{GROUPS}/status", said, MERGE)["status"] == {}
    assert api.ok("PATCH", f"{GROUPS}/status/status", said, MERGE)["status"] == said["status"]


@pytest.mark.parametrize(
    ("templates", "text"),
    [
        ([], "must specify one of: `podGroupTemplates`"),
        ([{"name": "a", "schedulingPolicy": {"basic": {}}}] * 2, 'Duplicate value: "a"'),
        ([{"name": "a", "schedulingPolicy": {}}], "must specify one of: `basic`, `gang`"),
        (
            [{"name": f"t{n}", "schedulingPolicy": {"basic": {}}} for n in range(rules.MAX_TEMPLATES + 1)],
            "must have at most 8 items",
        ),
    ],
)
def test_templates_of_a_workload_are_checked(api, templates, text):
    """A Workload has one to eight templates of different names, each with a policy."""
    body = {"metadata": {"name": "refused"}, "spec": {"podGroupTemplates": templates}}
    code, answer = api.call("POST", WORKLOADS, body)
    assert code == 422
    assert text in answer["message"]


def test_unknown_fields_are_found_under_strict_validation(api):
    """A misspelt field of a policy is refused under fieldValidation=Strict, also inside a Job."""
    code, answer = api.call("POST", f"{GROUPS}?fieldValidation=Strict", group("x", {"gang": {"minCout": 2}}))
    assert code == 400
    assert 'unknown field "spec.schedulingPolicy.gang.minCout"' in answer["message"]
    body = job("x", 2, scheduling={"schedulingPolicy": {"gangs": {}}})
    code, answer = api.call("POST", f"{JOBS}?fieldValidation=Strict", body)
    assert code == 400
    assert 'unknown field "spec.scheduling.schedulingPolicy.gangs"' in answer["message"]


def test_gang_of_a_job_is_at_most_its_parallelism_and_stays_a_gang(api):
    """MinCount above the parallelism is refused; the policy may be neither changed, added nor removed later."""
    body = job("large", 2, scheduling={"schedulingPolicy": {"gang": {"minCount": 3}}})
    code, answer = api.call("POST", JOBS, body)
    assert code == 422
    assert "Invalid value: 3: must not be greater than parallelism (2)" in answer["message"]
    api.ok("POST", JOBS, job("kept", 2, scheduling={"schedulingPolicy": {"gang": {}}}))
    path = f"{JOBS}/kept"
    for scheduling, text in (
        (None, "spec.scheduling: field cannot be cleared once set"),
        ({"schedulingPolicy": {"gang": None, "basic": {}}}, "field cannot be cleared once set"),
    ):
        code, answer = api.call("PATCH", path, {"spec": {"scheduling": scheduling}}, MERGE)
        assert code == 422
        assert text in answer["message"]
    api.ok("PATCH", path, {"spec": {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 1}}}}}, MERGE)


def test_groups_are_discovered_beside_those_of_volcano(api):
    """Discovery lists both groups that have a PodGroup, each with its own path."""
    listed = api.ok("GET", f"/apis/{names.API}")["resources"]
    assert {r["name"] for r in listed} == {"podgroups", "podgroups/status", "workloads"}
    assert api.ok("GET", "/apis/scheduling.k8s.io")["preferredVersion"]["version"] == "v1"
    volcano = api.ok("GET", "/apis/scheduling.volcano.sh/v1beta1")["resources"]
    assert "podgroups" in {r["name"] for r in volcano}


def test_table_shows_policy_and_status(api):
    """`kubectl get podgroups` shows the policy, the Workload and what the condition says."""
    api.ok("POST", GROUPS, group("shown", {"gang": {"minCount": 2}}))
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    _, raw, _ = api.raw("GET", f"{GROUPS}/shown", headers=accept)
    text = raw.decode()
    assert '"Policy"' in text
    assert '["shown","Gang","<none>","Pending"' in text.replace(", ", ",")


def test_without_the_gate_fields_are_dropped_without_a_word(plain):
    """Gates off: the kinds are not served, and a Job that asks for a gang is accepted without it."""
    assert plain.call("GET", GROUPS)[0] == 404
    body = job("silent", 2, scheduling={"schedulingPolicy": {"gang": {"minCount": 2}}})
    status, raw, headers = plain.raw("POST", f"{JOBS}?fieldValidation=Strict", body)
    assert status == 201
    assert b'"scheduling":' not in raw
    assert "Warning" not in headers


def test_names_are_made_as_recorded():
    """Hashes in the names of Workload and PodGroup follow from the Job's uid, as recorded."""
    seen = {
        line["kind"]: line["object"] for line in recorded("native-job-gang-fits") if line["type"] == "ADDED"
    }
    workload = workload_name(seen["Job.batch"])
    assert workload == seen[names.WORKLOAD]["metadata"]["name"]
    assert group_name(workload, "trainer-pgt-0") == seen[names.POD_GROUP]["metadata"]["name"]
    assert short_hash("") != short_hash("a")


@pytest.mark.parametrize(("workload", "template"), [("w" * 253, "t" * 63), ("w" * 20, "t" * 253), ("w", "t")])
def test_names_are_never_too_long(workload, template):
    """Long names are cut so that the generated one is a valid name."""
    assert len(group_name(workload, template)) <= 253


@pytest.mark.parametrize(
    ("gates", "text"),
    [
        (
            {"Nosuch": True},
            (
                "unknown feature gates: Nosuch (there are: GenericWorkload, TopologyAwareWorkloadScheduling, "
                "WorkloadWithJob)"
            ),
        ),
        (
            {"TopologyAwareWorkloadScheduling": True},
            "feature gate TopologyAwareWorkloadScheduling needs GenericWorkload",
        ),
        ({"WorkloadWithJob": True}, "feature gate WorkloadWithJob needs GenericWorkload"),
        ({"GenericWorkload": "yes"}, "feature_gates must be an object of gates that are true or false"),
    ],
)
def test_wrong_gates_are_refused_in_one_line(gates, text):
    """A gate that does not exist, lacks what it needs, or is neither true nor false is an error."""
    with pytest.raises(ValueError, match=text[:20]) as caught:
        Gates.of({"feature_gates": gates})
    assert str(caught.value) == text


def test_wrong_gates_end_the_process_with_that_line():
    """The control plane refuses to start with gates that it does not know."""
    with pytest.raises(ConfigError, match="unknown feature gates: Nosuch"):
        read_config('{"feature_gates": {"Nosuch": true}}')
