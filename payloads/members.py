"""What a member of an Indexed Job does: wait for the others' names, say who it is, train one step with them.

`wait NAME ...` looks names up until all answer, and ends with 5 when one does not within its bound; it is what an init
container runs, so that a launcher starts only where names are known. `say` tells index, host name and addresses.
`train` forms a group over gloo, takes one DDP step and compares with the same step in one process; it needs torch, the
rest the standard library alone. Lines as in `lines.py`.

The bound holds whatever the resolver does: a resolver that gets no answer at all stays in one look-up for half a
minute, so look-ups happen in a thread of their own.
"""

import argparse
import datetime as dt
import os
import pathlib
import re
import socket
import sys
import threading
import time
from collections.abc import Sequence

from lines import say

PAUSE = 0.1
"""Seconds between two look-ups of a name that is not known."""


class Search:
    """Looks one name up, again and again, in a thread of its own.

    Attributes:
        addresses: IPv4 addresses; empty as long as there is no answer.
        tries: look-ups that came back.
        kind: why the last one failed: `unknown` (the server says that there is no such name) or `no-answer` (no
            server answered, or it is in trouble); before any came back `no-answer`.
        error: what the resolver said last.
        seconds: from the first look-up to the answer.
    """

    def __init__(self, name: str) -> None:
        """Begin."""
        self.name = name
        self.addresses: list[str] = []
        self.tries = 0
        self.kind = "no-answer"
        self.error = "the resolver did not come back"
        self.seconds = 0.0
        self.found = threading.Event()
        self._over = threading.Event()
        self._began = time.monotonic()
        threading.Thread(target=self._search, daemon=True).start()

    def _search(self) -> None:
        while not self._over.is_set():
            try:
                found = {str(info[4][0]) for info in socket.getaddrinfo(self.name, None, socket.AF_INET)}
            except OSError as error:
                self.tries += 1
                known = error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None))
                self.kind, self.error = ("unknown" if known else "no-answer"), str(error)
                self._over.wait(PAUSE)
                continue
            self.tries += 1
            self.seconds = time.monotonic() - self._began
            self.addresses = sorted(found)
            self.found.set()
            return

    def end(self, at: float) -> bool:
        """Wait until there is an answer, but not beyond a time; returns whether there is."""
        self.found.wait(max(at - time.monotonic(), 0.0))
        self._over.set()
        return self.found.is_set()

    def told(self) -> dict[str, object]:
        """Return what became of it."""
        if self.found.is_set():
            return {"addresses": self.addresses, "tries": self.tries, "seconds": round(self.seconds, 3)}
        return {"addresses": [], "tries": self.tries, "kind": self.kind, "error": self.error}


def wait(names: Sequence[str], within: float) -> dict[str, list[str]] | None:
    """Wait until all names have an address; returns them, or None where one had none in time."""
    began = time.monotonic()
    say("waiting", names=list(names), within=within)
    searches = [Search(name) for name in names]
    missing = [search for search in searches if not search.end(began + within)]
    told = {search.name: search.told() for search in searches}
    seconds = round(time.monotonic() - began, 3)
    if not missing:
        say("waited", ok=True, seconds=seconds, within=within, names=told, resolver=resolver())
        return {search.name: search.addresses for search in searches}
    first = missing[0]
    kind = "no answer from DNS" if first.kind == "no-answer" else "no such name"
    text = f"{first.name}: {kind} within {within:g} s ({first.tries} tries, last: {first.error})"
    say("waited", ok=False, seconds=seconds, within=within, names=told, error=text, resolver=resolver())
    os.write(2, f"waited in vain for names of the other members: {text}\n".encode())
    return None


