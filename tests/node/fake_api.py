"""A tiny API server for the node tests: a store, watches, merge patches, deletion with grace. No validation."""

import asyncio
import contextlib
import itertools
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from aiohttp import web

Object = dict[str, Any]


def merge(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


COLLECTIONS = ("pods", "services", "nodes", "configmaps", "secrets", "persistentvolumeclaims")
"""What can be listed."""


class FakeApi:
    """Serves on a Unix socket from a thread; the test calls it directly, without HTTP."""

    def __init__(self, socket: Path) -> None:
        """Describe; nothing listens yet."""
        self.socket = str(socket)
        self.url = ""
        self.requests: list[tuple[str, str]] = []
        self.history: list[tuple[str, str, Object]] = []  # (type, collection, object)
        self._store: dict[str, Object] = {}
        self._versions = itertools.count(1)
        self._version = 0
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._queues: list[tuple[str, asyncio.Queue[Object]]] = []
        self._runner: web.AppRunner | None = None
        self._telling = asyncio.Event()
        self._telling.set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(5)
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop listening."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.UnixSite(self._runner, self.socket).start()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[-1][1]}"

    async def _stop(self) -> None:
        for _, queue in self._queues:
            queue.put_nowait({})
        assert self._runner is not None
        await self._runner.cleanup()

    # What tests use.

    def create(self, collection: str, obj: Object) -> Object:
        """Create an object in a collection such as `/api/v1/namespaces/default/pods`."""
        return self._call(lambda: self._create(collection, obj))

    def delete(self, path: str, grace: int | None = None) -> None:
        """Delete an object; a bound pod gets a deletionTimestamp."""
        self._call(lambda: self._delete(path, grace))

    def patch(self, path: str, change: Object) -> Object:
        """Merge a change into an object."""
        return self._call(lambda: self._save(path, merge(self._store[path], change)))

    def get(self, path: str) -> Object | None:
        """Return an object as it is now."""
        return self._store.get(path)

    def wait(self, condition: Callable[[], Any], seconds: float = 20, what: str = "") -> Any:
        """Wait, woken by changes, until a condition holds; return what it returned."""
        with self._changed:
            assert self._changed.wait_for(condition, seconds), f"not within {seconds} s: {what or condition}"
            return condition()

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """Return (type, reason, message) of the events about an object."""
        return [
            (o["type"], o["reason"], o["message"])
            for o in list(self._store.values())
            if o.get("kind") == "Event" and o["involvedObject"]["name"] == name
        ]

    @contextlib.contextmanager
    def late(self) -> Iterator[None]:
        """Tell watchers nothing meanwhile; they get it all afterwards."""
        self._call(self._telling.clear)
        try:
            yield
        finally:
            self._call(self._telling.set)

    def _call(self, work: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(5)

    # The server.

    def _save(self, path: str, obj: Object, kind: str = "MODIFIED") -> Object:
        if kind == "MODIFIED":
            without = {k: v for k, v in obj.items() if k != "metadata"}
            old = self._store[path]
            if (
                without == {k: v for k, v in old.items() if k != "metadata"}
                and obj["metadata"] == old["metadata"]
            ):
                return old
        with self._changed:
            self._version = next(self._versions)
            obj["metadata"]["resourceVersion"] = str(self._version)
            if kind == "DELETED":
                del self._store[path]
            else:
                self._store[path] = obj
            self.history.append((kind, path.rpartition("/")[0], json.loads(json.dumps(obj))))
            self._changed.notify_all()
        for prefix, queue in self._queues:
            if _inside(path, prefix):
                queue.put_nowait({"type": kind, "object": obj})
        return obj

    def _create(self, collection: str, obj: Object) -> Object:
        obj = json.loads(json.dumps(obj))
        parts = collection.split("/")
        if "namespaces" in parts:
            obj["metadata"]["namespace"] = parts[parts.index("namespaces") + 1]
        path = f"{collection}/{obj['metadata']['name']}"
        if path in self._store:
            raise web.HTTPConflict
        obj["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
        if collection.endswith("/pods"):
            obj.setdefault("status", {"phase": "Pending"})
        return self._save(path, obj, "ADDED")

    def _delete(self, path: str, grace: int | None) -> Object:
        obj = self._store.get(path)
        if obj is None:
            raise web.HTTPNotFound
        if "/pods/" in path and grace != 0 and obj["spec"].get("nodeName"):
            seconds = obj["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
            stamp = {"deletionTimestamp": _now(), "deletionGracePeriodSeconds": seconds}
            return self._save(path, merge(obj, {"metadata": stamp}))
        return self._save(path, dict(obj), "DELETED")

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path, query = "/" + request.match_info["path"], request.query
        with self._changed:
            self.requests.append((request.method, path))
            self._changed.notify_all()
        body = json.loads(await request.read() or b"null")
        base = path.removesuffix("/status")
        try:
            match request.method:
                case "POST":
                    return web.json_response(self._create(path, body), status=201)
                case "PATCH":
                    uid = body.get("metadata", {}).pop("uid", None)
                    if uid is not None and self._store[base]["metadata"]["uid"] != uid:
                        raise web.HTTPConflict
                    return web.json_response(self._save(base, merge(self._store[base], body)))
                case "DELETE":
                    return web.json_response(self._delete(path, (body or {}).get("gracePeriodSeconds")))
            if query.get("watch"):
                return await self._watch(request, path, int(query.get("resourceVersion") or 0))
            if path in self._store:
                return web.json_response(self._store[path])
        except KeyError:
            raise web.HTTPNotFound from None
        if path.rpartition("/")[2] not in COLLECTIONS:
            raise web.HTTPNotFound
        items = [obj for key, obj in self._store.items() if _inside(key, path)]
        return web.json_response({"items": items, "metadata": {"resourceVersion": str(self._version)}})

    async def _watch(self, request: web.Request, path: str, since: int) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        entry: tuple[str, asyncio.Queue[Object]] = (path, asyncio.Queue())
        for kind, collection, obj in self.history:
            if int(obj["metadata"]["resourceVersion"]) > since and _inside(f"{collection}/x", path):
                entry[1].put_nowait({"type": kind, "object": obj})
        self._queues.append(entry)
        try:
            while event := await entry[1].get():
                await self._telling.wait()
                await response.write(json.dumps(event).encode() + b"\n")
        finally:
            self._queues.remove(entry)
        return response


def _inside(path: str, collection: str) -> bool:
    own, wanted = path.split("/")[:-1], collection.split("/")
    if own == wanted:
        return True
    if "namespaces" in own and "namespaces" not in wanted:  # a watch over all namespaces
        at = own.index("namespaces")
        return own[:at] + own[at + 2 :] == wanted
    return False


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
