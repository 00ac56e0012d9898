"""Over which interface a fleet meets and reduces: a member forms its world over a declared interface and looks.

A pod's name leads to its first interface. To meet over another one the first member tells its address on it to the
others, who ask it by name; all then use it as the endpoint of the rendezvous and say their own as theirs, and gloo and
NCCL are told the interface by their variables. What counts is what was used: after an all-reduce each member lists the
connections that its launcher and its rank have open, as the kernel knows them. Each member is launcher and rank of its
own, by the library that torchrun is made of. Depends on torch alone. Lines as in `lines.py`.
"""

import argparse
import contextlib
import datetime as dt
import fcntl
import os
import pathlib
import re
import socket
import struct
import sys
import time
from collections.abc import Iterator

from lines import say

PAUSE = 0.1
"""Seconds between two tries."""


def interfaces() -> dict[str, str]:
    """Return the IPv4 address of each network interface, address -> name."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            wanted = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):  # It has no IPv4 address.
                answer = fcntl.ioctl(asking.fileno(), 0x8915, wanted)  # SIOCGIFADDR
                found[socket.inet_ntoa(answer[20:24])] = name
    return found


def connections(pid: int) -> Iterator[tuple[str, int, str, int]]:
    """Yield the TCP connections of a process that are open: local address and port, remote address and port."""
    mine = set()
    for path in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # A descriptor that was closed meanwhile.
            match = re.fullmatch(r"socket:\[(\d+)\]", str(path.readlink()))
            if match:
                mine.add(match[1])
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            row = line.split()
            if row[3] == "01" and row[9] in mine:
                yield (*_end(row[1]), *_end(row[2]))


def _end(text: str) -> tuple[str, int]:
    """Read one end of a connection as the kernel writes it; of an IPv6 address that carries IPv4 its last word."""
    address, _, port = text.partition(":")
    return socket.inet_ntoa(int(address[-8:], 16).to_bytes(4, sys.byteorder)), int(port, 16)


def tell(address: str, port: int, others: int, within: float) -> None:
    """Tell the others, who ask on any interface, the address to meet at."""
    with socket.create_server(("0.0.0.0", port)) as server:  # noqa: S104 - the pod's own addresses
        server.settimeout(within)
        for _ in range(others):
            asker, _ = server.accept()
            with asker:
                asker.sendall(f"{address}\n".encode())


def ask(name: str, port: int, within: float) -> str:
    """Ask the first member, again and again, where to meet.

    Raises:
        OSError: it did not say so in time.
    """
    ends = time.monotonic() + within
    while True:
        try:
            with socket.create_connection((name, port), 2.0) as asking:
                address = asking.makefile().readline().strip()
            if address:
                return address
            error = "an empty answer"
        except OSError as failure:
            error = str(failure)
        if time.monotonic() > ends:
            raise OSError(f"{name}:{port} did not say where to meet within {within:g} s: {error}")
        time.sleep(PAUSE)


def work(declared: str, port: int) -> None:
    """Join the world as the rank that the launcher says, reduce, and tell over what."""
    import torch  # noqa: PLC0415 - said before it is imported who is there
    import torch.distributed as dist  # noqa: PLC0415

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", 0) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", timeout=dt.timedelta(seconds=60))
    value = torch.full((1024,), float(rank + 1), device=device)
    dist.all_reduce(value)
    named, stores = interfaces(), {port, int(os.environ["MASTER_PORT"])}
    used: dict[str, set[tuple[str, str, str]]] = {"rendezvous": set(), "collective": set()}
    for pid in (os.getppid(), os.getpid()):
        for local, local_port, remote, remote_port in connections(pid):
            what = "rendezvous" if stores & {local_port, remote_port} else "collective"
            used[what].add((named.get(local, ""), local, remote))
    told = {what: [list(one) for one in sorted(found)] for what, found in used.items()}
    say(
        "wired",
        rank=rank,
        world=world,
        interface=declared,
        has={name: address for address, name in named.items()},
        expected=world * (world + 1) / 2,
        got=float(value[0]),
        ok=bool(torch.all(value == world * (world + 1) / 2)),
        backend=dist.get_backend(),
        asked={name: os.environ.get(name, "") for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")},
        **told,
    )
    dist.barrier()


def find_meeting(args: argparse.Namespace, own: str) -> str:
    """Tell the others where to meet, or ask; returns the address, "" where that did not work in time."""
    try:
        if args.index == 0:
            tell(own, args.port + 1, args.members - 1, args.within)
            return own
        found = ask(args.first, args.port + 1, args.within)
    except OSError as error:
        say("asked", ok=False, address="", error=str(error) or "nobody asked in time")
        return ""
    say("asked", ok=True, address=found)
    return found


def launch(args: argparse.Namespace, meeting: str, own: str) -> None:
    """Meet over the declared interface; be the launcher of one rank."""
    first, members, port = args.index == 0, args.members, args.port
    import torch  # noqa: PLC0415
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch  # noqa: PLC0415

    config = LaunchConfig(
        min_nodes=members,
        max_nodes=members,
        nproc_per_node=1,
        run_id=args.id,
        rdzv_backend="c10d",
        rdzv_endpoint=f"{meeting}:{port}",
        # The address is no name of the first member: it could not tell by looking that it hosts the store.
        rdzv_configs={"join_timeout": args.within, "read_timeout": args.within, "is_host": str(int(first))},
        max_restarts=0,
        local_addr=own,
        # The launcher opens the driver of GPUs; a rank that is forked from it could not use them.
        start_method="spawn" if torch.cuda.is_available() else "fork",
    )
    elastic_launch(config, work)(args.interface, port)


def main() -> int:
    """Parse the arguments and act."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--interface", required=True, help="over which all is to go")
    parser.add_argument("--first", required=True, help="name of the first member")
    parser.add_argument("--members", type=int, required=True, help="how many there are")
    parser.add_argument("--index", type=int, default=int(os.environ.get("JOB_COMPLETION_INDEX", "0")))
    parser.add_argument("--id", default="none", help="rendezvous id")
    parser.add_argument(
        "--port", type=int, default=29400, help="of the store; the next one tells where it is"
    )
    parser.add_argument("--within", type=int, default=60, help="seconds to meet the others")
    args = parser.parse_args()
    has = {name: address for address, name in interfaces().items()}
    own = has.get(args.interface, "")
    say("wiring", index=args.index, interface=args.interface, has=has, ok=bool(own))
    if not own:
        os.write(2, f"this pod has no interface {args.interface}; it has {', '.join(sorted(has))}\n".encode())
        return 5
    meeting = find_meeting(args, own)
    if not meeting:
        return 5
    launch(args, meeting, own)
    # Without taking down what torch has loaded, which costs seconds and shows nothing.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