def resolver() -> list[str]:
    """Return the DNS servers that this container asks."""
    try:
        lines = pathlib.Path("/etc/resolv.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return [line.split()[1] for line in lines if re.match(r"nameserver\s+\S", line)]


def me() -> dict[str, object]:
    """Return who this member is, as the process itself sees it."""
    return {
        "index": int(os.environ.get("JOB_COMPLETION_INDEX", "-1")),
        "hostname": socket.gethostname(),
        "ip": os.environ.get("POD_IP", ""),
    }


def interfaces() -> dict[str, str]:
    """Return the IPv4 address of each network interface, address -> name."""
    import fcntl  # noqa: PLC0415 - not needed by an init container
    import struct  # noqa: PLC0415

    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            wanted = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(asking.fileno(), 0x8915, wanted)  # SIOCGIFADDR
            except OSError:
                continue  # It has no IPv4 address.
            found[socket.inet_ntoa(answer[20:24])] = name
    return found


def connections() -> list[tuple[str, int, str, int]]:
    """Return the TCP connections of this process that are open: local address and port, remote address and port."""
    mine = set()
    for path in pathlib.Path("/proc/self/fd").iterdir():
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", str(path.readlink()))
        except OSError:
            continue  # The descriptor with which the folder is read.
        if match:
            mine.add(match[1])
    found = []
    for table in ("tcp", "tcp6"):
        lines = pathlib.Path(f"/proc/self/net/{table}").read_text(encoding="ascii").splitlines()[1:]
        for line in lines:
            fields = line.split()
            if fields[3] == "01" and fields[9] in mine:
                found.append((*_end(fields[1]), *_end(fields[2])))
    return found


def _end(text: str) -> tuple[str, int]:
    """Read one end of a connection as the kernel writes it: words of four bytes in the machine's order."""
    address, _, port = text.partition(":")
    raw = b"".join(
        int(address[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(address), 8)
    )
    if len(raw) == 4:
        return socket.inet_ntoa(raw), int(port, 16)
    if raw[:12] == bytes(10) + b"\xff\xff":
        return socket.inet_ntoa(raw[12:]), int(port, 16)
    return socket.inet_ntop(socket.AF_INET6, raw), int(port, 16)


def train(names: Sequence[str], port: int, within: float) -> int:
    """Form a group with the other members, train a step, compare; returns 0 when it is right."""
    who = me()
    say("member", **who)
    addresses = wait(names, within)
    if addresses is None:
        return 5
    import torch  # noqa: PLC0415 - only here
    import torch.distributed as dist  # noqa: PLC0415

    rank, world = int(os.environ["JOB_COMPLETION_INDEX"]), len(names)
    limit = dt.timedelta(seconds=60)
    init = f"tcp://{names[0]}:{port}"
    dist.init_process_group("gloo", init_method=init, rank=rank, world_size=world, timeout=limit)
    value = torch.full((1024,), float(rank + 1))
    dist.all_reduce(value)
    expected = world * (world + 1) / 2
    wrong = value[value != expected]
    got, right = float(wrong[0] if len(wrong) else value[0]), not len(wrong)
    _say_traffic(port, right, expected, got, who)
    far = _ddp_step(rank, world)
    say("trained", world=world, difference=far, ok=far < 1e-5, **who)
    dist.barrier()
    dist.destroy_process_group()
    return 0 if right and far < 1e-5 else 1


def _say_traffic(port: int, right: bool, expected: float, got: float, who: dict[str, object]) -> None:
    """Tell over which interface the members are connected, beside what their all-reduce gave.

    Connections to the port of the store are left out: they meet where the name of the first member leads.
    """
    named = interfaces()
    used: dict[str, int] = {}
    for local, local_port, _, remote_port in connections():
        if port not in (local_port, remote_port):
            name = named.get(local, local)
            used[name] = used.get(name, 0) + 1
    asked = os.environ.get("GLOO_SOCKET_IFNAME", "")
    all_reduce = {"expected": expected, "got": got, "ok": right}
    say("reduced", backend="gloo", interfaces=used, has=named, asked=asked, **all_reduce, **who)


def _ddp_step(rank: int, world: int) -> float:
    """Take one step on this member's part of a batch; returns how far it is from one process with the whole batch."""
    import torch  # noqa: PLC0415

    def model() -> torch.nn.Module:
        torch.manual_seed(1)
        return torch.nn.Linear(8, 4)

    def step(module: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
        torch.nn.functional.mse_loss(module(x), y).backward()
        with torch.no_grad():  # A step by hand: importing the optimizers takes longer than all else here.
            for parameter in module.parameters():
                parameter.sub_(0.1 * parameter.grad)

    torch.manual_seed(2)
    x, y = torch.randn(4 * world, 8), torch.randn(4 * world, 4)
    alone, together = model(), torch.nn.parallel.DistributedDataParallel(model())
    step(alone, x, y)
    step(together, x[4 * rank : 4 * rank + 4], y[4 * rank : 4 * rank + 4])
    pairs = zip(alone.parameters(), together.parameters(), strict=True)
    return max(float((one - other).detach().abs().max()) for one, other in pairs)


def main() -> int:
    """Parse the arguments and act."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["wait", "say", "train"])
    parser.add_argument("names", nargs="*", help="names of the members, by index")
    parser.add_argument("--within", type=float, default=60.0, help="seconds to wait for names")
    parser.add_argument("--port", type=int, default=29500, help="where the first member hosts the store")
    args = parser.parse_intermixed_args()
    if args.what == "wait":
        return 0 if wait(args.names, args.within) is not None else 5
    if args.what == "say":
        say("member", **me())
        return 0
    # Without taking down what torch has loaded, which costs seconds and shows nothing.
    os._exit(train(args.names, args.port, args.within))


if __name__ == "__main__":
    sys.exit(main())
