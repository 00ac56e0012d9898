"""Image archives without a Docker engine: one layer, any number of images on it."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}
LONG_AGO = "2026-01-01T00:00:00Z"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """What an image is called and starts."""

    names: Sequence[str]
    entrypoint: Sequence[str] = ()
    user: str = ""
    """Numbers where pods say `runAsNonRoot`: the kubelet cannot look a name up."""
    env: Sequence[str] = (PATH,)
    """Variables, `NAME=VALUE`."""

    def config(self, layer: str) -> bytes:
        """Return the image's configuration, for the digest of its layer."""
        config: dict[str, object] = {"Env": list(self.env)}
        if self.entrypoint:
            config["Entrypoint"] = list(self.entrypoint)
        if self.user:
            config["User"] = self.user
        return json.dumps(
            {
                "architecture": ARCHITECTURE.get(platform.machine(), platform.machine()),
                "os": "linux",
                "created": LONG_AGO,
                "config": config,
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
                "history": [{"created": LONG_AGO, "created_by": "dev/kind"}],
            }
        ).encode()


class Hashed:
    """A file that hashes what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        """Take the file."""
        self.file = file
        self.seen = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write and hash."""
        self.seen.update(data)
        return self.file.write(data)


def write(out: Path, root: Path, images: Sequence[Image], *, over: Path | None = None) -> None:
    """Write an archive that `docker load`, `ctr images import` and `kind load image-archive` read.

    Args:
        out: The archive.
        root: What the one layer holds.
        images: What stands on it.
        over: A second folder, laid over the first.
    """
    layer = out.with_suffix(".layer")
    with layer.open("wb") as file:
        hashed = Hashed(file)
        with tarfile.open(fileobj=hashed, mode="w|", format=tarfile.GNU_FORMAT) as tar:  # type: ignore[call-overload]
            for base in (root, over):
                for each in sorted(base.iterdir()) if base is not None else ():
                    tar.add(each, arcname=each.name, filter=anonymous)
    digest = hashed.seen.hexdigest()
    blobs, manifest = {}, []
    for image in images:
        config = image.config(digest)
        name = f"{hashlib.sha256(config).hexdigest()}.json"
        blobs[name] = config
        manifest.append({"Config": name, "RepoTags": list(image.names), "Layers": [f"{digest}/layer.tar"]})
    blobs["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in blobs.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        with layer.open("rb") as file:
            tar.addfile(anonymous(tar.gettarinfo(layer, arcname=f"{digest}/layer.tar")), file)
    layer.unlink()


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Take owner and time out of a member, so that the same contents have the same digest."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
