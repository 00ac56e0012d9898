"""Watches: changes as lines of JSON, resumed from a version, kept alive with bookmarks."""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from pytest_gpucluster.embedded.api.bodies import encode, is_true
from pytest_gpucluster.embedded.api.rendering import Rendering
from pytest_gpucluster.embedded.api.selection import Predicate, selection
from pytest_gpucluster.embedded.errors import ApiError, bad_request
from pytest_gpucluster.embedded.feed import ADDED, DELETED, MODIFIED, Change, Feed
from pytest_gpucluster.embedded.objects import Obj, version_of
from pytest_gpucluster.embedded.resources import ResourceType
from pytest_gpucluster.embedded.store import Store

LONGEST = (1800.0, 3600.0)
"""Seconds after which a watch without timeoutSeconds is closed, drawn at random as kube-apiserver does."""

BEFORE_END = 2.0
"""Seconds before the end of its time at which a watch is sent a bookmark, as kube-apiserver's cache does."""

INITIAL_END = "k8s.io/initial-events-end"


@dataclass(frozen=True)
class WatchOptions:
    """How watches are served.

    Attributes:
        bookmark_seconds: Time between two bookmarks of a quiet or busy watch.
        drop_seconds: When set, connections are cut after this time without an end (fault injection).
    """

    bookmark_seconds: float
    drop_seconds: float | None = None


def visible(change: Change, select: Predicate) -> tuple[str, Obj] | None:
    """Return a change as a watch with a selector sees it, None when it does not.

    An object that enters the selection is ADDED, one that leaves it is DELETED.
    """
    before = change.old is not None and select(change.old)
    after = change.type != DELETED and select(change.obj)
    if change.type == DELETED:
        return (DELETED, change.obj) if before or select(change.obj) else None
    if after:
        return (MODIFIED if before else ADDED), change.obj
    if before and change.old is not None:
        meta = {**change.old["metadata"], "resourceVersion": change.obj["metadata"]["resourceVersion"]}
        return DELETED, {**change.old, "metadata": meta}
    return None


def bookmark(row: ResourceType, version: int, *, initial_end: bool = False) -> bytes:
    """Return the line of a bookmark."""
    meta: Obj = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial_end:
        meta["annotations"] = {INITIAL_END: "true"}
    obj = {"kind": row.kind, "apiVersion": row.api_version, "metadata": meta}
    return encode({"type": "BOOKMARK", "object": obj}) + b"\n"


@dataclass
class Watch:
    """One watch being served."""

    store: Store
    row: ResourceType
    namespace: str | None
    select: Predicate
    rendering: Rendering
    version: int

    def line(self, kind: str, obj: Obj, encoded: bytes | None = None) -> bytes:
        """Return the line of an event."""
        body = encoded if encoded is not None else self.rendering.event(self.row, obj)
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)

    def lines(self, feed: Feed) -> bytes:
        """Return the lines of everything that waits in the feed."""
        out: list[bytes] = []
        for change in feed.take():
            self.version = change.version
            if self.namespace and change.obj["metadata"].get("namespace") != self.namespace:
                continue
            seen = visible(change, self.select)
            if seen is not None:
                plain = self.rendering.plain and seen[1] is change.obj
                out.append(self.line(*seen, change.encoded() if plain else None))
        self.version = max(self.version, self.store.version)
        return b"".join(out)

    def present(self) -> bytes:
        """Return an ADDED line for every selected object, in order of version."""
        found = self.store.peek_all(self.row.key, self.namespace, self.select)
        return b"".join(self.line(ADDED, o) for o in sorted(found, key=version_of))


async def serve_watch(
    request: web.Request,
    store: Store,
    row: ResourceType,
    *,
    namespace: str | None,
    name: str | None,
    options: WatchOptions,
    rendering: Rendering,
) -> web.StreamResponse:
    """Answer a watch request until its time is over or the client leaves.

    Raises:
        ApiError: 400 for a version that is no number, 410 for one that is too old.
    """
    query = request.query
    select = selection(row, query, name)
    since, initial = _begin(query)
    since = min(since, store.version)  # a version of the future: nothing can have been missed
    feed = store.follow(row.key, since or store.version)
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache"})
    try:
        await response.prepare(request)
        watch = Watch(store, row, namespace, select, rendering, since or store.version)
        if initial:
            await response.write(watch.present())
        if is_true(query, "sendInitialEvents") and "sendInitialEvents" in query:
            await response.write(bookmark(row, store.version, initial_end=True))
        await _stream(request, response, watch, feed, options)
    except (ConnectionResetError, ConnectionError):
        return response  # the client has left
    finally:
        store.unfollow(feed)
    return response


def _begin(query: Mapping[str, str]) -> tuple[int, bool]:
    """Return the version to resume from (0: now) and whether present objects come first."""
    text = query.get("resourceVersion", "")
    if text and not text.isdigit():
        raise bad_request(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}"')
    since = int(text or 0)
    if "sendInitialEvents" in query:
        initial = is_true(query, "sendInitialEvents")
        return (0 if initial else since), initial
    return since, since == 0


async def _stream(
    request: web.Request, response: web.StreamResponse, watch: Watch, feed: Feed, options: WatchOptions
) -> None:
    query = request.query
    bookmarks = is_true(query, "allowWatchBookmarks")
    limit = float(query.get("timeoutSeconds") or 0) or random.uniform(*LONGEST)  # noqa: S311
    start = time.monotonic()
    end = start + limit
    drop = start + options.drop_seconds if options.drop_seconds else float("inf")
    next_bookmark = start + options.bookmark_seconds
    if start < end - BEFORE_END:
        next_bookmark = min(next_bookmark, end - BEFORE_END)
    while not feed.closed:
        now = time.monotonic()
        if now >= drop:
            if request.transport is not None:
                request.transport.abort()
            return
        if now >= end:
            break
        if bookmarks and now >= next_bookmark:
            next_bookmark = now + options.bookmark_seconds
            if now < end - BEFORE_END:
                next_bookmark = min(next_bookmark, end - BEFORE_END)
            # What waits comes first, so that the bookmark may say the present version.
            text = watch.lines(feed)
            await response.write(text + bookmark(watch.row, watch.version))
        until = min(end, drop, next_bookmark if bookmarks else end)
        if await feed.wait(max(until - now, 0.001)):
            text = watch.lines(feed)
            if text:
                await response.write(text)
    if bookmarks:
        await response.write(bookmark(watch.row, watch.version))
    await response.write_eof()


def error_line(error: ApiError) -> bytes:
    """Return the ERROR event that ends a watch."""
    return encode({"type": "ERROR", "object": error.status()}) + b"\n"


async def refuse_watch(request: web.Request, error: ApiError) -> web.StreamResponse:
    """Answer a watch with an ERROR event, as the API server does for a version that is too old."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(error_line(error))
    await response.write_eof()
    return response


async def hang(request: web.Request) -> None:
    """Answer nothing until the client leaves (fault injection)."""
    del request
    await asyncio.Event().wait()
