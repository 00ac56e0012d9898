"""Images of the cluster's own: one for pods' namespaces, one that has nothing but the folders of the machine."""

import os
import shutil
import sys
from pathlib import Path

from dev.kind.kit import archive

from . import places

PAUSE = "gpu-kubernetes/pause:1"
MACHINE = "gpu-kubernetes/machine:1"
"""For pods that mount the machine's `/usr` and `/opt`: its Python, its torch and its driver are theirs."""
LINKS = ("bin", "lib", "lib64", "sbin")
FOLDERS = ("usr", "opt", "etc", "tmp", "proc", "sys", "dev", "root", "var", "run")
NO_MULTICAST = ("NCCL_NVLS_ENABLE=0", "TORCH_SYMM_MEM_DISABLE_MULTICAST=1", "NVSHMEM_DISABLE_NVLS=1")
"""NVLink multicast can put the GPUs of a shared machine out of service."""


def archives() -> list[Path]:
    """Return all archives that a node needs."""
    return [
        *sorted((places.STATE / "archives").glob("*.tar")),
        *sorted((places.HOME / "images").glob("*/*.tar")),
    ]


def write(libraries: tuple[str, ...]) -> None:
    """Write the archives that are made on the machine.

    Args:
        libraries: folders in which the driver's libraries lie.
    """
    out = places.STATE / "archives"
    out.mkdir()
    root = places.STATE / "root"
    (root / "pause").mkdir(parents=True)
    shutil.copy(places.program("pause"), root / "pause")
    archive.write(out / "pause.tar", root / "pause", [archive.Image([PAUSE], ["/pause"])])
    machine = root / "machine"
    for name in FOLDERS:
        (machine / name).mkdir(parents=True)
    (machine / "tmp").chmod(0o1777)
    for name in LINKS:
        (machine / name).symlink_to(f"usr/{name}")
    (machine / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (machine / "etc" / "group").write_text("root:x:0:\n")
    variables = [f"PATH={search()}", *NO_MULTICAST]
    if libraries:
        variables.append(f"LD_LIBRARY_PATH={':'.join(libraries)}")
    archive.write(out / "machine.tar", machine, [archive.Image([MACHINE], env=variables)])
    shutil.rmtree(root)


def search() -> str:
    """Return where pods look for programs: beside this Python first."""
    return ":".join(
        [str(Path(sys.executable).parent), "/usr/local/nvidia/bin", archive.PATH.partition("=")[2]]
    )


def mounted() -> list[str]:
    """Return the folders of the machine that pods mount: `/usr`, `/opt`, and where this Python lies if elsewhere."""
    found = [each for each in ("/usr", "/opt") if Path(each).is_dir()]
    for each in (sys.base_prefix, sys.prefix):
        real = os.path.realpath(each)
        if not any(real == known or real.startswith(f"{known}/") for known in found):
            found.append(real)
    return found
