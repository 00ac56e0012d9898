"""The health endpoint: `/healthz` says whether the gatekeeper is alive, `/readyz` whether it knows what it must."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextlib.contextmanager
def serving(port: int, alive: Callable[[], bool], ready: Callable[[], bool]) -> Iterator[int]:
    """Answer on a port and yield it; 0 takes any.

    Raises:
        OSError: the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = {"/healthz": alive, "/readyz": ready}.get(self.path)
            good = asked is not None and asked()
            self.send_response(200 if good else 404 if asked is None else 503)
            self.end_headers()
            self.wfile.write(b"ok\n" if good else b"no\n")

        def log_message(self, *_: object) -> None:
            """A probe every few seconds is no news."""

    server = ThreadingHTTPServer(("", port), Handler)
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
