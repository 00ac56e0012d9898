"""Names of networks as NCCL prints them, and what carries the bytes behind each name.

The name is free text of whoever wrote the plugin: it may hold blanks, and most fast networks are not called IB.
"""

import re
from collections.abc import Iterable, Mapping

RDMA = "rdma"
TCP = "tcp"
GPUDIRECT_TCP = "gpudirect_tcp"
UNKNOWN = "unknown"
CLASSES = (RDMA, TCP, GPUDIRECT_TCP, UNKNOWN)
"""What a network can be."""

_KNOWN = (
    (re.compile(r"IB", re.IGNORECASE), RDMA),
    (re.compile(r"IBext(_v\d+)?", re.IGNORECASE), RDMA),
    (re.compile(r"UCX([-_].*)?", re.IGNORECASE), RDMA),
    (re.compile(r"SHARP", re.IGNORECASE), RDMA),
    (re.compile(r"gIB", re.IGNORECASE), RDMA),
    # AMD's: RCCL's own verbs network, its copy for other queue pairs, and the plugin for AMD's adapters.
    (re.compile(r"ROCM-IB|IB-CAST|RCCL-ANP", re.IGNORECASE), RDMA),
    (re.compile(r"Socket", re.IGNORECASE), TCP),
    (re.compile(r"FastSocket", re.IGNORECASE), TCP),
    (re.compile(r"GPUDirectTCPXO?(_v\d+)?", re.IGNORECASE), GPUDIRECT_TCP),
    (re.compile(r"FasTrak(_v\d+)?", re.IGNORECASE), GPUDIRECT_TCP),
)
_LIBFABRIC = re.compile(r"(AWS )?Libfabric|OFI", re.IGNORECASE)
_RDMA_PROVIDERS = ("efa", "cxi", "verbs", "psm2", "psm3", "opx", "gni")
_TCP_PROVIDERS = ("tcp", "sockets", "udp", "net")
_SHARP = re.compile(r"SHARP", re.IGNORECASE)


def is_libfabric(name: str) -> bool:
    """Say whether a network is libfabric's, whose provider decides what carries the bytes."""
    return _LIBFABRIC.fullmatch(name) is not None


def is_reduction(name: str) -> bool:
    """Say whether a name is the in-network reduction that runs beside another network."""
    return _SHARP.fullmatch(name) is not None


def of_provider(provider: str) -> str:
    """Return the class of a libfabric provider; `tcp;ofi_rxm` is layered on tcp."""
    base = provider.lower().partition(";")[0].removeprefix("ofi_")
    if base in _RDMA_PROVIDERS:
        return RDMA
    return TCP if base in _TCP_PROVIDERS else UNKNOWN


def of(name: str, providers: Iterable[str] = (), told: Mapping[str, str] | None = None) -> str:
    """Return the class of a network.

    Args:
        name: as printed behind `NET/` or `Using network`.
        providers: libfabric providers that were chosen; the slowest counts.
        told: name -> class from the user, for plugins that nobody knows here.
    """
    for own, kind in (told or {}).items():
        if own.lower() == name.lower():
            return kind
    for shape, kind in _KNOWN:
        if shape.fullmatch(name):
            return kind
    if is_libfabric(name):
        classes = {of_provider(provider) for provider in providers}
        for kind in (TCP, UNKNOWN, RDMA):
            if kind in classes:
                return kind
    return UNKNOWN
