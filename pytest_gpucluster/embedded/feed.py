"""What changed in the store, and how those who follow it are told."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Self

from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.plain.copies import clone

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"


@dataclass(eq=False)
class Change:
    """One write, shared by all who follow it; its objects must not be changed.

    Attributes:
        type: ADDED, MODIFIED or DELETED.
        key: Kind key of the object.
        obj: The object after the write (for DELETED: its last state, with the version of the deletion).
        old: The object before the write, None for ADDED.
        version: The resource version of the write.
    """

    type: str
    key: str
    obj: Obj
    old: Obj | None
    version: int
    _json: bytes | None = field(default=None, repr=False)

    def encoded(self) -> bytes:
        """Return the object as JSON, made once however many watches send it."""
        if self._json is None:
            self._json = json.dumps(self.obj, separators=(",", ":")).encode()
        return self._json


class Feed:
    """A queue of changes with one reader; closing it ends the reader."""

    def __init__(self) -> None:
        """Make an empty feed."""
        self._waiting: deque[Change] = deque()
        self._wake = asyncio.Event()
        self.closed = False

    def put(self, change: Change) -> None:
        """Hand a change to the reader."""
        if not self.closed:
            self._waiting.append(change)
            self._wake.set()

    def close(self) -> None:
        """Tell the reader that nothing more will come."""
        self.closed = True
        self._wake.set()

    def nudge(self) -> None:
        """Wake the reader although nothing has changed."""
        self._wake.set()

    def take(self) -> list[Change]:
        """Return all changes that wait, without waiting for more."""
        out = list(self._waiting)
        self._waiting.clear()
        if not self.closed:
            self._wake.clear()
        return out

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Wait until a change is there or the feed is closed; False when the time ran out."""
        if self._waiting or self.closed:
            return True
        if timeout is None:
            await self._wake.wait()
            return True
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True


class Subscription:
    """What a controller follows: `(type, kind key, object)`, beginning with all present objects.

    Objects are copies and belong to the receiver. Iteration ends after `close()`.
    """

    def __init__(self, feed: Feed, detach: "DetachFeed") -> None:
        """Read a feed; `detach` is called once on close."""
        self._feed = feed
        self._detach = detach
        self._ready: deque[Change] = deque()

    def pending(self) -> list[tuple[str, str, Obj]]:
        """Return everything that has happened since the last read, without waiting."""
        self._ready.extend(self._feed.take())
        out = [(c.type, c.key, clone(c.obj)) for c in self._ready]
        self._ready.clear()
        return out

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""
        return self._feed.closed

    def nudge(self) -> None:
        """Wake the reader in `wait`, for a reason of its own such as a timer."""
        self._feed.nudge()

    async def wait(self) -> None:
        """Wait until something has changed, `nudge` was called, or the subscription is closed."""
        if not self._ready:
            await self._feed.wait()

    async def batch(self) -> list[tuple[str, str, Obj]]:
        """Wait for at least one change and return all that wait; empty only after `close()`."""
        out = self.pending()
        while not out and not self._feed.closed:
            await self._feed.wait()
            out = self.pending()
        return out

    def close(self) -> None:
        """End the subscription and wake its reader."""
        self._feed.close()
        self._detach(self._feed)

    def __aiter__(self) -> AsyncIterator[tuple[str, str, Obj]]:
        """Iterate over changes."""
        return self

    async def __anext__(self) -> tuple[str, str, Obj]:
        """Return the next change."""
        while not self._ready:
            self._ready.extend(self._feed.take())
            if self._ready:
                break
            if self._feed.closed:
                raise StopAsyncIteration
            await self._feed.wait()
        change = self._ready.popleft()
        return change.type, change.key, clone(change.obj)

    def __enter__(self) -> Self:
        """Return the subscription."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()


class DetachFeed:
    """Removes a feed from the list of those that are told."""

    def __init__(self, feeds: dict[str, list[Feed]]) -> None:
        """Keep the lists of feeds by kind key."""
        self._feeds = feeds

    def __call__(self, feed: Feed) -> None:
        """Remove the feed from every kind."""
        for listed in self._feeds.values():
            if feed in listed:
                listed.remove(feed)


class History:
    """The last writes of one kind: what a watch can still be resumed from."""

    def __init__(self, depth: int) -> None:
        """Keep at most `depth` changes."""
        self._changes: deque[Change] = deque()
        self._depth = depth
        self.floor = 0

    def add(self, change: Change) -> None:
        """Append a change, dropping the oldest when full."""
        self._changes.append(change)
        if len(self._changes) > self._depth:
            self.floor = self._changes.popleft().version

    def since(self, version: int) -> list[Change] | None:
        """Return the changes after a version, None when some of them are gone."""
        if version < self.floor:
            return None
        newer: list[Change] = []
        for change in reversed(self._changes):
            if change.version <= version:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def compact(self, version: int) -> None:
        """Forget all; a watch from before `version` can no longer be resumed."""
        self._changes.clear()
        self.floor = version
