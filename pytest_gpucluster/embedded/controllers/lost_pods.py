"""Pods whose node is gone: no kubelet will ever end them, so they are deleted here."""

from pytest_gpucluster.embedded.feed import DELETED
from pytest_gpucluster.embedded.objects import Obj, is_deleting, name_of, namespace_of, set_condition
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store


def _fail(store: Store, pod: Obj) -> None:
    def change(obj: Obj) -> None:
        status = obj.setdefault("status", {})
        if status.get("phase") not in ("Succeeded", "Failed"):
            status["phase"] = "Failed"
        condition: Obj = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }
        set_condition(status.setdefault("conditions", []), condition, store.now())

    store.mutate("Pod", namespace_of(pod), name_of(pod), change, subresource="status")


async def _run(store: Store) -> None:
    with store.subscribe(["Node", "Pod"]) as changes:
        while batch := await changes.batch():
            for kind, key, obj in batch:
                if key == "Node" and kind == DELETED:
                    _end_pods_of(store, name_of(obj))
                elif key == "Pod" and kind != DELETED and is_deleting(obj):
                    _end_if_lost(store, obj)


def _end_pods_of(store: Store, node: str) -> None:
    if store.peek("Node", None, node) is not None:
        return  # it has come back
    for pod in store.list("Pod", None, lambda p: p["spec"].get("nodeName") == node):
        _fail(store, pod)
        store.delete("Pod", namespace_of(pod), name_of(pod), grace=0)


def _end_if_lost(store: Store, pod: Obj) -> None:
    node = pod["spec"].get("nodeName")
    if node and store.peek("Node", None, node) is None:
        store.delete("Pod", namespace_of(pod), name_of(pod), uid=pod["metadata"]["uid"], grace=0)


def start(runtime: Runtime) -> None:
    """Run the controller of lost pods."""
    runtime.spawn(_run(runtime.store), "pod garbage collector")
