"""The network of the sandbox: a bridge, and for each pod a network and host-name namespace on it.

All netlink work is done in one thread of its own: it never blocks the event loop, and a thread may enter a pod's
namespaces without moving the rest of the process there.
"""

import asyncio
import ctypes
import os
import socket
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Self, TypeVar

from pytest_gpucluster.node.attachments import Attachment, Interface
from pytest_gpucluster.node.process import run

CLONE_NEWNET = 0x40000000  # linux/sched.h
CLONE_NEWUTS = 0x04000000
MNT_DETACH = 2  # sys/mount.h
TCP = 6  # netinet/in.h
LOCAL = 255  # linux/rtnetlink.h: the table of the machine's own addresses
BRIDGE = "pods0"
BRIDGE_MAC = "02:00:0a:58:00:01"
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
# The addresses before this one are for the bridge, which is also DNS server and gateway, and for the nodes.
FIRST_POD = 256
UNSHARE_SECONDS = 30

T = TypeVar("T")


class NetworkError(Exception):
    """A network that cannot be made; the text is one clear line."""


@dataclass(frozen=True)
class PodNetwork:
    """The namespaces and the address of one pod.

    Attributes:
        ip: Address of the pod.
        folder: Holds the namespaces as files `net`, `uts` and `ipc`.
        number: Names the node's end of the pod's cable.
        further: Interfaces of further networks.
    """

    ip: str
    folder: Path
    number: int
    further: tuple[Interface, ...] = ()

    def enter(self) -> list[str]:
        """Return the command that runs another one in the namespaces of the pod."""
        return ["nsenter", *(f"--{kind}={self.folder / kind}" for kind in ("net", "uts", "ipc"))]


class Addresses:
    """Deals out addresses of the subnet; one that was returned is not used again soon."""

    def __init__(self, subnet: IPv4Network, nodes: int) -> None:
        """Reserve the first addresses for the bridge and the nodes."""
        self._subnet = subnet
        self._reserved = FIRST_POD if subnet.num_addresses > 4 * FIRST_POD else nodes + 2
        self._next = self._reserved
        self._used: set[int] = set()

    @property
    def bridge(self) -> str:
        """Return the address of the bridge."""
        return str(self._subnet[1])

    def in_further(self, address: str, number: int) -> str:
        """Return the address of a pod, or of a bridge, in the nth further network: the same place in a later subnet."""
        return str(IPv4Address(address) + number * self._subnet.num_addresses)

    def node(self, index: int) -> str:
        """Return the address of a node."""
        return str(self._subnet[index + 2])

    def take(self) -> str:
        """Return an address for a pod.

        Raises:
            NetworkError: when none is left.
        """
        last = self._subnet.num_addresses - 1
        for _ in range(self._reserved, last):
            candidate = self._next
            self._next = candidate + 1 if candidate + 1 < last else self._reserved
            if candidate not in self._used and candidate % 256 not in (0, 255):
                self._used.add(candidate)
                return str(self._subnet[candidate])
        raise NetworkError(f"no address is left in {self._subnet}")

    def give_back(self, address: str) -> None:
        """Take back the address of a pod."""
        self._used.discard(int(IPv4Address(address)) - int(self._subnet.network_address))


