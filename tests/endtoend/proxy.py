"""A proxy before an API server that holds back or poisons what watches tell: nothing is lost, nothing is refused."""

import contextlib
import dataclasses
import http.client
import http.server
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

HOP = frozenset({"connection", "content-length", "host", "transfer-encoding", "accept-encoding"})
"""Headers that are of one connection, and no business of the other."""


@dataclasses.dataclass
class Hold:
    """Holds back all that the watches of one kind tell, for some seconds from the first line that matches on.

    Attributes:
        plural: resource name.
        words: all of these stand in the line that begins it.
        seconds: how long.
        begun: set when it has begun.
    """

    plural: str
    words: tuple[bytes, ...]
    seconds: float
    begun: threading.Event = dataclasses.field(default_factory=threading.Event)


@dataclasses.dataclass
class Poison:
    """Puts one line into the first watch of a kind, before the first line that matches.

    Attributes:
        plural: resource name.
        words: all of these stand in the line before which it comes.
        line: the line.
        given: set when it was given.
    """

    plural: str
    words: tuple[bytes, ...]
    line: bytes
    given: threading.Event = dataclasses.field(default_factory=threading.Event)


class Proxy:
    """A proxy with at most one attack.

    Attributes:
        requests: method and path of each request, in the order in which they came.
    """

    def __init__(self, upstream: str) -> None:
        """Serve on a port of this machine, for an API server without TLS."""
        self.upstream = urlsplit(upstream)
        self.attack: Hold | Poison | None = None
        self.closing = threading.Event()
        self.requests: list[str] = []
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients leave in the middle
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        """End it, and what it holds back."""
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def attacked(self, path: str, line: bytes) -> Iterator[bytes]:
        """Yield what becomes of a line of a watch, in its time."""
        attack = self.attack
        hit = (
            attack is not None and path.endswith(f"/{attack.plural}") and all(w in line for w in attack.words)
        )
        if isinstance(attack, Poison) and hit and not attack.given.is_set():
            attack.given.set()
            yield attack.line
        if isinstance(attack, Hold) and hit and not attack.begun.is_set():
            attack.begun.set()
            self.closing.wait(attack.seconds)
        yield line


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Proxy

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay quiet."""

    def _any(self) -> None:
        upstream = self.owner.upstream
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size) if size else None
        sent = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        url = urlsplit(self.path)
        self.owner.requests.append(f"{self.command} {url.path}")
        asked = parse_qs(url.query)
        stream = asked.get("watch") == ["true"] or asked.get("follow") == ["true"]
        link = http.client.HTTPConnection(
            str(upstream.hostname), upstream.port, timeout=600 if stream else 60
        )
        with contextlib.closing(link):
            link.request(self.command, self.path, body=body, headers=sent)
            answer = link.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP:
                    self.send_header(name, value)
            if stream and answer.status == 200:
                self._stream(url.path, answer)
                return
            data = answer.read()
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815 (the names that http.server calls)

    def _stream(self, path: str, answer: http.client.HTTPResponse) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while line := answer.readline():
            for each in self.owner.attacked(path, line):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(each), each))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


@contextlib.contextmanager
def before(upstream: str) -> Iterator[Proxy]:
    """Run a proxy for the length of a block."""
    made = Proxy(upstream)
    try:
        yield made
    finally:
        made.close()
