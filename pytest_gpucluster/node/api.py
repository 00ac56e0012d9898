"""A small client of the Kubernetes API: requests and watches over a Unix socket or a URL."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Self

import aiohttp

log = logging.getLogger(__name__)

Object = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"
# A watch that ends or breaks is opened again after this, doubled up to the limit while it fails.
RETRY_FIRST, RETRY_LIMIT = 0.05, 2.0


class ApiError(Exception):
    """An answer of the API server that is no success.

    Attributes:
        code: HTTP status code.
        reason: Reason of the Status object, empty where there is none.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        """Keep code, reason and message."""
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason


class Api:
    """Requests to one API server; an asynchronous context manager."""

    def __init__(self, *, socket: str | None, url: str, token: str | None = None) -> None:
        """Remember where the server is; nothing is opened yet."""
        self._socket = socket
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the session."""
        connector: aiohttp.BaseConnector = (
            aiohttp.UnixConnector(self._socket, limit=0) if self._socket else aiohttp.TCPConnector(limit=0)
        )
        timeout = aiohttp.ClientTimeout(total=None, connect=5, sock_connect=5)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, headers=self._headers)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        """Send one request and return the object of the answer.

        Raises:
            ApiError: when the answer is no success.
            aiohttp.ClientError: when the server cannot be reached.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data is not None else {}
        timeout = aiohttp.ClientTimeout(total=30)
        async with self._open(
            method, path, data=data, params=query, headers=headers, timeout=timeout
        ) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise _error(answer.status, text)
            result: Object = json.loads(text) if text else {}
            return result

    async def get(self, path: str) -> Object:
        """Read one object."""
        return await self.request("GET", path)

    async def create(self, path: str, body: Object) -> Object:
        """Create one object in a collection."""
        return await self.request("POST", path, body=body)

    async def patch(self, path: str, body: Object) -> Object:
        """Apply a JSON merge patch."""
        return await self.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def watch(self, path: str, version: str, query: Mapping[str, str]) -> AsyncGenerator[Object, None]:
        """Yield watch events of a collection after a resource version, until the server ends the stream.

        Raises:
            ApiError: when the server refuses the watch or reports an error in it (410: list again).
        """
        params = {**query, "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
        async with self._open("GET", path, params=params) as answer:
            if answer.status >= 300:
                raise _error(answer.status, await answer.read())
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        event: Object = json.loads(line)
                        if event.get("type") == "ERROR":
                            raise _error(0, json.dumps(event.get("object")).encode())
                        yield event

    def _open(self, method: str, path: str, **options: Any) -> "aiohttp.client._RequestContextManager":
        if self._session is None:
            raise RuntimeError("the API client is not open")
        return self._session.request(method, self._url + path, **options)


def _error(code: int, body: bytes) -> ApiError:
    try:
        status = json.loads(body)
    except ValueError:
        status = {"message": body.decode(errors="replace").strip()}
    if not isinstance(status, dict):
        status = {}
    return ApiError(
        code or int(status.get("code", 500)), str(status.get("reason", "")), str(status.get("message", ""))
    )


class Reflector:
    """Keeps the objects of one collection in step with the server and reports each change.

    Attributes:
        objects: (namespace, name) -> object, as last seen.
        synced: Set once the first list is in.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        on_change: Callable[[str, Object], None],
        query: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the collection; `run` does the work.

        Args:
            api: Where to ask.
            path: Path of the collection.
            on_change: Called with `ADDED`, `MODIFIED` or `DELETED` and the object, after `objects` is right.
            query: Selectors.
        """
        self._api = api
        self._path = path
        self._on_change = on_change
        self._query = dict(query or {})
        self.objects: dict[tuple[str, str], Object] = {}
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """List and watch until cancelled; broken connections are opened again."""
        delay = RETRY_FIRST
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list()
                    self.synced.set()
                async with contextlib.aclosing(self._api.watch(self._path, version, self._query)) as stream:
                    async for event in stream:
                        version = self._apply(event) or version
                        delay = RETRY_FIRST
            except ApiError as error:
                log.info("watch of %s: %s", self._path, error)
                version = ""
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                log.info("watch of %s: %s", self._path, error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, RETRY_LIMIT)

    async def _list(self) -> str:
        answer = await self._api.request("GET", self._path, query=self._query)
        found = {_key(item): item for item in answer.get("items", [])}
        for key in [key for key in self.objects if key not in found]:
            self._on_change("DELETED", self.objects.pop(key))
        for key, item in found.items():
            before = self.objects.get(key)
            self.objects[key] = item
            if before is None or before["metadata"].get("uid") != item["metadata"].get("uid"):
                if before is not None:
                    self._on_change("DELETED", before)
                self._on_change("ADDED", item)
            elif before["metadata"].get("resourceVersion") != item["metadata"].get("resourceVersion"):
                self._on_change("MODIFIED", item)
        return str(answer["metadata"]["resourceVersion"])

    def _apply(self, event: Object) -> str:
        item = event["object"]
        kind = event["type"]
        if kind != "BOOKMARK":
            if kind == "DELETED":
                self.objects.pop(_key(item), None)
            else:
                self.objects[_key(item)] = item
            self._on_change(kind, item)
        return str(item["metadata"].get("resourceVersion", ""))


def _key(item: Object) -> tuple[str, str]:
    meta = item["metadata"]
    return meta.get("namespace", ""), meta["name"]


async def wait_until_present(
    api: Api, collection: str, name: str, usable: Callable[[Object], bool] = bool
) -> None:
    """Return once an object of that name that can be used has been seen in a collection, woken by a watch."""
    seen = asyncio.Event()

    def note(kind: str, item: Object) -> None:
        if kind != "DELETED" and item["metadata"]["name"] == name and usable(item):
            seen.set()

    reflector = Reflector(api, collection, note, {"fieldSelector": f"metadata.name={name}"})
    task = asyncio.create_task(reflector.run())
    try:
        await seen.wait()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
