"""Claims of volumes, and the volumes that they are bound to: made by a StorageClass, or there before.

Played as recorded of Kubernetes: a claim waits for a free volume of its class that is large enough and may be mounted
as asked, else the provisioner of its class makes one; a claim that a pod uses stays until that pod has ended; with a
claim that is gone goes a volume that was made for it. One thing differs: schedulers do not look at claims, a pod whose
claim is not bound gets a node and waits there, as with a volume that cannot be mounted yet.
"""

import shutil
from fractions import Fraction
from pathlib import Path

from pytest_gpucluster.embedded.admission import AdmissionHook
from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.feed import DELETED
from pytest_gpucluster.embedded.fitting import ENDED
from pytest_gpucluster.embedded.objects import Obj, is_deleting, name_of, namespace_of, uid_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.plain.quantities import parse_quantity

CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
SHARED = "shared"
"""The class of the embedded cluster: folders of this machine, which all nodes see."""
PROVISIONER = "gpucluster.embedded/folders"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
IN_USE = "kubernetes.io/pvc-protection"
MADE_BY = "pv.kubernetes.io/provisioned-by"
COMPONENT = "persistentvolume-controller"


class VolumeController:
    """Binds claims, and makes what they ask for."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        """Make volumes as folders below one."""
        self._store, self._folder = runtime.store, folder
        self._events = Recorder(runtime.store, COMPONENT, legacy=True)

    async def run(self) -> None:
        """Follow claims, volumes and pods until cancelled."""
        with self._store.subscribe([CLAIM, VOLUME, "Pod"]) as changes:
            while batch := await changes.batch():
                for kind, key, obj in batch:
                    if key == CLAIM and kind == DELETED:
                        self._release(obj)
                for claim in self._store.peek_all(CLAIM):
                    if is_deleting(claim):
                        self._let_go(claim)
                    elif not claim["spec"].get("volumeName"):
                        self._bind(claim)

    def _bind(self, claim: Obj) -> None:
        wanted = claim["spec"].get("storageClassName") or ""
        volume = self._free(claim, wanted) or self._provisioned(claim, wanted)
        if volume is None:
            return
        reference = {
            "kind": CLAIM, "apiVersion": "v1", "namespace": namespace_of(claim), "name": name_of(claim),
            "uid": uid_of(claim),
        }  # fmt: skip
        space, name = namespace_of(claim), name_of(claim)

        def of_volume(obj: Obj) -> None:
            obj["spec"]["claimRef"] = reference

        def of_claim(obj: Obj) -> None:
            obj["spec"]["volumeName"] = name_of(volume)
            obj["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"

        def bound(obj: Obj) -> None:
            obj["status"] = {
                "phase": "Bound", "accessModes": volume["spec"]["accessModes"],
                "capacity": volume["spec"]["capacity"],
            }  # fmt: skip

        self._store.mutate(VOLUME, None, name_of(volume), of_volume)
        self._phase(name_of(volume), "Bound")
        self._store.mutate(CLAIM, space, name, of_claim)
        self._store.mutate(CLAIM, space, name, bound, subresource="status")

    def _free(self, claim: Obj, wanted: str) -> Obj | None:
        """Return the smallest volume that nobody has and that the claim may have."""
        asked, size = (
            set(claim["spec"].get("accessModes") or ()),
            _size(claim["spec"]["resources"]["requests"]),
        )
        fitting = [
            volume
            for volume in self._store.peek_all(VOLUME)
            if not volume["spec"].get("claimRef")
            and (volume["spec"].get("storageClassName") or "") == wanted
            and asked <= set(volume["spec"].get("accessModes") or ())
            and _size(volume["spec"]["capacity"]) >= size
        ]
        return min(fitting, key=lambda volume: _size(volume["spec"]["capacity"]), default=None)

    def _provisioned(self, claim: Obj, wanted: str) -> Obj | None:
        """Return a volume that the provisioner of the class makes; None where the class has none."""
        kind = self._store.peek(CLASS, None, wanted) if wanted else None
        if kind is None:
            if wanted:
                text = f'storageclass.storage.k8s.io "{wanted}" not found'
                self._events.event(claim, "Warning", "ProvisioningFailed", text)
            return None
        if kind.get("provisioner") != PROVISIONER:
            return None
        name = f"pvc-{uid_of(claim)}"
        folder = self._folder / name
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        spec = {
            "accessModes": list(claim["spec"].get("accessModes") or ()),
            "capacity": dict(claim["spec"]["resources"]["requests"]),
            "hostPath": {"path": str(folder), "type": ""},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": wanted,
            "volumeMode": "Filesystem",
        }
        meta = {"name": name, "annotations": {MADE_BY: PROVISIONER}}
        return self._store.create(VOLUME, {"metadata": meta, "spec": spec})

    def _let_go(self, claim: Obj) -> None:
        """Let a claim that is to be deleted go once no pod that has not ended uses it."""
        name = name_of(claim)
        using = any(
            name in claims_of(pod) and pod.get("status", {}).get("phase") not in ENDED
            for pod in self._store.peek_all("Pod", namespace_of(claim))
        )
        if using:
            return

        def unprotected(obj: Obj) -> None:
            kept = [word for word in obj["metadata"].get("finalizers") or () if word != IN_USE]
            obj["metadata"]["finalizers"] = kept

        self._store.mutate(CLAIM, namespace_of(claim), name, unprotected)

    def _release(self, claim: Obj) -> None:
        """Remove what was made for a claim that is gone; what was there before is released."""
        name = claim["spec"].get("volumeName")
        volume = self._store.peek(VOLUME, None, name) if name else None
        if volume is None:
            return
        self._phase(str(name), "Released")
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self._store.delete(VOLUME, None, str(name))
            shutil.rmtree(self._folder / str(name), ignore_errors=True)

    def _phase(self, name: str, phase: str) -> None:
        def change(obj: Obj) -> None:
            obj.setdefault("status", {})["phase"] = phase

        self._store.mutate(VOLUME, None, name, change, subresource="status")


def claims_of(pod: Obj) -> set[str]:
    """Return the names of the claims that a pod's volumes name."""
    volumes = pod["spec"].get("volumes") or ()
    return {one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one}


def _size(amounts: Obj) -> Fraction:
    return parse_quantity(amounts.get("storage") or "0")


def _protected(claim: Obj, old: Obj | None, store: Store) -> Obj:
    """Give a new claim its protection, the class that is the default if it names none, and its first phase."""
    del old
    finalizers = claim["metadata"].setdefault("finalizers", [])
    if IN_USE not in finalizers:
        finalizers.append(IN_USE)
    if claim["spec"].get("storageClassName") is None:
        usual = [
            name_of(one)
            for one in store.peek_all(CLASS)
            if (one["metadata"].get("annotations") or {}).get(DEFAULT) == "true"
        ]
        if usual:
            claim["spec"]["storageClassName"] = usual[0]
    claim["spec"].setdefault("volumeMode", "Filesystem")
    claim["status"] = {"phase": "Pending"}
    return claim


def start(runtime: Runtime) -> None:
    """Run the controller, where the configuration says below which folder volumes are made."""
    folder = runtime.config.get("volumes")
    runtime.admission.append(AdmissionHook(CLAIM, "CREATE", _protected))
    if folder:
        made = {"metadata": {"name": SHARED, "annotations": {DEFAULT: "true"}}, "provisioner": PROVISIONER}
        more = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
        runtime.store.create(CLASS, {**made, **more})
        runtime.spawn(VolumeController(runtime, Path(str(folder))).run(), COMPONENT)
