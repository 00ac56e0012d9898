"""Memory of NUMA nodes: what a process that is started next may have, as the kubelet's Memory Manager has it.

The policy belongs to the thread that sets it and is inherited by what it starts, hence no program is needed for it.
"""

import ctypes
import os
import platform
from collections.abc import Collection, Iterator
from contextlib import contextmanager

# linux/mempolicy.h, asm/unistd.h.
MPOL_DEFAULT, MPOL_BIND = 0, 2
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
WIDTH = 1024
"""NUMA nodes that a mask has room for."""


@contextmanager
def bound_to(nodes: Collection[int]) -> Iterator[None]:
    """Bind the memory of processes that are started inside to NUMA nodes; none: they may have any.

    Raises:
        OSError: the kernel refuses.
    """
    if not nodes:
        yield
        return
    _set(MPOL_BIND, nodes)
    try:
        yield
    finally:
        _set(MPOL_DEFAULT, ())


def _set(mode: int, nodes: Collection[int]) -> None:
    number = SET_MEMPOLICY.get(platform.machine())
    if number is None:
        raise OSError(f"memory of NUMA nodes cannot be bound on {platform.machine()}")
    mask = (ctypes.c_ulong * (WIDTH // (8 * ctypes.sizeof(ctypes.c_ulong))))()
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    for node in nodes:
        mask[node // bits] |= 1 << node % bits
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, mode, mask if nodes else None, WIDTH if nodes else 0) != 0:
        code = ctypes.get_errno()
        listed = ", ".join(map(str, sorted(nodes)))
        raise OSError(code, f"memory of NUMA node {listed} cannot be had: {os.strerror(code)}")
