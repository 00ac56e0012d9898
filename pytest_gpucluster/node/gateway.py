"""How pods reach the API server: a TCP port on the pods' bridge, behind which its TLS socket answers."""

import asyncio
from typing import Self

from pytest_gpucluster.node.port_relay import copy

PORT = 443


class Gateway:
    """Relays from the bridge to a Unix socket on which the API server speaks TLS; an asynchronous context manager."""

    def __init__(self, address: str, socket: str) -> None:
        """Describe; nothing listens yet."""
        self._address = address
        self._socket = socket
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, self._address, PORT)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._socket)
        except OSError:
            writer.close()  # The control plane is gone.
            return
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))


def variables(address: str) -> dict[str, str]:
    """Return the variables by which clients in pods find the API server."""
    return {
        "KUBERNETES_SERVICE_HOST": address,
        "KUBERNETES_SERVICE_PORT": str(PORT),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(PORT),
    }
