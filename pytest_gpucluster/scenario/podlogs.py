"""What containers wrote, as lines of evidence: followed while they run, or fetched when asked."""

import dataclasses
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.kube import errors, stream
from pytest_gpucluster.scenario import live
from pytest_gpucluster.scenario import site as sites

Obj = dict[str, Any]
Key = tuple[str, str]
"""Pod uid and container name."""

UNFOLLOWED = "failed to create fsnotify watcher"
"""How the line begins that a kubelet short of inotify instances writes into the answer, as if the program had said it.
What is there by then is read when the log is fetched."""
SETTLE_SECONDS = 5.0
"""Seconds that `fetch` waits for a follower of a container that has ended to say its last line."""
MOST = 64 * 1024 * 1024
"""Bytes of one container's log that are taken down: a program may write without end."""
TOO_LONG = f"it is longer than {MOST // 2**20} MiB: what came after that is left out"


@dataclasses.dataclass(frozen=True)
class Said:
    """One fact that a payload printed: of which pod, which event, and what it says."""

    uid: str
    event: str
    data: Mapping[str, Any]


class LogReader:
    """Takes down the logs of one scenario: each line once, one request per container.

    Followers are threads, started by the watch line that shows a container started, ended by its end.

    Attributes:
        denied: logs may not be read; set by the first refusal.
    """

    def __init__(self, site: sites.Site, scenario: str) -> None:
        """Remember nothing yet."""
        self._site = site
        self._scenario = scenario
        self._taken: dict[Key, int] = {}
        self._complete: set[Key] = set()
        self._followed: set[str] = set()
        self._followers: dict[Key, threading.Thread] = {}
        self._streams: dict[Key, stream.Stream] = {}
        self._closed = False
        self._said: list[Said] = []
        self.denied: errors.EnvironmentProblem | None = None

    # -- following ---------------------------------------------------------------------------------------------------

    def follow(self, uid: str) -> None:
        """Follow all containers of the pods that an object owns, present and future ones."""
        log = self._site.log
        with log.condition:
            if not self._followed:
                log.listeners.append(self._seen)
            self._followed.add(uid)
            own = log.state.by_uid(uid)
            present = ([own] if own is not None else []) + list(log.state.owned_by(uid))
            for place, obj in present:
                self._seen("ADDED", place[0], obj)

    def close(self) -> None:
        """End all followers and wait for their threads."""
        log = self._site.log
        with log.condition:
            self._closed = True
            if self._seen in log.listeners:
                log.listeners.remove(self._seen)
            streams, threads = list(self._streams.values()), list(self._followers.values())
        for opened in streams:
            opened.stop()
        for thread in threads:
            thread.join(SETTLE_SECONDS)

    def _seen(self, change: str, kind: str, obj: Obj) -> None:
        """Start followers for what has started in a pod; the lock is held."""
        if change == "DELETED" or kind != "Pod" or self._closed or not self._is_followed(obj):
            return
        for container, status in _containers(obj):
            key = (live.uid_of(obj), container)
            if containers.began(status) and key not in self._followers and key not in self._complete:
                name = str(obj["metadata"]["name"])
                thread = threading.Thread(
                    target=self._follow, args=(name, key), name=f"log {name}", daemon=True
                )
                self._followers[key] = thread
                thread.start()

    def _is_followed(self, obj: Obj, depth: int = 5) -> bool:
        """Report whether an object, or an owner of it at any depth, is followed."""
        if live.uid_of(obj) in self._followed:
            return True
        for owner in live.owners_of(obj):
            found = self._site.log.state.by_uid(owner)
            if owner in self._followed or (found and depth and self._is_followed(found[1], depth - 1)):
                return True
        return False

    def _follow(self, pod: str, key: Key) -> None:
        """Read one container's log to its end; runs in the follower's thread."""
        log, error, said = self._site.log, "", 0
        try:
            opened = self._site.api.follow_logs(pod, self._site.namespace, container=key[1])
            with log.condition:
                self._streams[key] = opened
                if self._closed:
                    opened.stop()
            for line in opened.lines(text=True):
                text = line.decode("utf-8", "replace")
                if text.startswith(UNFOLLOWED):
                    error = (
                        f"the kubelet cannot follow the log ({text}): raise fs.inotify.max_user_instances on "
                        "the node"
                    )
                    opened.stop()
                    break
                with log.condition:
                    self._line(pod, key, text)
                said += len(line)
                if said > MOST:
                    error = TOO_LONG
                    opened.stop()
                    break
        except errors.GpuClusterError as failure:
            error = str(failure)
            self._refusal(failure)
        with log.condition:
            self._streams.pop(key, None)
            del self._followers[key]
            if (not error or said > MOST) and not self._closed:
                self._complete.add(key)
            self._note(pod, key, error)

    def heard(self, uid: str) -> int:
        """Return how many lines of a pod were taken down so far."""
        with self._site.log.condition:
            return sum(lines for key, lines in self._taken.items() if key[0] == uid)

    def said(self, *events: str) -> list[Said]:
        """Return the facts of some events that payloads have printed so far, in order."""
        with self._site.log.condition:
            return [one for one in self._said if one.event in events]

    # -- fetching ----------------------------------------------------------------------------------------------------

    def fetch(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Append what was not taken down yet, and a `logs` note per container asked; what cannot be read is noted."""
        wanted = [(pod, container, status) for pod in pods for container, status in _containers(pod)]
        ending = {(live.uid_of(pod), name) for pod, name, status in wanted if containers.end_of(status)}
        log = self._site.log
        log.until(lambda: not ending & self._followers.keys(), SETTLE_SECONDS)
        for pod, container, status in wanted:
            key = (live.uid_of(pod), container)
            with log.condition:
                known = key in self._complete or key in self._followers
            if not known:
                self._container(str(pod["metadata"]["name"]), key, status)

    def _container(self, pod: str, key: Key, status: Mapping[str, Any]) -> None:
        if not containers.began(status):
            self._note(pod, key, "not started")
            return
        try:
            text = self._site.api.logs(pod, self._site.namespace, container=key[1])
        except errors.GpuClusterError as error:
            self._refusal(error)
            self._note(pod, key, str(error))
            return
        for line in text.splitlines()[self._taken.get(key, 0) :]:
            self._line(pod, key, line)
        if containers.end_of(status):
            self._complete.add(key)
        self._note(pod, key, TOO_LONG if len(text) >= MOST else "")

    def _refusal(self, error: errors.GpuClusterError) -> None:
        if isinstance(error, errors.ApiError) and error.denied:
            self.denied = errors.EnvironmentProblem(f"{error} (the run needs get on pods/log)")

    def _line(self, pod: str, key: Key, line: str) -> None:
        self._taken[key] = self._taken.get(key, 0) + 1
        facts = payload_lines.find(line)[0] if payload_lines.MARKER in line else ()
        self._said += [Said(key[0], str(fact.get("event") or ""), fact) for fact in facts]
        self._site.log.add(
            "LOG", self._scenario, {"pod": pod, "uid": key[0], "container": key[1], "line": line}
        )

    def _note(self, pod: str, key: Key, error: str = "") -> None:
        fields: Obj = {"note": "logs", "pod": pod, "uid": key[0], "container": key[1], "ok": not error}
        self._site.log.add("NOTE", self._scenario, {**fields, **({"error": error} if error else {})})


def _containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and status of each container of a pod, init containers first; {} without a status.

    An agent that admission put beside ours is left out: what it says is not ours to keep, and it has no end.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    foreign = containers.foreign(pod)
    known = {
        str(s.get("name")): s
        for part in ("initContainerStatuses", "containerStatuses")
        for s in status.get(part) or []
    }
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        name = str(container.get("name"))
        if name not in foreign:
            yield name, known.get(name) or {}
