"""Files and folders that nobody but their owner may read, whatever the umask is: evidence says much of a cluster."""

import contextlib
import os
import stat
from pathlib import Path
from typing import IO

FILE, FOLDER = 0o600, 0o700


def folder(path: Path) -> Path:
    """Make a folder, with those above it, and keep others out of it; those above stay as they are."""
    path.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(PermissionError):  # somebody else's, who lent it
        path.chmod(FOLDER)
    return path


def opened(path: Path, mode: str) -> IO[str]:
    """Open a text file for writing (`w`) or appending (`a`).

    Raises:
        OSError: it cannot be opened.
    """
    how = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if mode == "a" else os.O_TRUNC)
    descriptor = os.open(path, how, FILE)
    _shut(descriptor)
    return os.fdopen(descriptor, mode, encoding="utf-8", errors="backslashreplace")


def write(path: Path, content: str) -> None:
    """Write a text file.

    Raises:
        OSError: it cannot be written.
    """
    with opened(path, "w") as file:
        file.write(content)


def shut(root: Path) -> None:
    """Take from others what they may do with the files and folders below a folder, and with the folder."""
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                _shut_path(Path(place, name))
    with contextlib.suppress(OSError):
        _shut_path(root)


def _shut_path(path: Path) -> None:
    mode = path.lstat().st_mode
    if (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and mode & 0o077:
        path.chmod(stat.S_IMODE(mode) & FOLDER)


def _shut(descriptor: int) -> None:
    """Keep others out of a file that was there before; a pipe or a device stays as it is."""
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_mode & 0o077:
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, FILE)
