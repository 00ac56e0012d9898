"""Switches of NCCL: which variables switch a transport off, and how it shows in the logs that it is on."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pytest_gpucluster.measure import transports
from pytest_gpucluster.measure.nccl.facts import Facts
from pytest_gpucluster.measure.nccl.line_patterns import INTRA

ONE_DOMAIN = "P2P/MNNVL"


class Switch(NamedTuple):
    """What can be switched off.

    Attributes:
        env: variables that do so.
        between: whether it carries traffic between machines, so that one of them shows nothing.
        seen: reports whether the ranks' logs show that it is in use.
    """

    env: Mapping[str, str]
    between: bool
    seen: Callable[[Facts], bool]


def _direct(facts: Facts) -> bool:
    return any(
        path.kind == INTRA and path.name.startswith("P2P/") and path.name != ONE_DOMAIN
        for path in facts.paths
    )


def _reduces_in_switch(facts: Facts) -> bool:
    return facts.nvls == "used"


def _other_than_sockets(facts: Facts) -> bool:
    return any(path.carrier and path.carrier != transports.TCP for path in facts.paths)


def _reads_gpu_memory(facts: Facts) -> bool:
    return any(path.carrier and path.gdr for path in facts.paths)


def _joined(facts: Facts) -> bool:
    return any(path.name == ONE_DOMAIN for path in facts.paths)


WITHOUT_FABRIC: Mapping[str, str] = {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_NET_PLUGIN": "none"}
"""Variables that leave nothing but sockets between nodes."""

SWITCHES: Mapping[str, Switch] = {
    "P2P": Switch({"NCCL_P2P_DISABLE": "1"}, between=False, seen=_direct),
    "NVLS": Switch({"NCCL_NVLS_ENABLE": "0"}, between=False, seen=_reduces_in_switch),
    "RDMA": Switch(WITHOUT_FABRIC, between=True, seen=_other_than_sockets),
    "GPUDirect": Switch({"NCCL_NET_GDR_LEVEL": "LOC"}, between=True, seen=_reads_gpu_memory),
    "MNNVL": Switch({"NCCL_MNNVL_ENABLE": "0"}, between=True, seen=_joined),
}
"""Name of what is switched off -> how."""


def path_names(facts: Facts) -> tuple[str, ...]:
    """Return the names of all paths in use, such as `NET/IB with GPUDirect`."""
    found = {
        f"NET/{path.name}{' with GPUDirect' if path.gdr else ''}" if path.carrier else path.name
        for path in facts.paths
    }
    return (*sorted(found), *(("NVLS",) if facts.nvls == "used" else ()))
