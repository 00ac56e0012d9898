"""Resource limits of processes on a real machine: as high as this user may have them, as container engines do."""

import resource
from contextlib import suppress

RAISED = (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE)
"""Locked memory, which RDMA and pinned transfers need, and open files."""


def raise_limits() -> None:
    """Raise what programs with GPUs run into; whoever may not raise a limit gets what may be had.

    Must be called before the sandbox is made: inside it nobody may raise a hard limit.
    """
    for what in RAISED:
        soft, hard = resource.getrlimit(what)
        if what == resource.RLIMIT_MEMLOCK:
            with suppress(ValueError, OSError):
                resource.setrlimit(what, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                continue
        if soft != hard:
            with suppress(ValueError, OSError):
                resource.setrlimit(what, (hard, hard))
