"""Claims of volumes: bound, provisioned, left waiting, protected, and what goes with them."""

from tests.embedded.support import cluster, end_pod, pod, run, settle, until

CLASS = {"metadata": {"name": "theirs"}, "provisioner": "example.com/other"}


def claim(name, *, cls="shared", size="1Gi", modes=("ReadWriteMany",)):
    """Return a claim."""
    spec = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}}
    if cls is not None:
        spec["storageClassName"] = cls
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def volume(name, size, *, modes=("ReadWriteMany",), cls=""):
    """Return a volume that was there before."""
    spec = {"capacity": {"storage": size}, "accessModes": list(modes), "hostPath": {"path": f"/srv/{name}"}}
    return {
        "metadata": {"name": name},
        "spec": {**spec, "storageClassName": cls, "persistentVolumeReclaimPolicy": "Retain"},
    }


def folders(path):
    """Return the folders of volumes."""
    return [str(one) for one in path.iterdir()]


def phase(store, name):
    """Return the phase of a claim, "" where it is gone."""
    found = store.peek("PersistentVolumeClaim", "default", name)
    return "" if found is None else found["status"]["phase"]


def test_a_class_makes_what_a_claim_asks_for_and_removes_it_with_the_claim(tmp_path):
    """The volume is a folder of its own, bound both ways, and goes with the claim."""

    async def scene():
        async with cluster(volumes=str(tmp_path)) as runtime:
            store = runtime.store
            made = store.create("PersistentVolumeClaim", claim("data"))
            assert made["status"] == {"phase": "Pending"}
            await until(runtime, lambda: phase(store, "data") == "Bound")
            bound = store.get("PersistentVolumeClaim", "default", "data")
            (found,) = store.list("PersistentVolume")
            assert bound["spec"]["volumeName"] == found["metadata"]["name"]
            assert found["spec"]["claimRef"]["uid"] == made["metadata"]["uid"]
            assert found["status"]["phase"] == "Bound"
            folder = found["spec"]["hostPath"]["path"]
            assert folders(tmp_path) == [folder]
            store.delete("PersistentVolumeClaim", "default", "data")
            await until(runtime, lambda: not store.list("PersistentVolume"))
            assert phase(store, "data") == ""
            assert folders(tmp_path) == []

    run(scene())


def test_a_claim_without_a_class_gets_the_default_one(tmp_path):
    """A claim that says "" wants a volume that was there before."""

    async def scene():
        async with cluster(volumes=str(tmp_path)) as runtime:
            store = runtime.store
            store.create("PersistentVolumeClaim", claim("usual", cls=None))
            store.create("PersistentVolumeClaim", claim("static", cls=""))
            await until(runtime, lambda: phase(store, "usual") == "Bound")
            assert (
                store.get("PersistentVolumeClaim", "default", "usual")["spec"]["storageClassName"] == "shared"
            )
            assert phase(store, "static") == "Pending"

    run(scene())


def test_the_smallest_free_volume_that_fits_is_taken(tmp_path):
    """One too small, one of another class and one that may not be shared are left; the volume stays afterwards."""

    async def scene():
        async with cluster(volumes=str(tmp_path)) as runtime:
            store = runtime.store
            for made in (
                volume("small", "1Gi"), volume("large", "9Gi"), volume("right", "5Gi"),
                volume("once", "4Gi", modes=("ReadWriteOnce",)), volume("other", "4Gi", cls="theirs"),
            ):  # fmt: skip
                store.create("PersistentVolume", made)
            store.create("PersistentVolumeClaim", claim("data", cls="", size="4Gi"))
            await until(runtime, lambda: phase(store, "data") == "Bound")
            assert store.get("PersistentVolumeClaim", "default", "data")["spec"]["volumeName"] == "right"
            store.delete("PersistentVolumeClaim", "default", "data")
            released = lambda: store.get("PersistentVolume", None, "right")["status"]["phase"] == "Released"  # noqa: E731
            await until(runtime, released)

    run(scene())


def test_a_class_that_nobody_knows_or_serves_leaves_the_claim_waiting(tmp_path):
    """A class that does not exist is told by an event; the provisioner of another one says nothing here."""

    async def scene():
        async with cluster(volumes=str(tmp_path)) as runtime:
            store = runtime.store
            store.create("StorageClass", CLASS)
            store.create("PersistentVolumeClaim", claim("typo", cls="fats"))
            store.create("PersistentVolumeClaim", claim("theirs", cls="theirs"))
            said = lambda: [e for e in store.list("Event") if e["reason"] == "ProvisioningFailed"]  # noqa: E731
            await until(runtime, said)
            await settle()
            assert {e["involvedObject"]["name"] for e in said()} == {"typo"}
            assert 'storageclass.storage.k8s.io "fats" not found' in said()[0]["message"]
            assert (phase(store, "typo"), phase(store, "theirs")) == ("Pending", "Pending")

    run(scene())


def test_a_claim_in_use_goes_when_its_pod_has_ended(tmp_path):
    """Until then it is Terminating, and its volume is there."""

    async def scene():
        async with cluster(volumes=str(tmp_path)) as runtime:
            store = runtime.store
            store.create("PersistentVolumeClaim", claim("data"))
            await until(runtime, lambda: phase(store, "data") == "Bound")
            mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
            store.create("Pod", pod("user", volumes=mounted, schedulerName="nobody"))
            store.delete("PersistentVolumeClaim", "default", "data")
            await settle()
            assert store.get("PersistentVolumeClaim", "default", "data")["metadata"]["deletionTimestamp"]
            assert store.list("PersistentVolume")
            end_pod(store, "user", "Succeeded")
            await until(runtime, lambda: phase(store, "data") == "" and not store.list("PersistentVolume"))

    run(scene())
