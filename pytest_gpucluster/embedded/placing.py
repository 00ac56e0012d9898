"""What every part of the default scheduler does with a pod: look for a node, bind, or say why not."""

from pytest_gpucluster.embedded.binding import bind
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.fitting import ENDED, Misfit, NodeRoom, misfit, preference, requests_of
from pytest_gpucluster.embedded.objects import (
    Obj,
    get_condition,
    is_deleting,
    name_of,
    namespace_of,
    set_condition,
    uid_of,
)
from pytest_gpucluster.embedded.store import Store

NAME = "default-scheduler"


def waits_for(pod: Obj, scheduler: str) -> bool:
    """Report whether a pod is a scheduler's to place."""
    spec = pod["spec"]
    return (
        spec.get("schedulerName") == scheduler
        and not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and not is_deleting(pod)
        and pod.get("status", {}).get("phase") not in ENDED
    )


def look(pod: Obj, rooms: list[NodeRoom]) -> tuple[NodeRoom | None, list[Misfit]]:
    """Return the best node for a pod, or None and why each does not fit."""
    requests = requests_of(pod)
    misfits: list[Misfit] = []
    fitting: list[NodeRoom] = []
    for room in rooms:
        why = misfit(pod, requests, room)
        if why is None:
            fitting.append(room)
        else:
            misfits.append(why)
    return min(fitting, key=lambda r: preference(requests, r), default=None), misfits


class Placer:
    """Writes what the scheduler has decided."""

    def __init__(self, store: Store) -> None:
        """Write to a store."""
        self._store = store
        self._events = Recorder(store, NAME, legacy=False)

    def bind(self, pod: Obj, node: str) -> bool:
        """Give a pod its node; False when it was deleted or bound by someone else, which the watch will say."""
        try:
            bound = bind(self._store, namespace_of(pod), name_of(pod), node, uid=uid_of(pod))
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            return False
        text = f"Successfully assigned {namespace_of(pod)}/{name_of(pod)} to {node}"
        self._events.event(
            {**bound, "metadata": pod["metadata"]}, "Normal", "Scheduled", text, action="Binding"
        )
        return True

    def refuse(self, pod: Obj, text: str, reason: str = "Unschedulable") -> None:
        """Tell why a pod is not placed: a condition, written when it changes, and an event."""
        condition: Obj = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": text,
            "lastProbeTime": None,
            "observedGeneration": pod["metadata"].get("generation", 1),
        }

        def change(obj: Obj) -> None:
            conditions = obj.setdefault("status", {}).setdefault("conditions", [])
            set_condition(conditions, condition, self._store.now())

        if get_condition(pod, "PodScheduled") != condition:
            self._store.mutate("Pod", namespace_of(pod), name_of(pod), change, subresource="status")
        self._events.event(pod, "Warning", "FailedScheduling", text)

    def nominate(self, pod: Obj, node: str) -> None:
        """Write the node that a pod will get once the rest of its gang is there: it is not bound by that."""

        def change(obj: Obj) -> None:
            obj.setdefault("status", {})["nominatedNodeName"] = node

        self._store.mutate("Pod", namespace_of(pod), name_of(pod), change, subresource="status")
