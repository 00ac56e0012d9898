"""The image that payloads run in: built once from our Dockerfile, or one that the operator names."""

import dataclasses
import hashlib
import tempfile
from pathlib import Path

from pytest_gpucluster.plain import folders
from pytest_gpucluster.provider.kind import archives
from pytest_gpucluster.provider.kind import engine as engines
from pytest_gpucluster.provider.protocol import ProviderError

REPOSITORY = "gpucluster-payload"
BUILD_LIMIT = 1800.0
"""Seconds for a build: torch and its dependencies are fetched."""
PULL_LIMIT = 900.0
SAVE_LIMIT = 600.0


@dataclasses.dataclass(frozen=True)
class Payload:
    """An image that is ready to be loaded into nodes.

    Attributes:
        image: its name, as pods say it.
        mark: what it is, for the cluster's notes.
        archive: where it lies, None for one that the engine has.
    """

    image: str
    mark: str
    archive: Path | None = None


def folder() -> Path:
    """Return the folder with the Dockerfile, in a checkout or in an installed package.

    Raises:
        ProviderError: it is in neither.
    """
    found = folders.shipped("images") / "payload"
    if not (found / "Dockerfile").is_file():
        raise ProviderError(
            f"--cluster=kind: no folder {found}: name an image with --gpucluster-kind-payload"
        )
    return found


def prepare(engine: engines.Engine, told: str | None, log: Path) -> Payload:
    """Have the image: an archive, an image of the engine or of a registry, or one built here.

    Raises:
        ProviderError: it cannot be had; one line.
    """
    if told is not None and Path(told).expanduser().is_file():
        archive = Path(told).expanduser().absolute()
        return Payload(_pinned(archives.images(archive)[0]), archives.mark(archive), archive)
    if told is not None:
        image = _pinned(told)
        if not engine.has_image(image):
            engine.ask("pull", image, limit=PULL_LIMIT, log=log)
        return Payload(image, _id(engine, image))
    source = folder()
    image = f"{REPOSITORY}:{digest(source)}"
    if not engine.has_image(image):
        try:
            engine.ask("build", "--tag", image, str(source), limit=BUILD_LIMIT, log=log)
        except ProviderError as error:
            raise ProviderError(
                f"the payload image could not be built: {error}; --gpucluster-kind-payload names an image or an archive"
            ) from None
    return Payload(image, _id(engine, image))


def digest(source: Path) -> str:
    """Return the digest of what an image is built from: names and contents of all files."""
    whole = hashlib.sha256()
    for path in sorted(each for each in source.rglob("*") if each.is_file()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{path.relative_to(source)} {content}\n".encode())
    return whole.hexdigest()[:16]


def as_archive(engine: engines.Engine, payload: Payload, folder: Path, log: Path) -> Path:
    """Return an archive of an image, written to a folder where it is none yet."""
    if payload.archive is not None:
        return payload.archive
    with tempfile.NamedTemporaryFile(dir=folder, prefix="payload-", suffix=".tar", delete=False) as file:
        path = Path(file.name)
    # The engine writes it itself: not all of them overwrite a file that is there.
    path.unlink()
    engine.ask("save", "--output", str(path), payload.image, limit=SAVE_LIMIT, log=log)
    return path


def _id(engine: engines.Engine, image: str) -> str:
    return engine.ask("image", "inspect", "--format", "{{.Id}}", image).strip()


def _pinned(image: str) -> str:
    """Return an image name that kubelets do not ask a registry for.

    Raises:
        ProviderError: it has no tag or `latest`, with which a kubelet pulls every time.
    """
    last = image.rpartition("/")[2]
    if "@" not in last and last.partition(":")[2] in {"", "latest"}:
        raise ProviderError(
            f"payload image {image!r}: give it a tag other than latest, since with latest every kubelet "
            "asks a registry"
        )
    return image
