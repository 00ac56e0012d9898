"""Mounts in the namespace of this process; they vanish with it."""

import ctypes
import os
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
RDONLY, REMOUNT, BIND, REC, PRIVATE, SHARED = 1, 32, 4096, 16384, 1 << 18, 1 << 20


def mount(source: str, target: Path, kind: str, flags: int = 0, data: str = "") -> None:
    """Make a mount, as the system call does.

    Raises:
        OSError: the kernel refuses, with the target.
    """
    arguments = [os.fsencode(each) for each in (source, target, kind)]
    if _LIBC.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(data)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(target))


def bind(source: Path, target: Path) -> None:
    """Show a file or a folder at another place too."""
    mount(str(source), target, "none", BIND | REC)


def tmpfs(target: Path, mode: str = "0755") -> None:
    """Show an empty folder in memory."""
    mount("tmpfs", target, "tmpfs", 0, f"mode={mode}")


def share(target: Path) -> None:
    """Let what is mounted below reach the namespaces that are made from this one, as containers' are."""
    mount("none", target, "none", REC | SHARED)


def close(target: Path) -> None:
    """Make a mount read-only."""
    mount("none", target, "none", REMOUNT | BIND | RDONLY)
