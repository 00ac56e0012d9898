"""Evicting a pod: the event, the conditions that say why, the deletion."""

from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.objects import Obj, is_deleting, name_of, namespace_of, set_condition, uid_of
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.embedded.volcano import names


def evict(store: Store, recorder: Recorder, pod: Obj, why: str) -> None:
    """Evict a pod, unless it has gone or is going.

    Args:
        store: The store.
        recorder: Where events are reported.
        pod: The pod as the session saw it.
        why: The action, `preempt` or `reclaim`.
    """
    place = ("Pod", namespace_of(pod), name_of(pod))
    present = store.peek(*place)
    if present is None or uid_of(present) != uid_of(pod) or is_deleting(present):
        return
    text = f"Pod is evicted, because of {why}"
    recorder.event(present, "Warning", "Evict", text)
    now = store.now()

    def write(obj: Obj) -> None:
        conditions = obj.setdefault("status", {}).setdefault("conditions", [])
        set_condition(
            conditions, {"type": "Ready", "status": "False", "reason": "Evict", "message": text}, now
        )
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{names.SCHEDULER}: preempting to accommodate a higher priority pod",
        }
        set_condition(conditions, target, now)

    store.mutate(*place, write, subresource="status")
    store.delete(*place, uid=uid_of(pod))
