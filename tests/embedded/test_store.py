"""The store: what a write does, what a deletion leaves, and who is told."""

import pytest

from pytest_gpucluster.embedded.admission import AdmissionHook
from pytest_gpucluster.embedded.binding import bind
from pytest_gpucluster.embedded.errors import ApiError
from tests.embedded.support import empty_store, pod, run


def config_map(name="a", **data):
    """Return a ConfigMap."""
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def test_created_object_carries_identity_and_version():
    """A created object has kind, uid, creation time, and the version of its write."""
    store = empty_store()
    made = store.create("ConfigMap", config_map(k="v"))
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    assert made["metadata"]["resourceVersion"] == str(store.version)
    assert len(made["metadata"]["uid"]) == 36
    assert made["metadata"]["creationTimestamp"].endswith("Z")
    assert "generation" not in made["metadata"]


def test_objects_are_copied_in_and_out():
    """Changing what was given or received changes nothing in the store."""
    store = empty_store()
    given = config_map(k="v")
    made = store.create("ConfigMap", given)
    given["data"]["k"] = made["data"]["k"] = "other"
    store.list("ConfigMap", "default")[0]["data"]["k"] = "other"
    assert store.get("ConfigMap", "default", "a")["data"] == {"k": "v"}


@pytest.mark.parametrize(
    ("namespace", "code", "reason"),
    [("default", 409, "AlreadyExists"), ("absent", 404, "NotFound"), ("going", 403, "Forbidden")],
)
def test_create_is_refused(namespace, code, reason):
    """A taken name, a missing namespace and a namespace on its way out are refused as Kubernetes does."""
    store = empty_store()
    store.create("ConfigMap", config_map())
    store.create("Namespace", {"metadata": {"name": "going"}})
    store.delete("Namespace", None, "going")
    with pytest.raises(ApiError) as refused:
        store.create("ConfigMap", {"metadata": {"name": "a", "namespace": namespace}})
    assert (refused.value.code, refused.value.reason) == (code, reason)


