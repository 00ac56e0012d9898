"""Garbage collection by owner, namespace deletion, and pods whose node is gone."""

import pytest

from pytest_gpucluster.embedded.binding import bind
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.objects import owner_reference
from tests.embedded.support import cluster, node, pod, run, settle, until


def owned(name, *owners, block=True):
    """Return an object with owners."""
    references = [{**owner_reference(o), "controller": False, "blockOwnerDeletion": block} for o in owners]
    return {"metadata": {"name": name, "namespace": "default", "ownerReferences": references}}


def plain(name):
    """Return an object without owners."""
    return {"metadata": {"name": name, "namespace": "default"}}


def test_dependents_go_with_their_owner():
    """When an owner is deleted, what it owns goes, and what that owns too."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            top = store.create("ConfigMap", plain("top"))
            middle = store.create("ConfigMap", owned("middle", top))
            store.create("Secret", owned("bottom", middle))
            await settle()
            store.delete("ConfigMap", "default", "top")
            await until(runtime, lambda: store.find("Secret", "default", "bottom") is None)
            assert store.find("ConfigMap", "default", "middle") is None

    run(scene())


def test_dependent_with_another_owner_stays():
    """A dependent with a living owner stays and loses only the reference to the one that is gone."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            one, two = store.create("ConfigMap", plain("one")), store.create("ConfigMap", plain("two"))
            store.create("Secret", owned("child", one, two))
            store.delete("ConfigMap", "default", "one")
            await settle()
            references = store.get("Secret", "default", "child")["metadata"]["ownerReferences"]
            assert [r["name"] for r in references] == ["two"]

    run(scene())


def test_object_whose_owner_never_was_is_collected():
    """An object that is created after its owner's end goes as well; a new object of that name is no owner."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            gone = store.create("ConfigMap", plain("one"))
            store.delete("ConfigMap", "default", "one")
            store.create("ConfigMap", plain("one"))
            store.create("Secret", owned("late", gone))
            await until(runtime, lambda: store.find("Secret", "default", "late") is None)

    run(scene())


@pytest.mark.parametrize("block", [True, False])
def test_foreground_deletion_waits_for_blocking_dependents(block):
    """Under foreground deletion the owner goes last, unless its dependents do not block it."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Node", node("n"))
            owner = store.create("ConfigMap", plain("owner"))
            body = pod("p", schedulerName="nobody")
            body["metadata"]["ownerReferences"] = owned("x", owner, block=block)["metadata"][
                "ownerReferences"
            ]
            store.create("Pod", body)
            bind(store, "default", "p", "n")
            await settle()
            store.delete("ConfigMap", "default", "owner", propagation="Foreground")
            await settle()
            assert store.get("Pod", "default", "p")["metadata"]["deletionTimestamp"]
            assert (store.find("ConfigMap", "default", "owner") is not None) is block
            store.delete("Pod", "default", "p", grace=0)
            await until(runtime, lambda: store.find("ConfigMap", "default", "owner") is None)

    run(scene())


def test_orphaning_keeps_dependents():
    """Under orphan propagation dependents stay, without a reference to their owner."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            owner = store.create("ConfigMap", plain("owner"))
            store.create("Secret", owned("child", owner))
            await settle()
            store.delete("ConfigMap", "default", "owner", propagation="Orphan")
            await until(runtime, lambda: store.find("ConfigMap", "default", "owner") is None)
            assert "ownerReferences" not in store.get("Secret", "default", "child")["metadata"]

    run(scene())


def test_namespace_goes_after_its_content():
    """A deleted namespace is Terminating until the last object in it has gone, and takes nothing new."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Namespace", {"metadata": {"name": "work"}})
            store.create("Node", node("n"))
            body = pod("p", schedulerName="nobody")
            body["metadata"]["namespace"] = "work"
            store.create("Pod", body)
            bind(store, "work", "p", "n")
            await settle()
            assert store.find("ServiceAccount", "work", "default") is not None
            store.delete("Namespace", None, "work")
            await settle()
            assert store.get("Namespace", None, "work")["status"]["phase"] == "Terminating"
            assert store.list("ServiceAccount", "work") == []
            with pytest.raises(ApiError, match="being terminated"):
                store.create("ConfigMap", {"metadata": {"name": "a", "namespace": "work"}})
            store.delete("Pod", "work", "p", grace=0)
            await until(runtime, lambda: store.find("Namespace", None, "work") is None)

    run(scene())


def test_pods_of_a_vanished_node_are_ended():
    """When a node is deleted its pods are marked as disrupted and go, as no kubelet will end them."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Node", node("n"))
            store.create("Pod", pod("p"))
            await until(runtime, lambda: store.get("Pod", "default", "p")["spec"].get("nodeName") == "n")
            with store.subscribe(["Pod"]) as changes:
                store.delete("Node", None, "n")
                await until(runtime, lambda: store.find("Pod", "default", "p") is None)
                states = [o["status"]["phase"] for _, _, o in changes.pending()]
            assert states[-1] == "Failed"

    run(scene())
