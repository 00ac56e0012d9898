"""What a member does before its launcher starts: learn where it runs, wait for the network, then start.

`network PEER ...` waits until the declared interface is up with an address and every peer answers from it, and ends
with 5, saying what it lacks, when that does not come within its bound. A peer answers by taking a connection or by
refusing one: either crosses the network both ways, so that nothing has to listen yet. It is what an init container
runs, so that a launcher does not start on a tunnel that is not there. `labels KEY ...` asks the API for the node that
the pod is on, as an init container with an account that may read nodes, and writes a variable for each label into a
file that the entrypoint sources; a label that is missing, or that could not be read, is an empty variable. `launch`
stands for the launcher: it tells when it started, and with which of these variables.

Standard library only. Lines as in `lines.py`. The bound holds whatever resolver and peers do: each peer is tried in a
thread of its own.
"""

import argparse
import fcntl
import http.client
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Sequence

from lines import say

PAUSE = 0.1
"""Seconds between two tries."""
PATIENCE = 1.0
"""Seconds for one try of a peer."""
UP = 0x1
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def look(name: str) -> tuple[str, str]:
    """Return the state of an interface (`absent`, `down`, `no address`, `up`) and its IPv4 address."""
    wanted = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            flags = fcntl.ioctl(asking.fileno(), 0x8913, wanted)  # SIOCGIFFLAGS
        except OSError:
            return "absent", ""
        if not struct.unpack_from("H", flags, 16)[0] & UP:
            return "down", ""
        try:
            found = fcntl.ioctl(asking.fileno(), 0x8915, wanted)  # SIOCGIFADDR
        except OSError:
            return "no address", ""
        return "up", socket.inet_ntoa(found[20:24])


class Peer:
    """Tries one peer, again and again, in a thread of its own.

    Attributes:
        tries: tries that came back.
        address: where its name led, "" while it is not known.
        answer: `open` or `refused`; "" while there is none.
        error: what the last try got.
        seconds: from the first try to the answer.
    """

    def __init__(self, name: str, port: int, source: str) -> None:
        """Begin."""
        self.name = name
        self.tries = 0
        self.address = self.answer = ""
        self.error = "the resolver did not come back"
        self.seconds = 0.0
        self.answered = threading.Event()
        self._port, self._source = port, source
        self._over = threading.Event()
        self._began = time.monotonic()
        threading.Thread(target=self._try, daemon=True).start()

    def _try(self) -> None:
        while not self._over.is_set():
            try:
                self.address = str(socket.getaddrinfo(self.name, None, socket.AF_INET)[0][4][0])
                bound = (self._source, 0) if self._source else None
                socket.create_connection((self.address, self._port), PATIENCE, bound).close()
                self.answer = "open"
            except ConnectionRefusedError:
                self.answer = "refused"
            except OSError as error:
                self.error = str(error)
            self.tries += 1
            if self.answer:
                self.seconds = time.monotonic() - self._began
                self.answered.set()
                return
            self._over.wait(PAUSE)

    def end(self, at: float) -> bool:
        """Wait for the answer, but not beyond a time; returns whether there is one."""
        self.answered.wait(max(at - time.monotonic(), 0.0))
        self._over.set()
        return self.answered.is_set()

    def told(self) -> dict[str, object]:
        """Return what became of it."""
        found: dict[str, object] = {"address": self.address, "answer": self.answer, "tries": self.tries}
        return found | ({"seconds": round(self.seconds, 3)} if self.answer else {"error": self.error})