def test_generated_names_differ():
    """An object with generateName gets a name that begins with it."""
    store = empty_store()
    body = {"metadata": {"generateName": "a-", "namespace": "default"}}
    names = {store.create("ConfigMap", body)["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(n.startswith("a-") and len(n) == 7 for n in names)


def test_stale_update_conflicts():
    """A write on an older version is a conflict; one without a version is not."""
    store = empty_store()
    old = store.create("ConfigMap", config_map(k="1"))
    store.update("ConfigMap", {**old, "data": {"k": "2"}})
    with pytest.raises(ApiError) as refused:
        store.update("ConfigMap", {**old, "data": {"k": "3"}})
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    store.update("ConfigMap", config_map(k="4"))
    assert store.get("ConfigMap", "default", "a")["data"] == {"k": "4"}


def test_update_of_another_uid_conflicts():
    """A write that names another uid does not touch the object that now has the name."""
    store = empty_store()
    old = store.create("ConfigMap", config_map())
    old["metadata"]["uid"] = "other"
    del old["metadata"]["resourceVersion"]
    with pytest.raises(ApiError) as refused:
        store.update("ConfigMap", old)
    assert refused.value.code == 409


def test_write_that_changes_nothing_keeps_the_version():
    """A write of equal content is no change: the version stays and no one is told."""
    store = empty_store()
    made = store.create("ConfigMap", config_map(k="v"))
    version = store.version
    assert (
        store.update("ConfigMap", made)["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    )
    assert store.version == version


def test_status_is_written_through_its_subresource_only():
    """A plain update cannot change the status, a status update cannot change the spec."""
    store = empty_store()
    made = store.create("Pod", pod("p"))
    made["status"]["phase"] = "Running"
    made["spec"]["activeDeadlineSeconds"] = 5
    plain = store.update("Pod", made)
    assert (plain["status"]["phase"], plain["metadata"]["generation"]) == ("Pending", 2)
    plain["status"]["phase"] = "Running"
    plain["spec"]["activeDeadlineSeconds"] = 6
    status = store.update("Pod", plain, subresource="status")
    assert status["status"]["phase"] == "Running"
    assert status["spec"]["activeDeadlineSeconds"] == 5
    assert status["metadata"]["generation"] == 2


def test_custom_type_without_status_subresource_counts_every_change():
    """A Volcano PodGroup keeps a status written plainly, and its generation counts that."""
    store = empty_store()
    store.create("PodGroup", {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}})
    changed = store.mutate("PodGroup", "default", "g", lambda g: g.update(status={"phase": "Inqueue"}))
    assert changed is not None
    assert changed["status"] == {"phase": "Inqueue"}
    assert changed["metadata"]["generation"] == 2


def test_mutate_and_delete_of_an_absent_object_do_nothing():
    """Controllers that come too late get None."""
    store = empty_store()
    assert store.mutate("Pod", "default", "p", lambda _: None) is None
    assert store.delete("Pod", "default", "p") is None


def test_unbound_pod_goes_at_once_after_its_grace_was_set_to_zero():
    """Deleting an unbound pod shows its zero grace period, then its end, as recorded of Kubernetes."""
    store = empty_store()
    store.create("Pod", pod("p"))
    with store.subscribe(["Pod"]) as changes:
        store.delete("Pod", "default", "p")
        seen = [(t, o["metadata"].get("deletionGracePeriodSeconds")) for t, _, o in changes.pending()]
    assert seen == [("ADDED", None), ("MODIFIED", 0), ("DELETED", 0)]


def test_bound_pod_waits_for_its_kubelet():
    """A bound pod is only marked, until it is deleted with grace 0."""
    store = empty_store()
    store.create("Pod", pod("p", terminationGracePeriodSeconds=7))
    bind(store, "default", "p", "n")
    marked = store.delete("Pod", "default", "p")
    assert marked is not None
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    assert marked["metadata"]["generation"] == 2
    version = store.version
    store.delete("Pod", "default", "p")
    store.delete("Pod", "default", "p", grace=9)
    assert store.version == version
    store.delete("Pod", "default", "p", grace=0)
    assert store.find("Pod", "default", "p") is None


def test_finalizer_holds_an_object():
    """An object with a finalizer stays marked until the finalizer is removed; even grace 0 waits."""
    store = empty_store()
    body = pod("p")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    store.create("Pod", body)
    store.delete("Pod", "default", "p", grace=0)
    held = store.get("Pod", "default", "p")
    assert held["metadata"]["deletionTimestamp"]
    with store.subscribe(["Pod"]) as changes:
        held["metadata"]["finalizers"] = []
        store.update("Pod", held)
        (first, _, _), (second, _, gone) = changes.pending()
        assert (first, second) == ("ADDED", "DELETED")
        assert gone["metadata"]["finalizers"] == ["example.com/hold"]  # as real clusters show it
    assert store.find("Pod", "default", "p") is None


def test_delete_with_another_uid_conflicts():
    """A deletion meant for an earlier object of the same name is a conflict."""
    store = empty_store()
    store.create("Pod", pod("p"))
    with pytest.raises(ApiError) as refused:
        store.delete("Pod", "default", "p", uid="other")
    assert refused.value.code == 409


def test_binding_happens_once():
    """A bound pod cannot be bound again; binding sets node and condition in one write."""
    store = empty_store()
    store.create("Pod", pod("p"))
    with store.subscribe(["Pod"]) as changes:
        bind(store, "default", "p", "n")
        (_, _, first), (kind, _, after) = changes.pending()
    assert kind == "MODIFIED"
    assert after["spec"]["nodeName"] == "n"
    assert after["metadata"]["generation"] == first["metadata"]["generation"]
    assert [(c["type"], c["status"]) for c in after["status"]["conditions"]] == [("PodScheduled", "True")]
    with pytest.raises(ApiError) as refused:
        bind(store, "default", "p", "m")
    assert refused.value.code == 409


def test_dry_run_changes_nothing():
    """A dry run answers as a write would and leaves the store as it was."""
    store = empty_store()
    version = store.version
    assert store.create("ConfigMap", config_map(), dry_run=True)["metadata"]["uid"]
    made = store.create("ConfigMap", config_map(k="1"))
    assert store.update("ConfigMap", {**made, "data": {"k": "2"}}, dry_run=True)["data"] == {"k": "2"}
    store.delete("ConfigMap", "default", "a", dry_run=True)
    assert store.get("ConfigMap", "default", "a")["data"] == {"k": "1"}
    assert store.version == version + 1


def test_admission_changes_then_checks():
    """Mutating hooks run before defaults and validation, validating ones see the result and may refuse."""
    store = empty_store()

    def name_container(obj, old, store):
        obj["spec"]["containers"][0]["name"] = "named"
        return obj

    def refuse(obj, old, store):
        assert obj["spec"]["containers"][0]["name"] == "named"
        assert obj["spec"]["dnsPolicy"] == "ClusterFirst"
        raise ApiError(403, "Forbidden", "not today")

    store.admission.append(AdmissionHook("Pod", "CREATE", refuse, phase="validating"))
    store.admission.append(AdmissionHook("Pod", "CREATE", name_container))
    body = pod("p")
    del body["spec"]["containers"][0]["name"]
    with pytest.raises(ApiError, match="not today"):
        store.create("Pod", body)
    assert store.list("Pod") == []


def test_subscription_begins_with_what_is_there_and_follows():
    """A subscriber first hears of present objects, then of each change in order of version, then of the end."""
    store = empty_store()
    store.create("ConfigMap", config_map("a"))
    store.create("Pod", pod("p"))

    async def scene():
        changes = store.subscribe(["ConfigMap", "Pod"])
        store.delete("ConfigMap", "default", "a")
        store.create("ConfigMap", config_map("b"))
        changes.close()
        seen = [(t, k, o["metadata"]["name"]) async for t, k, o in changes]
        assert seen == [
            ("ADDED", "ConfigMap", "a"),
            ("ADDED", "Pod", "p"),
            ("DELETED", "ConfigMap", "a"),
            ("ADDED", "ConfigMap", "b"),
        ]

    run(scene())


def test_history_is_bounded_and_can_be_compacted():
    """A watch resumes while its version is in the history, and gets 410 afterwards."""
    store = empty_store(history=3)
    start = store.version
    for n in range(3):
        store.create("ConfigMap", config_map(f"a{n}"))
    assert len(store.follow("ConfigMap", start).take()) == 3
    store.create("ConfigMap", config_map("a3"))
    with pytest.raises(ApiError) as refused:
        store.follow("ConfigMap", start)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    now = store.version
    assert store.follow("ConfigMap", now).take() == []
    store.compact()
    with pytest.raises(ApiError):
        store.follow("ConfigMap", now)


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "dot.", "a" * 254])
def test_wrong_names_are_refused(name):
    """A name that is no DNS subdomain is Invalid at metadata.name."""
    store = empty_store()
    with pytest.raises(ApiError) as refused:
        store.create("ConfigMap", config_map(name))
    assert refused.value.code == 422
    assert refused.value.details["causes"][0]["field"] == "metadata.name"
