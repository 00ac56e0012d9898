"""Parts of the kit, each in a folder named after the hash of all that it is made of."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import places
from .shell import say

FORGOTTEN = 14 * 86400.0
"""Seconds after which a version that was not used goes; another checkout may be using it."""


@dataclass(frozen=True)
class Part:
    """Something that is built once and kept: a folder below the cache."""

    name: str
    make: Callable[[Path], None] = field(repr=False)
    """Fills an empty folder."""
    sources: Sequence[Path] = ()
    """Files and folders whose contents are part of the key."""
    says: Sequence[str] = ()
    """Versions and settings that are part of the key."""
    uses: Sequence["Part"] = ()
    """Other parts that this one is made of."""

    @property
    def key(self) -> str:
        """Return the hash of sources, settings and the parts that are used."""
        seen = hashlib.sha256()
        for each in (self.name, *self.says, *(part.key for part in self.uses)):
            seen.update(each.encode() + b"\0")
        for path in self.sources:
            for file in files_below(path):
                seen.update(os.path.relpath(file, places.HERE).encode() + b"\0" + file.read_bytes() + b"\0")
        return seen.hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """Return where the part is, once it is made."""
        return places.CACHE / f"{self.name}-{self.key}"

    def made(self) -> Path:
        """Make the part unless it is there, and return its folder."""
        if self.folder.is_dir():
            os.utime(self.folder)
            return self.folder
        for part in self.uses:
            part.made()
        places.CACHE.mkdir(parents=True, exist_ok=True)
        unfinished = places.CACHE / f".{self.name}-{os.getpid()}"
        remove(unfinished)
        unfinished.mkdir()
        began = time.monotonic()
        try:
            self.make(unfinished)
            unfinished.rename(self.folder)
        finally:
            remove(unfinished)
        say(f"  made {self.name:<14} {time.monotonic() - began:6.1f} s")
        return self.folder


def files_below(path: Path) -> Iterator[Path]:
    """Yield a file, or the files of a folder in order, without what Python leaves there."""
    if path.is_file():
        yield path
        return
    for each in sorted(path.rglob("*")):
        if each.is_file() and "__pycache__" not in each.parts:
            yield each


def remove(path: Path) -> None:
    """Remove a folder if it is there, also what its owner made read-only."""
    if path.exists():
        shutil.rmtree(path)


def forget_others(parts: Sequence[Part]) -> None:
    """Remove versions of the parts that nobody has used for long, so that the cache does not grow without end."""
    keep = {part.folder.name for part in parts}
    names = tuple(f"{part.name}-" for part in parts)
    for folder in places.CACHE.iterdir():
        old = time.time() - folder.stat().st_mtime > FORGOTTEN
        if old and folder.is_dir() and folder.name.startswith(names) and folder.name not in keep:
            say(f"  removed {folder.name}, of an older version")
            remove(folder)
