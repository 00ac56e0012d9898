"""Short folders for sockets, which a run that was killed cannot remove: the next run does."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from pytest_gpucluster.provider import processes
from pytest_gpucluster.provider.protocol import ProviderError

PREFIX = "gpucluster-"
OWNER = "owner"
LIMIT = 107
"""Bytes of a Unix socket's path: sockaddr_un.sun_path holds 108 with the final zero."""
BELOW = len(f"/{PREFIX}12345678/nodes/kubelet.sock")
"""Bytes that the longest path of a socket has below the folder for temporary files."""
SHORT = ("/tmp", "/var/tmp")  # noqa: S108 - folders in them are made by mkdtemp


def bases() -> list[Path]:
    """Return where folders for sockets may lie, first the one for temporary files: it may be too long for a socket."""
    wanted = [tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), *SHORT]
    return [Path(base) for base in dict.fromkeys(wanted) if base and len(os.fsencode(base)) + BELOW <= LIMIT]


def new_folder(owner_pid: int) -> Path:
    """Make a folder that belongs to a process, and remove those whose processes have ended.

    A Unix socket's path has at most 107 bytes, which a run folder easily exceeds, and which a TMPDIR below a test's
    folder may.

    Raises:
        ProviderError: there is no folder that is short enough and may be written to.
    """
    remove_orphans()
    for base in bases():
        with contextlib.suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
            (folder / OWNER).write_text(f"{owner_pid} {processes.born(owner_pid) or 0}\n", encoding="utf-8")
            return folder
    tried = ", ".join(dict.fromkeys((tempfile.gettempdir(), *SHORT)))
    raise ProviderError(
        f"no folder for sockets: {tried} cannot be written to or is longer than {LIMIT - BELOW} bytes; set TMPDIR to a "
        "short folder of yours"
    )


def remove_orphans() -> None:
    """Remove folders of this user whose owning process has ended."""
    for path in (path for base in bases() for path in base.glob(f"{PREFIX}*/{OWNER}")):
        # Another run may be removing the same one.
        with contextlib.suppress(OSError, ValueError):
            pid, born = (int(word) for word in path.read_text(encoding="utf-8").split())
            if path.stat().st_uid == os.getuid() and processes.born(pid) != born:
                shutil.rmtree(path.parent, ignore_errors=True)
