"""Network links between the machine, the control plane and the nodes; they vanish with their namespaces."""

import contextlib
from collections.abc import Sequence

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from . import places
from .failure import Failed

BRIDGE = "nodes"
INSIDE = "eth0"
"""What a link is called inside a namespace."""


def to_control_plane(pid: int) -> None:
    """Link the machine with the namespace of a process; run in the machine's namespace."""
    with IPRoute() as ip:
        try:
            ip.link("add", ifname=places.HOST_LINK, kind="veth", peer={"ifname": INSIDE, "net_ns_pid": pid})
        except NetlinkError as error:
            raise Failed(f"no network link between the machine and the cluster (veth): {error}") from None
        _up(ip, places.HOST_LINK, places.HOST, places.HOST_PREFIX)


def of_control_plane(nodes: Sequence[places.Node]) -> None:
    """Set up the control plane's side: its address for the machine, the bridge of the nodes, the routes to pods."""
    with IPRoute() as ip:
        _up(ip, "lo")
        _up(ip, INSIDE, places.CONTROL_PLANE_FOR_HOST, places.HOST_PREFIX)
        ip.link("add", ifname=BRIDGE, kind="bridge")
        _up(ip, BRIDGE, places.CONTROL_PLANE, places.NODE_PREFIX)
        for node in nodes:
            ip.route("add", dst=node.pods, gateway=node.address)


def to_node(node: places.Node, pid: int) -> None:
    """Link a node's namespace, that of a process, to the bridge; run in the control plane's namespace."""
    with IPRoute() as ip:
        ip.link("add", ifname=node.name, kind="veth", peer={"ifname": INSIDE, "net_ns_pid": pid})
        ip.link("set", index=_index(ip, node.name), master=_index(ip, BRIDGE), state="up")


def of_node(node: places.Node, nodes: Sequence[places.Node]) -> None:
    """Set up a node's side: its address, the way to the control plane, the routes to the pods of other nodes."""
    with IPRoute() as ip:
        _up(ip, "lo")
        _up(ip, INSIDE, node.address, places.NODE_PREFIX)
        ip.route("add", dst="default", gateway=places.CONTROL_PLANE)
        for other in nodes:
            if other != node:
                ip.route("add", dst=other.pods, gateway=other.address)


def remove_from_machine() -> None:
    """Remove the machine's link if it is still there."""
    with IPRoute() as ip, contextlib.suppress(NetlinkError):
        for index in ip.link_lookup(ifname=places.HOST_LINK):
            ip.link("del", index=index)


def _index(ip: IPRoute, name: str) -> int:
    return int(ip.link_lookup(ifname=name)[0])


def _up(ip: IPRoute, name: str, address: str = "", prefix: int = 0) -> None:
    index = _index(ip, name)
    if address:
        ip.addr("add", index=index, address=address, prefixlen=prefix)
    ip.link("set", index=index, state="up")
