"""Kubelets that do again what real ones were recorded to do: the other half of a stream, played back to the double.

Each pod of the recording is one life: the statuses that its kubelet wrote, timed from the bind, and once its deletion
was asked for, from that. The n-th pod of a name lives the n-th recorded life of that name.
"""

import asyncio
import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_gpucluster.embedded.objects import Obj, is_deleting, name_of, namespace_of, uid_of
from pytest_gpucluster.embedded.runtime import Runtime

Step = tuple[float, Obj | None]
"""Seconds, and the status that is written; None for the deletion."""


@dataclass
class Life:
    """What a kubelet did with one pod."""

    from_bind: list[Step] = field(default_factory=list)
    from_delete: list[Step] = field(default_factory=list)


def _key(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("generateName") or pod["metadata"]["name"])


def lives(
    stream: Iterable[Mapping[str, Any]],
    key: Callable[[Mapping[str, Any]], str] = _key,
    *,
    only_bound: bool = False,
) -> dict[str, list[Life]]:
    """Return the recorded lives by name of the pod (without what was generated of it), in order."""
    found: dict[str, list[Life]] = {}
    by_uid: dict[str, list[Mapping[str, Any]]] = {}
    for line in stream:
        if line.get("kind") == "Pod":
            by_uid.setdefault(line["object"]["metadata"]["uid"], []).append(line)
    each = [*by_uid.values()]
    if only_bound:
        each = sorted(
            (lines for lines in each if _bound_at(lines) is not None), key=lambda ls: _bound_at(ls) or 0.0
        )
    for lines in each:
        found.setdefault(key(lines[0]["object"]), []).append(_life(lines))
    return found


def _bound_at(lines: list[Mapping[str, Any]]) -> float | None:
    return next((line["t"] for line in lines if line["object"]["spec"].get("nodeName")), None)


def _life(lines: list[Mapping[str, Any]]) -> Life:
    life = Life()
    bound = deleting = None
    before: Obj = {}
    for line in lines:
        obj, t = line["object"], line["t"]
        status = obj.get("status") or {}
        if line["type"] == "DELETED":
            if deleting is not None:
                life.from_delete.append((t - deleting, None))
            continue
        if deleting is None and "deletionTimestamp" in obj["metadata"]:
            deleting = t
        if bound is None and obj["spec"].get("nodeName"):
            bound, before = t, status
            continue
        if bound is not None and status != before:
            if deleting is None:
                life.from_bind.append((t - bound, status))
            elif t > deleting:
                life.from_delete.append((t - deleting, status))
        before = status
    return life


class RecordedKubelet:
    """Plays the lives of a recording."""

    def __init__(
        self,
        runtime: Runtime,
        stream: Iterable[Mapping[str, Any]],
        alike: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        """Play on a runtime's store.

        Args:
            runtime: Where to play.
            stream: The recording.
            alike: Names what pods can stand for each other: the n-th of them that is bound lives the n-th recorded life
                of one that was bound. By default pods of one name, in the order in which they are created.
        """
        self._runtime = runtime
        self._store = runtime.store
        self._alike = alike
        self._key = alike or _key
        self._left = lives(stream, self._key, only_bound=alike is not None)
        self._lives: dict[str, Life] = {}
        self._playing: dict[str, asyncio.Task[None]] = {}
        self._stopping: set[str] = set()

    async def run(self) -> None:
        """Follow pods until cancelled."""
        with self._store.subscribe(["Pod"]) as changes:
            async for kind, _, pod in changes:
                uid = uid_of(pod)
                if kind == "DELETED":
                    self._end(uid)
                    continue
                if uid not in self._lives and (self._alike is None or pod["spec"].get("nodeName")):
                    recorded = self._left.get(self._key(pod)) or [Life()]
                    self._lives[uid] = recorded.pop(0) if len(recorded) > 1 else recorded[0]
                if not pod["spec"].get("nodeName"):
                    continue
                if is_deleting(pod):
                    if uid not in self._stopping:
                        self._stopping.add(uid)
                        self._end(uid)
                        self._begin(pod, self._lives[uid].from_delete)
                elif uid not in self._playing:
                    self._begin(pod, self._lives[uid].from_bind)

    def _end(self, uid: str) -> None:
        task = self._playing.pop(uid, None)
        if task is not None:
            task.cancel()

    def _begin(self, pod: Obj, steps: list[Step]) -> None:
        self._playing[uid_of(pod)] = self._runtime.spawn(self._play(pod, steps), f"life of {name_of(pod)}")

    async def _play(self, pod: Obj, steps: list[Step]) -> None:
        begun = asyncio.get_running_loop().time()
        for after, status in steps:
            await asyncio.sleep(max(begun + after - asyncio.get_running_loop().time(), 0))
            present = self._store.find("Pod", namespace_of(pod), name_of(pod))
            if present is None or uid_of(present) != uid_of(pod):
                return
            if status is None:
                self._store.delete("Pod", namespace_of(pod), name_of(pod), uid=uid_of(pod), grace=0)
                return
            self._store.update("Pod", {**present, "status": copy.deepcopy(status)}, subresource="status")
