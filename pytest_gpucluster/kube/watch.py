"""One list-and-watch loop per kind, in a thread of its own, for as long as the session lasts.

The rules, which the tests hold it to:

1. List in pages; what is there comes as ADDED; remember the list's version.
2. Watch from that version with bookmarks, for a jittered minute to four, the read timeout a little longer.
3. A normal end or a broken connection resumes at the last version seen: nothing was missed, so coverage has no gap.
4. 410 (as answer or as ERROR event) lists again and emits the differences, and coverage has a gap.
5. 429 and 5xx wait (Retry-After, else doubling with jitter); three in a row list again.
6. 401 and 403 end the watch with one clear line; 404 ends it as `absent`: the API does not serve the kind.
7. A malformed event costs the connection, as a broken one does. Any error of our own costs the trust in all that was
   told: a gap with a reason, and a new list. Whatever ends the thread ends the coverage, and says why.
"""

import dataclasses
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pytest_gpucluster.kube import changes, errors, kinds, lateness, objects, receipts, stream
from pytest_gpucluster.kube import connection as connections
from pytest_gpucluster.kube import coverage as coverages
from pytest_gpucluster.plain import collector

Obj = dict[str, Any]

SHORTEST, LONGEST = 120.0, 300.0
"""Bounds of one watch request, in seconds; jittered so that many watches do not renew at once."""
SLACK = 10.0
"""How much longer than the watch the client waits before it takes silence for a dead connection, in seconds."""
FRUITLESS = 3
"""Error answers in a row after which the version is distrusted and the kind listed again."""
WORTHWHILE = 0.5
"""A stream that lived so long, in seconds, is resumed at once even if it said nothing."""


class Sink(Protocol):
    """Where a watch puts what it sees; called from the watch's thread. `t` is the clock's monotonic time."""

    def line(self, change: str, kind: str, obj: Obj, t: float) -> None:
        """Take one change: ADDED, MODIFIED or DELETED."""

    def in_sync(self, kind: str, t: float, how: str) -> None:
        """Note that from `t` on nothing is missed."""

    def out_of_sync(self, kind: str, t: float, why: str) -> None:
        """Note that from `t` on changes may be missed, until `in_sync` says since when they are not."""

    def ended(self, kind: str, error: errors.GpuClusterError) -> None:
        """Note that the kind cannot be watched at all."""


class _Expired(Exception):  # noqa: N818 (a turn of the loop, not an error)
    """The version can no longer be resumed from."""


@dataclasses.dataclass(frozen=True)
class Target:
    """What one watch follows.

    Attributes:
        info: the kind.
        namespace: of namespaced kinds; None for all.
        fields: field selector, "" for none.
    """

    info: kinds.KindInfo
    namespace: str | None = None
    fields: str = ""

    @property
    def place(self) -> str:
        """Return where, for texts."""
        return f" in namespace {self.namespace}" if self.namespace and self.info.namespaced else ""


