"""A small HTTP API with the faults that a driver must survive; it shares nothing with the embedded cluster."""

import contextlib
import http.server
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

Obj = dict[str, Any]


@dataclass
class Fault:
    """What happens to requests that match, `times` times.

    Attributes:
        match: chooses by (method, path, query).
        status: answer with this status; 0 resets the connection; -1 stays silent until the server closes.
    """

    match: Callable[[str, str, dict[str, str]], bool]
    status: int
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "planted"
    body: bytes | None = None


def listing(method: str, path: str, query: dict[str, str]) -> bool:
    """Match list requests."""
    return method == "GET" and "watch" not in query and path.rpartition("/")[2] == "pods"


def watching(method: str, path: str, query: dict[str, str]) -> bool:
    """Match watch requests."""
    return method == "GET" and "watch" in query


def anything(method: str, path: str, query: dict[str, str]) -> bool:
    """Match all requests."""
    return True


class FakeApi:
    """Pods of one namespace, a version counter, a history to watch, and planted faults."""

    def __init__(self) -> None:
        """Start serving, empty."""
        self.lock = threading.Condition()
        self.objects: dict[str, Obj] = {}
        self.history: list[tuple[int, str, Obj]] = []
        self.version = 100
        self.floor = 0
        self.page = 500
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.epoch = 0
        self.watchers = 0
        self.proper = True
        self.closing = False
        self.uid = 0
        self.tokens: list[str | None] = []
        self.answers: list[tuple[str, str, bytes | None]] = []
        api = self

        class Handler(_Handler):
            fake = api

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a dropped client is the point
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        """End all streams and the server."""
        with self.lock:
            self.closing = True
            self.lock.notify_all()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    # -- changing the state --------------------------------------------------------------------------------------

    def put(self, name: str, *, same: bool = True, **spec: Any) -> None:
        """Create or change a pod; `same=False` replaces it by another of the same name."""
        with self.lock:
            self.version += 1
            old = self.objects.get(name)
            if old is not None and not same:
                self._append(
                    "DELETED", {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
                )
                self.version += 1
                old = None
            if old is None:
                self.uid += 1
            uid = old["metadata"]["uid"] if old else f"u{self.uid}"
            obj = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": "ns",
                    "uid": uid,
                    "resourceVersion": str(self.version),
                },
                "spec": spec,
            }
            self.objects[name] = obj
            self._append("MODIFIED" if old else "ADDED", obj)

    def remove(self, name: str) -> None:
        """Delete a pod."""
        with self.lock:
            old = self.objects.pop(name, None)
            if old is not None:
                self.version += 1
                meta = {**old["metadata"], "resourceVersion": str(self.version)}
                self._append("DELETED", {**old, "metadata": meta})

    def watched(self) -> None:
        """Wait until somebody watches."""
        with self.lock:
            assert self.lock.wait_for(lambda: self.watchers > 0, 10)

    def compact(self) -> None:
        """Forget the history: watches from before now get 410."""
        with self.lock:
            self.history.clear()
            self.floor = self.version

    def drop(self, *, proper: bool = False) -> None:
        """End all watch streams: properly, or by cutting the connection."""
        with self.lock:
            self.epoch += 1
            self.watchers = 0
            self.proper = proper
            self.lock.notify_all()

    def fail(self, match: Callable[..., bool], status: int, times: int = 1, **more: Any) -> None:
        """Plant a fault."""
        with self.lock:
            self.faults.append(Fault(match, status, times, **more))

    def count(self, match: Callable[..., bool]) -> int:
        """Return how many requests matched."""
        with self.lock:
            return sum(match(*request) for request in self.requests)

    def _append(self, change: str, obj: Obj) -> None:
        self.history.append((self.version, change, obj))
        self.lock.notify_all()

    def fault_for(self, method: str, path: str, query: dict[str, str]) -> Fault | None:
        """Remember a request and return the fault planted for it, if any."""
        with self.lock:
            self.requests.append((method, path, query))
            for fault in self.faults:
                if fault.times > 0 and fault.match(method, path, query):
                    fault.times -= 1
                    return fault
        return None


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeApi

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay quiet."""

    def _any(self) -> None:
        url = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        with self.fake.lock:
            self.fake.answers.append((self.command, self.path, body))
            self.fake.tokens.append(self.headers.get("Authorization"))
        fault = self.fake.fault_for(self.command, url.path, query)
        if fault is not None:
            self._planted(fault)
        elif "watch" in query:
            self._watch(query)
        elif url.path.endswith("/pods") and self.command == "GET":
            self._list(query)
        else:
            self._answer(200, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "uid": "u"}})

    do_GET = do_POST = do_DELETE = do_PATCH = _any  # noqa: N815 (the names that http.server calls)

    def _planted(self, fault: Fault) -> None:
        if fault.status == 0:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()
            raise ConnectionAbortedError
        if fault.status < 0:
            with self.fake.lock:
                self.fake.lock.wait_for(lambda: self.fake.closing)
            raise ConnectionAbortedError
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": fault.status,
            "message": fault.message,
        }
        self._answer(fault.status, status, fault.headers, fault.body)

    def _answer(
        self, code: int, body: Obj, headers: dict[str, str] | None = None, raw: bytes | None = None
    ) -> None:
        data = json.dumps(body).encode() if raw is None else raw
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def _list(self, query: dict[str, str]) -> None:
        fake = self.fake
        with fake.lock:
            items = list(fake.objects.values())
            version = fake.version
        start = int(query.get("continue", "0"))
        size = min(int(query.get("limit", "500")), fake.page)
        meta: Obj = {"resourceVersion": str(version)}
        if start + size < len(items):
            meta["continue"] = str(start + size)
        page = [
            {k: v for k, v in o.items() if k not in {"apiVersion", "kind"}}
            for o in items[start : start + size]
        ]
        self._answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": page})

    def _watch(self, query: dict[str, str]) -> None:
        fake = self.fake
        version = int(query["resourceVersion"])
        with fake.lock:
            epoch = fake.epoch
            fake.watchers += 1
            fake.lock.notify_all()
            expired = version < fake.floor
        if expired:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            self._stream_head()
            self._chunk({"type": "ERROR", "object": gone})
            self._chunk(None)
            return
        self._stream_head()
        while news := self._news(version, epoch):
            for _, change, obj in news:
                self._chunk({"type": change, "object": obj})
            version = news[-1][0]
        if fake.proper and not fake.closing:
            self._chunk(None)
        else:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    def _news(self, version: int, epoch: int) -> list[tuple[int, str, Obj]]:
        """Wait for changes after a version; nothing when the stream has to end."""
        fake = self.fake

        def over() -> bool:
            return fake.closing or fake.epoch != epoch

        def newer() -> list[tuple[int, str, Obj]]:
            return [entry for entry in fake.history if entry[0] > version]

        with fake.lock:
            fake.lock.wait_for(lambda: over() or newer())
            return [] if over() else newer()

    def _stream_head(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, event: Obj | None) -> None:
        data = b"" if event is None else json.dumps(event).encode() + b"\n"
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


@contextlib.contextmanager
def serving() -> Iterator[FakeApi]:
    """Run a fake API for the length of a block."""
    fake = FakeApi()
    try:
        yield fake
    finally:
        fake.close()