class Network:
    """Makes the bridge and the networks of pods; an asynchronous context manager."""

    def __init__(
        self,
        folder: Path,
        addresses: Addresses,
        prefix: int,
        nodes: int,
        *,
        further: Sequence[str] = (),
        routed: bool = True,
    ) -> None:
        """Describe; nothing is made yet.

        Args:
            folder: Where namespaces are kept as files; must be a mount of its own that is not shared.
            addresses: Deals out addresses.
            prefix: Prefix length of the subnet.
            nodes: How many nodes have an address on the bridge.
            further: Names of further networks, each with a bridge of its own.
            routed: False plants `network.second-without-route`.
        """
        self._folder = folder
        self._addresses = addresses
        self._prefix = prefix
        self._nodes = nodes
        self._further = list(further)
        self._routed = routed
        self._thread = ThreadPoolExecutor(1, "network")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._ip: Any = None
        self._bridge = 0
        self._count = 0
        self._home: dict[int, int] = {}

    async def __aenter__(self) -> Self:
        """Make the bridge and raise loopback."""
        await self._do(self._make_bridge)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End the thread; the kernel removes the devices with the namespace."""
        self._thread.shutdown(wait=False)

    async def add(
        self, hostname: str, closed: Collection[int] = (), attached: Sequence[Attachment] = ()
    ) -> PodNetwork:
        """Make the namespaces of a pod, with a cable to the bridge and an address.

        Args:
            hostname: Host name of the pod.
            closed: TCP ports to which nothing from outside the pod gets through.
            attached: Further networks to which it is cabled as well.

        Raises:
            NetworkError: when the kernel or `unshare` refuses.
        """
        self._count += 1
        pod = PodNetwork(self._addresses.take(), self._folder / str(self._count), self._count)
        pod.folder.mkdir(parents=True)
        files = [f"--{kind}={pod.folder / kind}" for kind in ("net", "uts", "ipc")]
        for kind in ("net", "uts", "ipc"):
            (pod.folder / kind).touch()
        code, said = await run(["unshare", *files, "true"], UNSHARE_SECONDS)
        if code != 0:
            raise NetworkError(f"no namespaces for a pod: {said.strip() or 'unshare did not end'}")
        return await self._do(lambda: self._wire(pod, hostname, closed, attached))

    async def remove(self, pod: PodNetwork) -> None:
        """Let go of a pod's namespaces; the cable goes with them."""
        self._addresses.give_back(pod.ip)
        await self._do(lambda: self._release(pod))

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _make_bridge(self) -> None:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        self._home = {
            CLONE_NEWNET: os.open("/proc/thread-self/ns/net", os.O_RDONLY),
            CLONE_NEWUTS: os.open("/proc/thread-self/ns/uts", os.O_RDONLY),
        }
        try:
            self._ip = IPRoute()
            self._ip.link("set", index=self._index(self._ip, "lo"), state="up")
            # Without an address of its own a bridge takes the lowest of its ports': it would change as pods come and
            # go, and what others have learnt of it would lead nowhere for half a minute.
            self._ip.link("add", ifname=BRIDGE, kind="bridge", address=BRIDGE_MAC)
            self._bridge = self._index(self._ip, BRIDGE)
            for address in [self._addresses.bridge, *map(self._addresses.node, range(self._nodes))]:
                self._ip.addr("add", index=self._bridge, address=address, prefixlen=self._prefix)
            self._ip.link("set", index=self._bridge, state="up")
            for number in range(1, len(self._further) + 1):
                self._make_further(number)
        except (NetlinkError, OSError) as error:
            raise NetworkError(f"a bridge between pods is refused on this machine ({error})") from error

    def _make_further(self, number: int) -> None:
        """Make the bridge of a further network; machines route to it only where pods have to be led astray."""
        name = f"{BRIDGE}x{number}"
        self._ip.link("add", ifname=name, kind="bridge", address=f"{BRIDGE_MAC[:-2]}{number + 1:02x}")
        index = self._index(self._ip, name)
        self._ip.link("set", index=index, state="up")
        if not self._routed:
            address = self._addresses.in_further(self._addresses.bridge, number)
            self._ip.addr("add", index=index, address=address, prefixlen=self._prefix)
            FORWARDING.write_text("1", encoding="ascii")

    def _wire(
        self, pod: PodNetwork, hostname: str, closed: Collection[int], attached: Sequence[Attachment]
    ) -> PodNetwork:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        net = os.open(pod.folder / "net", os.O_RDONLY)
        try:
            self._set_hostname(pod, hostname)
            name = f"pod{pod.number}"
            self._ip.link("add", ifname=name, kind="veth", peer={"ifname": "eth0", "net_ns_fd": net})
            self._ip.link("set", index=self._index(self._ip, name), master=self._bridge, state="up")
            for attachment in attached:
                self._cable(pod, attachment, net)
            self._enter(net, CLONE_NEWNET)
            try:
                inside = IPRoute()
            finally:
                self._enter(self._home[CLONE_NEWNET], CLONE_NEWNET)
            try:
                inside.link("set", index=self._index(inside, "lo"), state="up")
                eth0 = self._index(inside, "eth0")
                inside.addr("add", index=eth0, address=pod.ip, prefixlen=self._prefix)
                inside.link("set", index=eth0, state="up")
                inside.route("add", dst="default", gateway=self._addresses.bridge)
                _close(inside, closed)
                further = tuple(self._attach(inside, pod, attachment) for attachment in attached)
            finally:
                inside.close()
            return replace(pod, further=further)
        except (NetlinkError, OSError) as error:
            raise NetworkError(f"no network for a pod: {error}") from error
        finally:
            os.close(net)

    def _number(self, attachment: Attachment) -> int:
        return self._further.index(attachment.network.rpartition("/")[2]) + 1

    def _cable(self, pod: PodNetwork, attachment: Attachment, net: int) -> None:
        """Lay a cable from a pod to the bridge of a further network."""
        number = self._number(attachment)
        name = f"pod{pod.number}{attachment.interface}"[:15]
        self._ip.link(
            "add", ifname=name, kind="veth", peer={"ifname": attachment.interface, "net_ns_fd": net}
        )
        bridge = self._index(self._ip, f"{BRIDGE}x{number}")
        self._ip.link("set", index=self._index(self._ip, name), master=bridge, state="up")

    def _attach(self, inside: Any, pod: PodNetwork, attachment: Attachment) -> Interface:
        """Give a pod's end of such a cable its address; returns what became of it."""
        index = self._index(inside, attachment.interface)
        ip = self._addresses.in_further(pod.ip, self._number(attachment))
        inside.addr("add", index=index, address=ip, prefixlen=self._prefix if self._routed else 32)
        inside.link("set", index=index, state="up")
        (link,) = inside.get_links(index)
        return Interface(attachment, ip, str(link.get_attr("IFLA_ADDRESS")))

    def _set_hostname(self, pod: PodNetwork, hostname: str) -> None:
        uts = os.open(pod.folder / "uts", os.O_RDONLY)
        try:
            self._enter(uts, CLONE_NEWUTS)
            try:
                socket.sethostname(hostname)
            finally:
                self._enter(self._home[CLONE_NEWUTS], CLONE_NEWUTS)
        finally:
            os.close(uts)

    def _release(self, pod: PodNetwork) -> None:
        for kind in ("net", "uts", "ipc"):
            path = pod.folder / kind
            self._libc.umount2(os.fsencode(path), MNT_DETACH)
            path.unlink()
        pod.folder.rmdir()

    def _enter(self, namespace: int, kind: int) -> None:
        if self._libc.setns(namespace, kind) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), "setns")

    @staticmethod
    def _index(ip: Any, name: str) -> int:
        (index,) = ip.link_lookup(ifname=name)
        return int(index)


def _close(inside: Any, ports: Collection[int]) -> None:
    """Drop what comes in to these TCP ports without a word, as a NetworkPolicy does: whoever connects waits in vain.

    The rule must stand before the one that delivers to the pod's own addresses, which is the first by default.
    """
    if not ports:
        return
    inside.rule("add", priority=2, table=LOCAL)
    for port in ports:
        inside.rule(
            "add", priority=1, iifname="eth0", ip_proto=TCP, dport_range=f"{port}:{port}",
            action="FR_ACT_BLACKHOLE",
        )  # fmt: skip
    inside.rule("del", priority=0, table=LOCAL)
