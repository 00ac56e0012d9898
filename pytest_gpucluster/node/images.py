"""The table that maps image names to programs of this machine."""

import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_gpucluster.node.config import Image
from pytest_gpucluster.node.rootfs import Mount

STARTUP = Path(__file__).with_name("startup")
"""Holds a `sitecustomize` with which interpreters that have this folder on their path start and end sooner."""


def resolve(table: Mapping[str, Image], name: str) -> Image | None:
    """Return what an image name stands for, or None where the table does not have it.

    An exact name wins over patterns; among patterns the longest wins, so that `*` is the last resort.
    """
    exact = table.get(name)
    if exact is not None:
        return exact
    matching = [pattern for pattern in table if fnmatchcase(name, pattern)]
    return table[max(matching, key=len)] if matching else None


def interpreter(program: str) -> dict[str, object]:
    """Return configuration for an image whose program is a Python interpreter of this machine.

    Args:
        program: Its path.
    """
    folders = [str(Path(program).parent)]
    return {"entrypoint": [program], "path": folders, "env": {"PYTHONPATH": str(STARTUP)}}


def stand_ins() -> dict[str, dict[str, object]]:
    """Return configuration for images that job plugins name by themselves: what they need, from this package.

    Their programs find Python on PATH, hence the folder of the running one.
    """
    folder = Path(__file__).with_name("busybox")
    return {"busybox:*": {"path": [str(folder), str(Path(sys.executable).parent)]}}


MPI = Path(__file__).with_name("mpi_image")


def mpi(programs: str) -> dict[str, object]:
    """Return configuration for the image of MPI jobs: ssh, sshd and the documents' hello, of this package.

    Keys of this machine's own account are nothing of the image's: its folder of keys is empty.

    Args:
        programs: Folder with mpiexec, and with the Python that they find on PATH.
    """
    return {
        "path": [str(MPI), programs],
        "files": {"/usr/sbin/sshd": str(MPI / "sshd")},
        "empty": ["/root/.ssh"],
    }


def mounts(image: Image, base: Path) -> list[Mount]:
    """Return the places of an image's own files and empty folders in a container.

    Args:
        image: What the image stands for.
        base: Folder of the container, in memory; empty folders are made below it.
    """
    found = [
        Mount(target, Path(source), read_only=True, from_host=True) for target, source in image.files.items()
    ]
    for number, target in enumerate(image.empty):
        folder = base / "empty" / str(number)
        folder.mkdir(parents=True, mode=0o700)
        found.append(Mount(target, folder))
    return found
