"""Which extended resources of a node stand for network adapters, whatever plugin offers them."""

import re

from pytest_gpucluster.evidence.objects.node_status import Machine

ADAPTER = re.compile(
    r"^rdma/|rdma|hca|roce|infiniband|(?:^|[/_.-])(?:ib|cx\d|mlnx\w*|vf\w*|efa|nic\w*)(?:[_.-]|$)|sriov|hostdev",
    re.IGNORECASE,
)
"""Names of resources that read as adapters: those of the known plugins, and what operators call their own."""


def beside(machine: Machine, declared: str) -> dict[str, int]:
    """Return the resources of a node, other than the declared one, that read as adapters, with how many there are."""
    every = sorted({*machine.capacity, *machine.allocatable})
    return {
        name: max(machine.offers(name))
        for name in every
        if name != declared and ADAPTER.search(name) and max(machine.offers(name)) > 0
    }
