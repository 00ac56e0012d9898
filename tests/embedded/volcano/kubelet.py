"""A stand-in for the nodes of the recordings: pods run 0.2 s after binding and end when an annotation says so."""

import asyncio

from pytest_gpucluster.embedded.objects import Obj, annotations_of, is_deleting, name_of, namespace_of, uid_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.plain.times import parse_duration

START_DELAY = 0.2
STOP_DELAY = 0.03
EXIT_AFTER = "sim/exit-after"
EXIT_CODE = "sim/exit-code"


def new_node(name: str, *, gpus: int = 8, **more: str) -> Obj:
    """Return a node as in the recordings: 8 GPUs, 96 CPUs."""
    room = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus), **more}
    return {"metadata": {"name": name}, "status": {"capacity": room, "allocatable": dict(room)}}


class SimulatedKubelet:
    """Runs the pods of all nodes."""

    def __init__(self, runtime: Runtime) -> None:
        """Play on a runtime's store."""
        self._runtime = runtime
        self._store = runtime.store
        self._started: set[str] = set()
        self._stopping: set[str] = set()

    async def run(self) -> None:
        """Follow pods until cancelled."""
        with self._store.subscribe(["Pod"]) as changes:
            async for kind, _, pod in changes:
                if kind == "DELETED" or not pod["spec"].get("nodeName"):
                    continue
                uid = uid_of(pod)
                if is_deleting(pod):
                    if uid not in self._stopping:
                        self._stopping.add(uid)
                        self._runtime.spawn(self._stop(pod), f"stop {name_of(pod)}")
                elif uid not in self._started:
                    self._started.add(uid)
                    self._runtime.spawn(self._live(pod), f"run {name_of(pod)}")

    async def _stop(self, pod: Obj) -> None:
        await asyncio.sleep(STOP_DELAY)
        present = self._store.peek("Pod", namespace_of(pod), name_of(pod))
        if present is not None and uid_of(present) == uid_of(pod):
            self._store.delete("Pod", namespace_of(pod), name_of(pod), uid=uid_of(pod), grace=0)

    async def _live(self, pod: Obj) -> None:
        await asyncio.sleep(START_DELAY)
        if not self._write(pod, "Running", None):
            return
        lasts = annotations_of(pod).get(EXIT_AFTER)
        if lasts is None:
            return
        await asyncio.sleep(parse_duration(lasts))
        code = int(annotations_of(pod).get(EXIT_CODE, "0"))
        self._write(pod, "Failed" if code else "Succeeded", code)

    def _write(self, pod: Obj, phase: str, code: int | None) -> bool:
        present = self._store.find("Pod", namespace_of(pod), name_of(pod))
        if present is None or uid_of(present) != uid_of(pod) or is_deleting(present):
            return False
        reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase)
        ready: Obj = {"status": "False", "reason": reason} if reason else {"status": "True"}
        status = present["status"]
        status["phase"] = phase
        status["conditions"] = [
            {"type": "Initialized", "status": "True"},
            {"type": "Ready", **ready},
            {"type": "ContainersReady", **ready},
            {"type": "PodScheduled", "status": "True"},
        ]
        state: Obj = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
        status["containerStatuses"] = [
            {"name": c["name"], "state": state} for c in present["spec"]["containers"]
        ]
        self._store.update("Pod", present, subresource="status")
        return True
