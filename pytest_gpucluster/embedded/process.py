"""The process: reads its configuration, serves, and ends when its owner does."""

import asyncio
import json
import os
import signal
import ssl
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pytest_gpucluster.embedded import defect_table
from pytest_gpucluster.embedded.access.users import Tokens
from pytest_gpucluster.embedded.api.faults import Faults
from pytest_gpucluster.embedded.kueue import settings as kueue_settings
from pytest_gpucluster.embedded.native.gates import Gates

KNOWN_KEYS = frozenset({
    "host", "port", "socket", "defects", "scheduler_period", "version", "owner_pid", "volcano",
    "default_queue_ready_delay", "faults", "bookmark_seconds", "job_backoff_seconds", "volcano_scheduler_conf",
    "tokens", "tls", "jobset", "kueue", "feature_gates", "pod_socket", "pod_address", "switchable", "volumes",
    "networks",
})  # fmt: skip

SHUTDOWN_SECONDS = 1.0
"""How long open requests may go on once the end was asked for."""


class ConfigError(ValueError):
    """A configuration that cannot be used; its text is one line for the operator."""


def read_config(line: str) -> dict[str, Any]:
    """Return the configuration of the first line of standard input.

    Raises:
        ConfigError: when it is no JSON object, has an unknown key, or asks for an unknown defect.
    """
    try:
        config = json.loads(line or "{}")
    except ValueError as error:
        raise ConfigError(f"the configuration is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ConfigError("the configuration must be a JSON object")
    unknown = sorted(set(config) - KNOWN_KEYS)
    if unknown:
        raise ConfigError(f"unknown configuration keys: {', '.join(unknown)}")
    wrong = defect_table.unknown_defects(config.get("defects") or ())
    if wrong:
        known = ", ".join(sorted(defect_table.DEFECTS))
        raise ConfigError(f"unknown defects: {', '.join(wrong)} (there are: {known})")
    try:
        Faults.of(config.get("faults"))
        Tokens.of(config.get("tokens"))
        kueue_settings.Settings.of(config.get("kueue"))
        Gates.of(config)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return config


def say(message: Mapping[str, Any]) -> None:
    """Write one JSON line to standard output."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def watch_owner(loop: asyncio.AbstractEventLoop, done: asyncio.Event, owner: int | None) -> ExitStack:
    """End with signals, with the end of standard input, and with the owner process.

    Returns:
        What undoes it.
    """
    stack = ExitStack()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, done.set)
        stack.callback(loop.remove_signal_handler, number)

    def on_input() -> None:
        if not os.read(sys.stdin.fileno(), 65536):
            loop.remove_reader(sys.stdin.fileno())
            done.set()

    loop.add_reader(sys.stdin.fileno(), on_input)
    stack.callback(loop.remove_reader, sys.stdin.fileno())
    if owner is not None:
        try:
            fd = os.pidfd_open(owner)
        except ProcessLookupError:
            done.set()  # it has ended already
            return stack
        stack.callback(os.close, fd)
        loop.add_reader(fd, done.set)
        stack.callback(loop.remove_reader, fd)
    return stack


def remove_socket(path: str) -> None:
    """Remove a socket file, left over or our own."""
    Path(path).unlink(missing_ok=True)


async def serve(config: Mapping[str, Any]) -> int:
    """Run the control plane until it is told to end; return the exit status."""
    from aiohttp import web

    from pytest_gpucluster.embedded.access.certificate import new_pair
    from pytest_gpucluster.embedded.api.server import ApiServer
    from pytest_gpucluster.embedded.cluster import build
    from pytest_gpucluster.embedded.controllers import pod_accounts

    runtime = build(config)
    server = ApiServer(runtime)
    runner = web.AppRunner(
        server.app(), access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS
    )
    await runner.setup()
    done = asyncio.Event()
    socket = config.get("socket")
    pair = new_pair() if config.get("tls") else None
    inner = str(config.get("pod_socket") or "")
    try:
        try:
            site = web.TCPSite(runner, str(config.get("host") or "127.0.0.1"), int(config.get("port") or 0))
            await site.start()
            if pair is not None:
                await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=pair.context()).start()
            if socket:
                remove_socket(socket)
                await web.UnixSite(runner, str(socket)).start()
            if inner:
                # Pods reach it through their nodes, at an address of theirs; the first of them comes much later.
                theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                remove_socket(inner)
                await web.UnixSite(runner, inner, ssl_context=theirs).start()
                pod_accounts.start(runtime, theirs, str(config.get("pod_address") or "127.0.0.1"))
        except OSError as error:
            say({"error": f"cannot listen: {error}"})
            return 2
        host, port = runner.addresses[0][:2]
        owner = config.get("owner_pid")
        with watch_owner(asyncio.get_running_loop(), done, None if owner is None else int(owner)):
            ready = {"ready": True, "url": f"http://{host}:{port}", "socket": socket, "pid": os.getpid()}
            if pair is not None:
                secure = {"url": "https://{}:{}".format(*runner.addresses[1][:2]), "ca": pair.certificate}
                ready["tls"] = secure
            say(ready)
            ends = [asyncio.ensure_future(e.wait()) for e in (done, runtime.crashed)]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        return 1 if runtime.crashed.is_set() else 0
    finally:
        server.close()
        await runtime.stop()
        await runner.cleanup()
        for path in (socket, inner):
            if path:
                remove_socket(path)


def main() -> int:
    """Run the process and return its exit status: 0 told to end, 1 crashed, 2 not started."""
    try:
        config = read_config(_first_line())
    except ConfigError as error:
        say({"error": str(error)})
        return 2
    return asyncio.run(serve(config))


def _first_line() -> str:
    """Read one line of standard input without taking more, so that its end can be watched."""
    out = bytearray()
    while (char := os.read(sys.stdin.fileno(), 1)) not in (b"", b"\n"):
        out += char
    return out.decode()
