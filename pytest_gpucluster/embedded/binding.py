"""Giving a pod its node: the one write of every scheduler."""

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.objects import Obj, is_deleting, set_condition, uid_of
from pytest_gpucluster.embedded.store import Store


def bind(store: Store, namespace: str, name: str, node: str, *, uid: str | None = None) -> Obj:
    """Assign a pod to a node and set its PodScheduled condition, in one write.

    Args:
        store: The store.
        namespace: Namespace of the pod.
        name: Name of the pod.
        node: Name of the node, which is not checked, as in Kubernetes.
        uid: When given, only this very pod is bound.

    Raises:
        ApiError: 404 when the pod is gone; 409 when it is bound, being deleted, or another one.
    """
    pod = store.get("Pod", namespace, name)
    if uid and uid != uid_of(pod):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {uid_of(pod)}"
        raise errors.conflict("pods/binding", "", name, why)
    if is_deleting(pod):
        raise errors.conflict(
            "pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host"
        )
    bound = pod["spec"].get("nodeName")
    if bound:
        raise errors.conflict(
            "pods/binding", "", name, f"pod {name} is already assigned to node {bound!r}".replace("'", '"')
        )
    pod["spec"]["nodeName"] = node
    pod.setdefault("status", {}).pop("nominatedNodeName", None)
    conditions = pod["status"].setdefault("conditions", [])
    scheduled: Obj = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    set_condition(conditions, scheduled, store.now())
    return store.update("Pod", pod, subresource="binding")
