"""What carries traffic between nodes: the one table of transports that a profile can declare."""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

RDMA = "rdma"
TCP = "tcp"
GPUDIRECT_TCP = "gpudirect_tcp"
UNKNOWN = "unknown"
CARRIERS = (RDMA, TCP, GPUDIRECT_TCP, UNKNOWN)
"""What can carry the bytes behind a network's name."""

Name = Literal[
    "NET/IB", "NET/OFI", "NET/UCX", "NET/gIB", "NET/FasTrak", "NET/TCPX", "NET/SHARP", "NET/Socket", "MNNVL"
]  # fmt: skip
"""Names in a profile, as NCCL's connection lines have them."""
LIBFABRIC = "NET/OFI"
SHARP = "NET/SHARP"
SOCKETS = "NET/Socket"
NVLINK = "MNNVL"
"""No network: GPUs of several nodes in one NVLink domain."""


class Transport(NamedTuple):
    """A network of NCCL.

    Attributes:
        asked: its name for NCCL_NET, unless a profile states another.
        printed: how it is called in NCCL's lines.
        carrier: what carries the bytes; for libfabric what is expected, its provider decides.
    """

    asked: str
    printed: re.Pattern[str]
    carrier: str


def _called(names: str) -> re.Pattern[str]:
    return re.compile(names, re.IGNORECASE)


NETWORKS: Mapping[str, Transport] = {
    # RCCL's own verbs network is called otherwise in newer releases.
    "NET/IB": Transport("IB", _called(r"IB|IBext(_v\d+)?|ROCM-IB|IB-CAST"), RDMA),
    LIBFABRIC: Transport("AWS Libfabric", _called(r"(AWS )?Libfabric|OFI"), RDMA),
    "NET/UCX": Transport("UCX", _called(r"UCX([-_].*)?"), RDMA),
    "NET/gIB": Transport("gIB", _called(r"gIB"), RDMA),
    "NET/FasTrak": Transport("FasTrak", _called(r"FasTrak(_v\d+)?"), GPUDIRECT_TCP),
    "NET/TCPX": Transport("GPUDirectTCPX_v7", _called(r"GPUDirectTCPXO?(_v\d+)?"), GPUDIRECT_TCP),
    SHARP: Transport("IBext_v8", _called(r"IB|IBext(_v\d+)?|SHARP"), RDMA),
    SOCKETS: Transport("Socket", _called(r"(Fast)?Socket"), TCP),
}
"""Declared transport -> its network."""