def network(peers: Sequence[str], name: str, port: int, within: float) -> int:
    """Wait for interface and peers; returns the exit code."""
    began = time.monotonic()
    ends = began + within
    say("gate-began", interface=name, peers=list(peers), within=within)
    tries, (state, address) = 1, look(name) if name else ("up", "")
    while state != "up" and time.monotonic() < ends:
        time.sleep(PAUSE)
        tries, (state, address) = tries + 1, look(name)
    there = {"name": name, "state": state, "address": address, "tries": tries}
    trials = [Peer(peer, port, address) for peer in peers] if state == "up" else []
    silent = [trial for trial in trials if not trial.end(ends)]
    error = ""
    if state != "up":
        error = f"interface {name} is {state} after {within:g} s ({tries} looks)"
    elif silent:
        via = f" over {name}" if name else ""
        first = silent[0]
        error = f"{first.name} does not answer{via} within {within:g} s ({first.tries} tries, last: {first.error})"
    told = {trial.name: trial.told() for trial in trials}
    more = {"error": error} if error else {}
    seconds = round(time.monotonic() - began, 3)
    say("gate", ok=not error, seconds=seconds, within=within, interface=there, peers=told, **more)
    if error:
        os.write(2, f"waited in vain for the network: {error}\n".encode())
    return 5 if error else 0


def variable(key: str) -> str:
    """Return the variable in which a label arrives: NODE_ and the last part of its key."""
    return "NODE_" + re.sub(r"[^A-Z0-9]", "_", key.rpartition("/")[2].upper())


def node_labels(name: str) -> tuple[int, dict[str, str], str]:
    """Ask the API for a node; returns the HTTP code, 0 for none, the labels, and what went wrong."""
    account = pathlib.Path(ACCOUNT)
    host, port = (
        os.environ.get("KUBERNETES_SERVICE_HOST", ""),
        os.environ.get("KUBERNETES_SERVICE_PORT", "443"),
    )
    try:
        trusted = ssl.create_default_context(cafile=str(account / "ca.crt"))
        token = (account / "token").read_text(encoding="ascii").strip()
        connection = http.client.HTTPSConnection(host, int(port), timeout=PATIENCE * 5, context=trusted)
        connection.request("GET", f"/api/v1/nodes/{name}", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        return 0, {}, str(error) or type(error).__name__
    if answer.status != 200:
        return answer.status, {}, str(body.get("message") or answer.reason)[:500]
    return answer.status, dict(body["metadata"].get("labels") or {}), ""


def labels(keys: Sequence[str], path: str) -> int:
    """Write a variable for each label into a file; returns 0 also where they could not be read."""
    node = os.environ.get("NODE_NAME", "")
    code, found, error = node_labels(node)
    told = {variable(key): found.get(key, "") for key in keys}
    lines = "".join(f"{name}={shlex.quote(value)}\n" for name, value in told.items())
    target = pathlib.Path(path)
    fresh = target.with_suffix(".new")
    fresh.write_text(lines, encoding="utf-8")
    fresh.replace(target)
    missing = [key for key in keys if key not in found]
    more = {"error": error} if error else {}
    say("labels", ok=not error, node=node, code=code, env=told, missing=missing, path=path, **more)
    return 0


def launch(prefix: str, *, hold: bool) -> int:
    """Tell that the launcher starts now, and with which variables of the topology; stay where told to.

    A member that stays can be asked by those who are not as far yet.
    """
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    told = {name: value for name, value in os.environ.items() if name.startswith(prefix)}
    say("launching", env=told)
    if hold:
        ended.wait(3600)
    return 0


def main() -> int:
    """Parse the arguments and act."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["network", "labels", "launch"])
    parser.add_argument("names", nargs="*", help="peers that must answer, or keys of labels")
    parser.add_argument("--file", default="/etc/inject/env", help="where labels are written to")
    parser.add_argument(
        "--interface", default="", help="interface that must be up, none for whichever leads there"
    )
    parser.add_argument("--port", type=int, default=29400, help="port of the peers that is tried")
    parser.add_argument("--within", type=float, default=60.0, help="seconds to wait")
    parser.add_argument("--prefix", default="NODE_", help="variables that the launcher tells")
    parser.add_argument("--hold", action="store_true", help="the launcher stays until it is ended")
    args = parser.parse_intermixed_args()
    if args.what == "network":
        return network(args.names, args.interface, args.port, args.within)
    if args.what == "labels":
        return labels(args.names, args.file)
    return launch(args.prefix, hold=args.hold)


if __name__ == "__main__":
    sys.exit(main())
