"""Short folders for sockets, which a run that was killed cannot remove: the next run does."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from pytest_gpucluster.provider import processes

PREFIX = "gpucluster-"
OWNER = "owner"


def new_folder(owner_pid: int) -> Path:
    """Make a folder that belongs to a process, and remove those whose processes have ended.

    A Unix socket's path has at most 107 bytes, which a run folder easily exceeds; hence the temporary folder.
    """
    remove_orphans()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    (folder / OWNER).write_text(f"{owner_pid} {processes.born(owner_pid) or 0}\n", encoding="utf-8")
    return folder


def remove_orphans() -> None:
    """Remove folders of this user whose owning process has ended."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{OWNER}"):
        # Another run may be removing the same one.
        with contextlib.suppress(OSError, ValueError):
            pid, born = (int(word) for word in path.read_text(encoding="utf-8").split())
            if path.stat().st_uid == os.getuid() and processes.born(pid) != born:
                shutil.rmtree(path.parent, ignore_errors=True)
