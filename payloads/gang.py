"""What a member of a gang does: say what it sees, find the master, meet all others at a barrier.

Standard library only. Lines as in `lines.py`. The master then ends; the others stay until they are ended, which is how
it shows whether anything ends them.

`env` prints what the process sees and ends; `meet` (the default) goes through the whole life; `join` is a member that
never leads; `idle` stays until it is ended, without ever listening. Master, port and number of members are arguments,
so that a job plugin that sets wrong variables spoils its own rows and not the barrier; without them the variables are
used.
"""

import argparse
import contextlib
import errno
import json
import os
import pathlib
import select
import signal
import socket
import sys
import threading
import time

from lines import say

SEEN = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "VC_TASK_INDEX", "VK_TASK_INDEX")
HOSTS = "/etc/volcano"
FILE_BYTES = 2048
"""How much of a hosts file is told: a line stays below 4096 bytes."""


def seen_env() -> dict[str, str]:
    """Return the variables of the wiring as this process sees them."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in SEEN or name.startswith("VC_") or name == "MPI_HOST"
    }


def say_seen() -> None:
    """Tell what the process was started with: variables, arguments, hosts files."""
    say("env", env=seen_env(), pid=os.getpid())
    say("argv", argv=getattr(sys, "orig_argv", sys.argv), pid=os.getpid())
    for path in sorted(pathlib.Path(HOSTS).glob("*.host")):
        text = path.read_bytes()[: FILE_BYTES + 1]
        say(
            "file",
            path=str(path),
            text=text[:FILE_BYTES].decode(errors="replace"),
            cut=len(text) > FILE_BYTES,
        )


def resolve(name: str, within: float) -> list[str]:
    """Look a name up until it answers; returns its IPv4 addresses, empty after `within` seconds."""
    ends = time.monotonic() + within
    tries = 0
    while True:
        tries += 1
        try:
            found = sorted({str(info[4][0]) for info in socket.getaddrinfo(name, None, socket.AF_INET)})
        except OSError as error:
            if time.monotonic() > ends:
                say("resolved", name=name, addresses=[], tries=tries, ok=False, error=str(error))
                return []
            time.sleep(0.1)
            continue
        say("resolved", name=name, addresses=found, tries=tries, ok=True)
        return found


def lead(
    port: int, members: int, within: float, stack: contextlib.ExitStack, wake: socket.socket
) -> list[str]:
    """Collect the other members' names, then tell everybody the full list.

    The stack closes the connections only when each member has closed its own, which it does once it has said what it
    knows, or after `within` seconds, or when `wake` says that a signal came: a master that ends may end the whole job.
    """
    me = socket.gethostname()
    with socket.create_server(("0.0.0.0", port)) as server:  # noqa: S104 - the pod's own address
        say("listening", port=port)
        server.settimeout(within)
        joined: list[tuple[str, socket.socket]] = []
        while len(joined) < members - 1:
            connection, _ = server.accept()
            connection.settimeout(within)
            name = connection.makefile().readline().strip()
            # Whoever only looks whether the port answers says no name.
            if name:
                joined.append((name, connection))
            else:
                connection.close()
        names = sorted([me, *(name for name, _ in joined)])
        for _, connection in joined:
            connection.sendall((json.dumps(names) + "\n").encode())
    stack.callback(await_end, [connection for _, connection in joined], within, wake)
    return names


def await_end(connections: list[socket.socket], within: float, wake: socket.socket) -> None:
    """Wait until the other side has closed each connection, `within` seconds at most for all, or until a signal comes.

    Whoever is slow, or died, is not waited for; what it did not say is missing from its log.
    """
    ends = time.monotonic() + within
    left = list(connections)
    while left and (seconds := ends - time.monotonic()) > 0:
        done, _, _ = select.select([wake, *left], [], [], seconds)
        if wake in done or not done:
            break
        left = [connection for connection in left if connection not in done]
    for connection in connections:
        connection.close()


def connect(address: str, port: int, within: float) -> tuple["socket.socket | None", str]:
    """Open a connection to the master, again and again; returns it, or None and what the last try got."""
    ends = time.monotonic() + within
    tries = 0
    while True:
        tries += 1
        left = max(ends - time.monotonic(), 0.1)
        try:
            connection = socket.create_connection((address, port), timeout=min(2.0, left))
        except OSError as error:
            if time.monotonic() < ends:
                time.sleep(0.1)
                continue
            kind = (
                "timed out" if isinstance(error, TimeoutError) else errno.errorcode.get(error.errno or 0, "")
            )
            failed = str(error)
            say("connected", to=f"{address}:{port}", ok=False, tries=tries, kind=kind, error=failed)
            return None, failed
        say("connected", to=f"{address}:{port}", ok=True, tries=tries)
        return connection, ""


def join(address: str, port: int, within: float, stack: contextlib.ExitStack) -> list[str]:
    """Tell the master our name and wait for the full list; a connection that is cut is opened again.

    The stack closes the one over which the list came.

    Raises:
        OSError: when no connection, or none that lasts, comes about in time.
    """
    ends = time.monotonic() + within
    tries = 0
    while True:
        tries += 1
        connection, error = connect(address, port, max(ends - time.monotonic(), 0.0))
        if connection is None:
            raise OSError(f"no connection to {address}:{port} within {within:g} s: {error}")
        try:
            connection.settimeout(within)
            connection.sendall(f"{socket.gethostname()}\n".encode())
            names = [str(name) for name in json.loads(connection.makefile().readline())]
        except (OSError, ValueError) as failure:
            connection.close()
            if time.monotonic() > ends:
                to = f"{address}:{port}"
                say("connected", to=to, ok=False, tries=tries, kind="reset", error=f"taken, then: {failure}")
                raise OSError(f"{to} took the connection and did not answer: {failure}") from failure
            time.sleep(0.1)
        else:
            stack.callback(connection.close)
            return names


def meet(master: str, port: int, members: int, within: float, late: float, *, may_lead: bool = True) -> int:
    """Go through a member's life; returns the exit code."""
    ended = threading.Event()
    wake, woken = socket.socketpair()
    woken.settimeout(0)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    say_seen()
    if not master or not port:
        say("barrier", world=members, members=[], ok=False, error="no master: MASTER_ADDR is not set")
        return 3
    leads = may_lead and socket.gethostname() == master.partition(".")[0]
    addresses = resolve(master, within)
    names: list[str] = []
    error = "" if addresses else f"{master} does not resolve within {within:g} s"
    with contextlib.ExitStack() as stack:
        try:
            if leads:
                ended.wait(late)
                names = lead(port, members, within, stack, wake)
            elif addresses:
                names = join(addresses[0], port, within, stack)
        except OSError as failure:
            error = f"{master}:{port}: {failure}"
        whole = len(names) == members
        say("barrier", world=members, members=names, ok=whole, **({"error": error} if error else {}))
    if not whole:
        return 5
    if not leads:
        ended.wait(3600)
    say("done")
    return 0


def idle() -> int:
    """Stay, without a word to anybody, until the end is asked for."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    say_seen()
    ended.wait(3600)
    return 0


def main() -> int:
    """Parse the arguments and act."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="meet", choices=["meet", "join", "env", "idle"])
    parser.add_argument("--master", default=os.environ.get("MASTER_ADDR", ""))
    parser.add_argument("--port", type=int, default=int(os.environ.get("MASTER_PORT", "0")))
    parser.add_argument("--members", type=int, default=int(os.environ.get("WORLD_SIZE", "1")))
    parser.add_argument("--within", type=float, default=10.0, help="seconds for each step")
    parser.add_argument("--late", type=float, default=0.0, help="seconds after which the master listens")
    parser.add_argument("--told", action="append", help="any text; what arrives is seen in the arguments")
    args = parser.parse_args()
    if args.what == "idle":
        return idle()
    if args.what == "env":
        say_seen()
        return 0
    leads = args.what == "meet"
    return meet(args.master, args.port, args.members, args.within, args.late, may_lead=leads)


if __name__ == "__main__":
    sys.exit(main())