class KindWatch:
    """Follows one kind until it is stopped.

    Attributes:
        target: what is followed.
        relists: how often the kind was listed.
        resumes: how often a watch was resumed without a list.
        coverage: for which time it is known to have told everything.
        receipts: when it told its last changes.
        api: the verbs by which it asks.
    """

    def __init__(
        self,
        api: objects.Objects,
        target: Target,
        sink: Sink,
        *,
        version: str | None = None,
        lean: Callable[[str, Obj], Obj] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Prepare.

        Args:
            api: the verbs.
            target: what is followed.
            sink: where it goes.
            version: start at a known version without a list (for what is known to be empty before).
            lean: takes from an object of a kind what nobody needs, before it is kept: of a large cluster all nodes
                are.
            rng: randomness of the jitter.
        """
        self.target = target
        self.relists = 0
        self.resumes = 0
        self.coverage = coverages.Coverage()
        self.receipts = receipts.Receipts()
        self.api = api
        self._sink = sink
        self._clock = api.connection.clock
        self._version = version
        self._seen: dict[tuple[str, str], Obj] = {}
        self._stamps: dict[tuple[str, str], tuple[str, int]] = {}
        self._lean = lean or (lambda _kind, obj: obj)
        self._rng = rng or random.Random()  # noqa: S311 (jitter)
        self._stop = threading.Event()
        self._guard = threading.Lock()
        self._stream: stream.Stream | None = None
        self._tries = 0
        self._doubts = 0
        self._retry_after: float | None = None
        self._heard = 0.0
        self._up = False
        self._thread = threading.Thread(target=self._run, name=f"watch {target.info.key}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; `join` waits for it."""
        self._stop.set()
        with self._guard:
            if self._stream is not None:
                self._stream.stop()

    def join(self, timeout: float = 2.0) -> bool:
        """Wait at most `timeout` seconds for the thread; report whether it ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def version(self) -> str | None:
        """Return the version up to which everything was told, None before the first list."""
        return self._version

    @property
    def heard(self) -> float:
        """Return when the server was last heard."""
        return self._heard

    def told(self, namespace: str, name: str, version: str) -> bool:
        """Report whether an object was told as it is since a version, or as it became later."""
        obj = self._seen.get((namespace, name))
        return obj is not None and changes.reaches(changes.version(obj), version)

    def _run(self) -> None:
        """Follow until stopped; nothing that happens in here leaves the coverage open behind it."""
        try:
            if self._version is not None:
                self._found(self._clock.monotonic(), f"from version {self._version}")
            while not self._stop.is_set():
                try:
                    if not self._turned():
                        return
                except Exception as error:  # noqa: BLE001 (whatever it is, what was told may not be whole)
                    self._distrust(error)
        except BaseException as error:  # noqa: BLE001 (the thread ends here; who waits for it must hear why)
            self._sink.ended(self.target.info.key, self._broken(error))
        finally:
            self.coverage.broken(self._heard)

    def _turned(self) -> bool:
        """Take one turn; report whether there is to be another."""
        try:
            self._turn()
        except _Expired as expired:
            self._lost(str(expired))
            self._version = None
            self._pause()
        except errors.ApiError as error:
            return self._survives(error)
        except errors.GpuClusterError as error:
            self._lost(str(error))
            self._pause()
        return True

    def _distrust(self, error: Exception) -> None:
        """Go on after an error of our own, with a new list and a gap that says why."""
        self.coverage.broken(self._heard)
        self._up = False
        self._sink.out_of_sync(self.target.info.key, self._heard, str(self._broken(error)))
        self._version = None
        self._pause()

    def _broken(self, error: BaseException) -> errors.EnvironmentProblem:
        words = " ".join(str(error).split())[:160]
        return errors.EnvironmentProblem(
            f"the watch of {self.target.info.plural}{self.target.place} failed by itself: "
            f"{type(error).__name__}: {words}".rstrip(": ")
        )

    def _turn(self) -> None:
        """List if need be, then watch until the stream ends."""
        if self._version is None or self._doubts >= FRUITLESS:
            self._list()
        self._watch()
        self._heard = self._clock.monotonic()  # a proper end: all that happened before it was said
        if not self._stop.is_set():
            self._lost("the server ended the watch")
            self._pause()

    def _survives(self, error: errors.ApiError) -> bool:
        """Decide after an error answer: go on (True), or end because the kind cannot be watched."""
        key = self.target.info.key
        if error.code == 410:
            self._lost("version too old")
            self._version = None
        elif error.code == 403 or (error.code == 401 and self._doubts >= FRUITLESS - 1):
            self._sink.ended(key, self._forbidden(error))
            return False
        elif error.code == 404:
            self._sink.ended(key, error)
            return False
        else:
            self._lost(str(error))
            self._retry_after = error.retry_after
            self._doubts += error.code != 429
        self._pause()
        return True

    def _forbidden(self, error: errors.ApiError) -> errors.EnvironmentProblem:
        info = self.target.info
        verb = error.request.partition(" ")[0]
        group = info.group or "core"
        return errors.EnvironmentProblem(
            f"not allowed to {verb} {info.plural} ({info.key}){self.target.place}: {error.message or error.reason} "
            f"(the run needs get, list and watch on {info.plural} of group {group})"
        )

    @collector.paused()
    def _list(self) -> None:
        key = self.target.info.key
        found: dict[tuple[str, str], Obj] = {}
        version = ""
        for page in self.api.pages(self.target.info, self.target.namespace, fields=self.target.fields):
            for item in page.get("items") or []:
                whole = objects.whole(changes.named(item, self.target.info.plural), self.target.info)
                obj = self._lean(key, whole)
                found[changes.place(obj)] = obj
                self._stamps[changes.place(obj)] = lateness.stamp_of(whole)
            version = str((page.get("metadata") or {}).get("resourceVersion") or "")
            if self._stop.is_set():
                return
        t = self._clock.monotonic()
        self.relists += 1
        for change, obj in changes.differences(self._seen, found):
            self._sink.line(change, key, obj, t)
        self._seen = found
        self._version = version
        self.receipts.listed(version, t)
        self._doubts = (
            0  # but not `_tries`: who lists and then refuses the watch must not be asked in a tight loop
        )
        self._heard = t
        self._found(t, "list" if self.relists == 1 else f"relist {self.relists}")

    def _watch(self) -> None:
        """Follow one watch request to its end."""
        seconds = self._rng.uniform(SHORTEST, LONGEST)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(seconds)),
            "resourceVersion": self._version or "0",
        }
        if self.target.fields:
            query["fieldSelector"] = self.target.fields
        opened = self._open(query, seconds)
        if opened is None:
            return
        begun = self._clock.monotonic()
        self._doubts = 0
        if not self._up:
            self.resumes += 1
            self._found(self._heard, f"resumed at version {self._version}", resumed=True)
        try:
            for line in opened.lines():
                self._take(line, self._clock.monotonic())
        finally:
            if self._clock.monotonic() - begun > WORTHWHILE:
                self._tries = 0
            with self._guard:
                self._stream = None

    def _open(self, query: Mapping[str, str], seconds: float) -> stream.Stream | None:
        info = self.target.info
        ask = connections.Ask(
            "watch",
            info.key,
            "GET",
            info.path(self.target.namespace),
            f"watch {info.plural}{self.target.place}",
            query=query,
        )
        opened = self.api.connection.stream(ask, read=seconds + SLACK)
        with self._guard:
            if self._stop.is_set():
                opened.stop()
                opened.close()
                return None
            self._stream = opened
        return opened

    def _take(self, line: bytes, t: float) -> None:
        change, obj = changes.event(line, self.target.info.plural)
        if change == "ERROR":
            self._error(obj)
        self._tries = 0
        if change == "BOOKMARK":
            self._heard = t
            self._version = changes.version(obj) or self._version
            return
        self._punctual(obj, t)
        key = self.target.info.key
        lean = self._lean(key, obj)
        place = changes.place(lean)
        before = self._seen.get(place)
        if change != "DELETED" and before is not None and changes.uid(before) != changes.uid(lean):
            self._sink.line("DELETED", key, before, t)
        self._sink.line(change, key, lean, t)
        # Only what the sink has is told: where it failed, a new list tells it again.
        if change == "DELETED":
            self._seen.pop(place, None)
            self._stamps.pop(place, None)
        else:
            self._seen[place] = lean
        self._heard = t
        self._version = changes.version(obj) or self._version
        self.receipts.told(changes.version(obj), t)

    def _punctual(self, obj: Obj, t: float) -> None:
        """Compare what an object newly says of its own time with the time at which it was told."""
        said, place = lateness.stamp_of(obj), changes.place(obj)
        if said <= self._stamps.get(place, ("", 0)):
            return
        self._stamps[place] = said
        written = self.api.skew.contradicts(said[0], t)
        if written is not None and t - written > lateness.BUSY:
            self.coverage.late(max(written, self._heard if written == float("-inf") else written), t)

    def _error(self, status: Mapping[str, Any]) -> None:
        if status.get("code") == 410 or status.get("reason") in {"Expired", "Gone"}:
            raise _Expired("version too old")
        raise errors.ApiError(
            int(status.get("code") or 500),
            str(status.get("reason") or "Error"),
            str(status.get("message") or ""),
            body=status,
            request=f"watch {self.target.info.plural}{self.target.place}",
        )

    def _found(self, t: float, how: str, *, resumed: bool = False) -> None:
        """Note that nothing is missed from `t` on; nor before, where the stream was resumed."""
        self._up = True
        self._heard = t
        if resumed:
            self.coverage.resumed()
        else:
            self.coverage.listed(t, how)
        self._sink.in_sync(self.target.info.key, t, how)

    def _lost(self, why: str) -> None:
        """Note that the stream is down since it was last heard."""
        if self._up:
            self._up = False
            self.coverage.lost(self._heard)
            self._sink.out_of_sync(self.target.info.key, self._heard, why)

    def _pause(self) -> None:
        """Wait before the next try: nothing after a stream that was worth it, else doubling with jitter."""
        self._tries += 1
        asked, self._retry_after = self._retry_after, None
        limits = self.api.connection.limits
        if asked is None:
            if self._tries == 1:
                return
            most = min(limits.longest_pause, limits.first_pause * 2 ** min(self._tries - 2, 10))
            asked = self._rng.uniform(most / 2, most)
        self._clock.pause(self._stop, min(asked, limits.longest_pause))
