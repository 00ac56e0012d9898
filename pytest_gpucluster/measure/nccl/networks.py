"""Names of networks as NCCL prints them, and what carries the bytes behind each name.

The name is free text of whoever wrote the plugin: it may hold blanks, and most fast networks are not called IB.
"""

import re
from collections.abc import Iterable, Mapping

from pytest_gpucluster.measure import transports
from pytest_gpucluster.measure.transports import GPUDIRECT_TCP, RDMA, TCP, UNKNOWN

__all__ = [
    "CLASSES",
    "GPUDIRECT_TCP",
    "RDMA",
    "TCP",
    "UNKNOWN",
    "is_libfabric",
    "is_reduction",
    "of",
    "of_provider",
]

CLASSES = transports.CARRIERS

_ANP = re.compile(r"RCCL-ANP", re.IGNORECASE)
"""RCCL's plugin for AMD's adapters, which no profile names as a transport."""
_LIBFABRIC = transports.NETWORKS[transports.LIBFABRIC].printed
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
    if is_libfabric(name):
        classes = {of_provider(provider) for provider in providers}
        return next((kind for kind in (TCP, UNKNOWN, RDMA) if kind in classes), UNKNOWN)
    if _ANP.fullmatch(name):
        return RDMA
    known = (one.carrier for one in transports.NETWORKS.values() if one.printed.fullmatch(name))
    return next(known, UNKNOWN)
