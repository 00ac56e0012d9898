"""Planted departures of the nodes from documented behaviour, one seam each."""

from collections.abc import Collection

from pytest_gpucluster.plain.names import did_you_mean

BLOCKS_PORT = "network.blocks-rendezvous-port"
DNS_SILENT = "network.dns-silent"
HOSTNAME_LOOPBACK = "node.hostname-loopback"
DEVICE_UNHEALTHY = "node.device-unhealthy"
KEEPS_EXIT_ZERO = "node.keeps-exit-zero"
KEEPS_REFERENCES = "node.keeps-references"
SLOW_START = "node.slow-start"

DEFECTS: dict[str, str] = {
    BLOCKS_PORT: "what comes in to a TCP port that a pod declares (the job plugins do) is dropped",
    DNS_SILENT: "service and pod names never resolve",
    HOSTNAME_LOOPBACK: "the pod's own host name maps to 127.0.0.1 in /etc/hosts, so that gloo listens on loopback",
    DEVICE_UNHEALTHY: "one GPU of the last node is unhealthy: it is counted in capacity and not in allocatable",
    KEEPS_EXIT_ZERO: "a container's non-zero exit code is reported as 0",
    KEEPS_REFERENCES: "references to variables in a container's arguments are not expanded",
    SLOW_START: "one pod of each gang is started 3 s late",
}

SLOW_START_SECONDS = 3.0


def check(names: Collection[str]) -> frozenset[str]:
    """Return the names of defects to plant as a set.

    Raises:
        ValueError: when a name is not in the table.
    """
    for name in names:
        if name not in DEFECTS:
            raise ValueError(f"unknown defect {name!r} of the nodes{did_you_mean(name, DEFECTS)}")
    return frozenset(names)
