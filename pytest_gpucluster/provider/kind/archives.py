"""Image archives: which images are in one, read without an engine."""

import json
import tarfile
from pathlib import Path
from typing import Any

from pytest_gpucluster.provider.protocol import ProviderError


def images(archive: Path) -> tuple[str, ...]:
    """Return the names of the images in an archive of `docker save`, or in an OCI archive that names them.

    Raises:
        ProviderError: it cannot be read, or names no image.
    """
    try:
        with tarfile.open(archive) as tar:
            known = set(tar.getnames())
            if "manifest.json" in known:
                found = [tag for each in _json(tar, "manifest.json") for tag in each.get("RepoTags") or []]
            elif "index.json" in known:
                marks = [each.get("annotations") or {} for each in _json(tar, "index.json")["manifests"]]
                keys = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
                found = [next((mark[key] for key in keys if key in mark), "") for mark in marks]
            else:
                found = []
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError, AttributeError) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise ProviderError(f"image archive {archive} cannot be read: {words}") from None
    named = tuple(name for name in found if name)
    if not named:
        raise ProviderError(f"image archive {archive} names no image: save it with its name and tag")
    return named


def _json(tar: tarfile.TarFile, name: str) -> Any:
    member = tar.extractfile(name)
    if member is None:
        raise ProviderError(f"image archive {name} is not a file")
    with member:
        return json.loads(member.read())


def mark(archive: Path) -> str:
    """Return what tells this archive from another of the same path: reading gigabytes for a digest takes seconds."""
    stat = archive.stat()
    return f"{archive.resolve()} {stat.st_size} {stat.st_mtime_ns}"
