"""A way out of the sandbox: a Unix socket behind which an API server on the network answers.

The sandbox has a network of its own and cannot reach the machine's. Where the API server is given by URL, the
supervising process, which stays outside, relays: plain HTTP on the socket, TCP or TLS to the server.
"""

import asyncio
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

CHUNK = 65536


@dataclass(frozen=True)
class Upstream:
    """Where an API server is.

    Attributes:
        host: Host name or address.
        port: Port.
        path: Path before `/api`, usually empty.
        tls: How TLS is spoken, None for plain HTTP.
    """

    host: str
    port: int
    path: str
    tls: ssl.SSLContext | None

    @classmethod
    def from_config(cls, raw: Mapping[str, Any]) -> "Upstream":
        """Read `api_url`, `api_ca` (a file), `api_cert` and `api_key` (files), `api_insecure`.

        Raises:
            ValueError: when the URL has another scheme or no host, or a file cannot be used.
        """
        parts = urlsplit(str(raw["api_url"]))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"api_url must be http://HOST or https://HOST, got {raw['api_url']!r}")
        secure = parts.scheme == "https"
        try:
            tls = _tls(raw) if secure else None
        except OSError as error:  # ssl.SSLError is one
            raise ValueError(f"api_ca, api_cert or api_key cannot be used: {error}") from error
        return cls(parts.hostname, parts.port or (443 if secure else 80), parts.path.rstrip("/"), tls)


def _tls(raw: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=raw.get("api_ca"))
    if raw.get("api_cert"):
        context.load_cert_chain(raw["api_cert"], raw.get("api_key"))
    if raw.get("api_insecure"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class Relay:
    """Relays from a Unix socket to a server, in a thread; a context manager."""

    def __init__(self, socket: Path, upstream: Upstream) -> None:
        """Describe; nothing listens yet."""
        self._socket = socket
        self._upstream = upstream
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        self._socket.unlink(missing_ok=True)
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop listening."""
        self._socket.unlink(missing_ok=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _listen(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, str(self._socket))
        self._socket.chmod(0o600)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up = self._upstream
        try:
            far_reader, far_writer = await asyncio.open_connection(up.host, up.port, ssl=up.tls)
        except OSError as error:
            text = f"the API server at {up.host}:{up.port} cannot be reached: {error}"
            head = f"HTTP/1.1 502 Bad Gateway\r\nContent-Length: {len(text.encode())}\r\nConnection: close\r\n\r\n"
            writer.write((head + text).encode())
            writer.close()
            return
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes from one end to the other until either closes."""
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()
