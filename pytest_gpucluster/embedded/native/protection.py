"""PodGroups stay as long as pods that have not ended name them."""

from pytest_gpucluster.embedded.feed import DELETED
from pytest_gpucluster.embedded.fitting import ENDED
from pytest_gpucluster.embedded.native import names
from pytest_gpucluster.embedded.objects import Obj, is_deleting, name_of, namespace_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store


def protect(group: Obj, old: Obj | None, store: Store) -> Obj:
    """Give a new PodGroup its finalizer (an admission call)."""
    del old, store
    finalizers = group["metadata"].setdefault("finalizers", [])
    if names.PROTECTION not in finalizers:
        finalizers.append(names.PROTECTION)
    return group


def group_of(pod: Obj) -> str | None:
    """Return the name of the PodGroup that a pod names."""
    name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return None if name is None else str(name)


async def release(runtime: Runtime) -> None:
    """Take the finalizer off PodGroups that are to be deleted and that no pod needs, until cancelled."""
    store = runtime.store
    with store.subscribe([names.POD_GROUP, "Pod"]) as changes:
        async for kind, key, obj in changes:
            name = name_of(obj) if key == names.POD_GROUP else group_of(obj)
            if name is None or (key == names.POD_GROUP and kind == DELETED):
                continue
            _release(store, namespace_of(obj), name)


def _release(store: Store, namespace: str, name: str) -> None:
    group = store.peek(names.POD_GROUP, namespace, name)
    if group is None or not is_deleting(group):
        return

    def needs(pod: Obj) -> bool:
        return group_of(pod) == name and pod.get("status", {}).get("phase") not in ENDED

    if names.PROTECTION not in (group["metadata"].get("finalizers") or []):
        return
    if not store.peek_all("Pod", namespace, needs):
        store.mutate(names.POD_GROUP, namespace, name, _unprotect)


def _unprotect(group: Obj) -> None:
    kept = [f for f in group["metadata"].get("finalizers") or [] if f != names.PROTECTION]
    group["metadata"]["finalizers"] = kept
