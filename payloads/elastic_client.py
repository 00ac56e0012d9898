"""Asks, before torchrun starts in a worker, whether its rendezvous backend can be used.

First the image: the packages that the backend needs, imported one by one; it ends with 3 where one is missing. Then the
store outside of the workers: whether it answers as the backend expects; it ends with 4 where it does not within its
time. torchrun itself would end with the text of whatever is missing first, or wait. Standard library only; torch is
found, not imported, for the agent that follows imports it. Lines as in `lines.py`.
"""

import argparse
import http.client
import importlib
import importlib.metadata
import importlib.util
import json
import os
import socket
import struct
import sys
import time

from lines import say

IMPORTED = {"etcd-v2": ("urllib3", "etcd")}
"""Backend -> modules that it needs beside torch."""
DISTRIBUTION = {"etcd": "python-etcd"}
"""Module -> package that brings it, where the names differ."""
PAUSE = 0.2
"""Seconds between two tries to reach a store that is not there yet."""
REPLY = 5.0
"""Seconds that a store has for one answer."""
VALIDATE, PING, MAGIC = 0, 13, 0x3C85F7CE
"""What a client of TCPStore says first, as of torch 2.15: that it is one, and a number that the server says back."""


class UnusableError(Exception):
    """Somebody answers, and not as the backend expects.

    Attributes:
        kind: `no-v2` (an etcd without the v2 API) or `garbage` (no store of this kind at all).
    """

    def __init__(self, kind: str, text: str, version: str = "") -> None:
        """Say what came."""
        super().__init__(text)
        self.kind, self.version = kind, version


def version(package: str) -> str:
    """Return the version of a package, or "" where it has none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def image(backend: str) -> bool:
    """Look for what a backend needs in this image, and tell."""
    modules, missing = {}, {}
    for name in IMPORTED.get(backend, ()):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - whatever an import raises, the backend cannot be used
            missing[name] = f"{type(error).__name__}: {error}"[:300]
        else:
            modules[name] = version(DISTRIBUTION.get(name, name))
    if importlib.util.find_spec("torch") is None:
        missing["torch"] = "ModuleNotFoundError: it is not installed"
    python = sys.version.split()[0]
    told = {"torch": version("torch"), "python": python, "modules": modules, "missing": missing}
    say("elastic-client", backend=backend, ok=not missing, **told)
    return not missing


def etcd(host: str, port: int) -> str:
    """Ask an etcd for its version and for its v2 API; returns the version."""
    status, text = _get(host, port, "/version")
    try:
        told = str(json.loads(text)["etcdserver"])
    except (ValueError, KeyError, TypeError):
        raise UnusableError("garbage", f"it answered {status} to /version: {text[:80]!r}") from None
    status, text = _get(host, port, "/v2/keys/")
    if status == http.client.NOT_FOUND:
        raise UnusableError("no-v2", f"etcd {told} answered 404 to /v2/keys", told)
    if status != http.client.OK or '"action"' not in text:
        raise UnusableError("garbage", f"it answered {status} to /v2/keys: {text[:80]!r}", told)
    return told


def _get(host: str, port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(host, port, timeout=REPLY)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(4096).decode("utf-8", "replace")
    except http.client.HTTPException as error:
        raise UnusableError(
            "garbage", f"it does not speak HTTP: {type(error).__name__} {error}"[:200]
        ) from None
    finally:
        connection.close()


def tcp_store(host: str, port: int) -> str:
    """Greet a TCPStore and let it say a number back; returns "", for it has no version."""
    number = os.getpid()
    with socket.create_connection((host, port), timeout=REPLY) as stream:
        stream.sendall(struct.pack("=BIBI", VALIDATE, MAGIC, PING, number))
        try:
            answer = stream.recv(4, socket.MSG_WAITALL)
        except TimeoutError:
            raise UnusableError(
                "garbage", f"it took the greeting of TCPStore and said nothing in {REPLY:g} s"
            ) from None
        except ConnectionError as error:
            raise UnusableError("garbage", f"it hung up on the greeting of TCPStore: {error}") from None
    if answer != struct.pack("=I", number):
        raise UnusableError("garbage", f"it answered {answer!r} to the greeting of TCPStore")
    return ""


STORES = {"etcd-v2": etcd, "c10d-store-pod": tcp_store}
"""Backend -> how the store outside of the workers is asked."""


def store(backend: str, endpoint: str, within: float) -> bool:
    """Ask the store until it answers or the time is over, and tell; True where there is none to ask."""
    ask = STORES.get(backend)
    if ask is None:
        return True
    host, _, port = endpoint.rpartition(":")
    began, tries, kind, error, told = time.monotonic(), 0, "", "", ""
    while True:
        tries += 1
        try:
            told, kind, error = ask(host, int(port)), "", ""
        except socket.gaierror as failure:
            kind, error = "unresolved", str(failure)
        except OSError as failure:
            kind, error = "unreachable", str(failure)
        except UnusableError as failure:
            kind, error, told = failure.kind, str(failure), failure.version
        seconds = time.monotonic() - began
        if kind not in ("unresolved", "unreachable") or seconds > within:
            break
        time.sleep(PAUSE)
    ok = not kind
    say(
        "elastic-endpoint", backend=backend, endpoint=endpoint, ok=ok, kind=kind, error=error, tries=tries,
        seconds=round(seconds, 3), version=told,
    )  # fmt: skip
    if not ok:
        os.write(2, f"the store of the {backend} rendezvous cannot be used: {endpoint}: {error}\n".encode())
    return ok


def main() -> int:
    """Ask both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("backend")
    parser.add_argument("endpoint", metavar="HOST:PORT")
    parser.add_argument("--within", type=float, default=60.0, help="seconds in which the store must answer")
    args = parser.parse_args()
    if not image(args.backend):
        return 3
    return 0 if store(args.backend, args.endpoint, args.within) else 4


if __name__ == "__main__":
    sys.exit(main())
