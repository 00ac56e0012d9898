"""The status of a pod as a kubelet writes it, computed from the states of its containers. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Object = dict[str, Any]
KUBELET_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


NOT_FOUND: Object = {
    "terminated": {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
        "startedAt": None,
        "finishedAt": None,
    }
}
"""What a kubelet writes, when a pod ends, of each container that it never started (seen on 1.37)."""


@dataclass
class ContainerState:
    """Where one container stands.

    Attributes:
        name: Its name.
        image: Image as written in the pod.
        state: The `state` of its status.
        last: The `lastState` of its status.
        restarts: How often it was started again.
        ready: Whether it is ready.
        container_id: Id of the present or last run, empty before the first.
    """

    name: str
    image: str
    state: Object
    last: Object = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    container_id: str = ""

    @property
    def running(self) -> bool:
        """Report whether it runs."""
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the run that ended, None while it runs or waits."""
        ended = self.state.get("terminated")
        return int(ended["exitCode"]) if ended else None

    def as_status(self, *, lost: bool = False) -> Object:
        """Return the entry in `containerStatuses`.

        Args:
            lost: Whether its pod is over, so that one which still waits is told as not found.
        """
        status: Object = {
            "name": self.name,
            "image": self.image,
            "imageID": self.image if "@" in self.image else "",
            "ready": self.ready,
            "started": self.running,
            "restartCount": self.restarts,
            "state": NOT_FOUND if lost and "waiting" in self.state else self.state,
            "lastState": self.last,
        }
        if self.container_id:
            status["containerID"] = self.container_id
        return status


@dataclass(frozen=True)
class PodView:
    """All that the status of a pod depends on.

    Attributes:
        init: Init containers, in order.
        main: Containers, in order.
        restart_policy: Always, OnFailure or Never.
        networked: Whether the pod has its network.
        initialized: Whether all init containers succeeded.
        over: Whether nothing runs or will run any more.
        reason: Reason of an end that the node brought about, such as DeadlineExceeded.
        message: Its text.
    """

    init: Sequence[ContainerState]
    main: Sequence[ContainerState]
    restart_policy: str
    networked: bool
    initialized: bool
    over: bool
    reason: str = ""
    message: str = ""


def containers(view: PodView) -> Object:
    """Return the lists of container statuses.

    What waits for an init container that failed goes on waiting: only of an initialized pod are containers lost.
    """
    lost = view.over and view.initialized
    found: Object = {"containerStatuses": [c.as_status(lost=lost) for c in view.main]}
    if view.init:
        found["initContainerStatuses"] = [c.as_status() for c in view.init]
    return found


def phase(view: PodView) -> str:
    """Return the phase of a pod."""
    if view.reason and view.over:
        return "Failed"
    if view.over:
        ended = [*view.init, *view.main] if not view.initialized else list(view.main)
        return "Succeeded" if all(c.exit_code == 0 for c in ended) else "Failed"
    if not view.initialized:
        return "Pending"
    began = [c.running or c.exit_code is not None or bool(c.last) for c in view.main]
    return "Running" if all(began) else "Pending"


def conditions(view: PodView) -> dict[str, Object]:
    """Return the kubelet's conditions by type, without times.

    Once all containers have ended they are those of the phase that is to come, while the phase is still Running.
    """
    current = phase(replace(view, over=True)) if _has_ended(view) else phase(view)
    found: dict[str, Object] = {
        "PodReadyToStartContainers": _sandbox(view),
        "Initialized": _initialized(view, current),
    }
    unready = [c.name for c in view.main if not c.ready]
    if current == "Succeeded" or (current == "Failed" and _began(view)):
        ready: Object = {
            "status": "False",
            "reason": "PodCompleted" if current == "Succeeded" else "PodFailed",
        }
    elif not unready and view.initialized:
        ready = {"status": "True"}
    else:
        names = " ".join(unready)
        ready = {
            "status": "False",
            "reason": "ContainersNotReady",
            "message": f"containers with unready status: [{names}]",
        }
    found["Ready"] = dict(ready)
    found["ContainersReady"] = dict(ready)
    found["PodScheduled"] = {"status": "True"}
    return found


def _has_ended(view: PodView) -> bool:
    """Report whether containers ran to an end after which none is started again."""
    if not view.initialized:
        return view.restart_policy == "Never" and any(c.exit_code for c in view.init)
    codes = [c.exit_code for c in view.main]
    if None in codes or not codes:
        return False
    return view.restart_policy == "Never" or (view.restart_policy == "OnFailure" and not any(codes))


def _began(view: PodView) -> bool:
    """Report whether a container ever ran; a pod that was killed before says only that none is ready."""
    return bool(view.reason) or any(c.running or c.exit_code is not None for c in (*view.init, *view.main))


def _sandbox(view: PodView) -> Object:
    if view.networked and not view.over:
        return {"status": "True"}
    message = "pod sandbox is not ready" if view.over else "no pod sandbox exists"
    return {"status": "False", "reason": "PodSandboxNotReady", "message": message}


def _initialized(view: PodView, current: str) -> Object:
    if current == "Succeeded":
        return {"status": "True", "reason": "PodCompleted"}
    if view.initialized:
        return {"status": "True"}
    names = " ".join(c.name for c in view.init if c.exit_code != 0)
    return {
        "status": "False",
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{names}]",
    }


def merge_conditions(
    computed: Mapping[str, Object],
    own_before: Mapping[str, Object],
    on_server: Sequence[Object],
    moment: str,
    generation: int | None,
) -> list[Object]:
    """Return the list of conditions to write.

    Args:
        computed: From `conditions`.
        own_before: What was written last, by type; the time of an unchanged status is kept.
        on_server: What the API server shows; types of others are kept, and the time of PodScheduled.
        moment: Now.
        generation: Generation of the pod's spec, if it has one.
    """
    before = {c["type"]: c for c in on_server if c["type"] == "PodScheduled"} | dict(own_before)
    merged = []
    for kind in KUBELET_CONDITIONS:
        entry = {"type": kind, **computed[kind], "lastProbeTime": None}
        old = before.get(kind)
        same = old is not None and old["status"] == entry["status"] and old.get("lastTransitionTime")
        entry["lastTransitionTime"] = old["lastTransitionTime"] if old is not None and same else moment
        if generation is not None:
            entry["observedGeneration"] = generation
        merged.append(entry)
    return merged + [c for c in on_server if c["type"] not in KUBELET_CONDITIONS]


def terminated(
    exit_code: int, *, container_id: str, started: str, finished: str, reason: str = "", message: str = ""
) -> Object:
    """Return a `terminated` state."""
    state: Object = {
        "exitCode": exit_code,
        "reason": reason or ("Completed" if exit_code == 0 else "Error"),
        "startedAt": started,
        "finishedAt": finished,
        "containerID": container_id,
    }
    if message:
        state["message"] = message
    return {"terminated": state}


def waiting(reason: str, message: str = "") -> Object:
    """Return a `waiting` state."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}
