"""NVIDIA's device plugin, on a machine of which it sees only the GPUs of one node."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from . import mounts, places
from .settings import Settings

DEV = Path("/dev")
OF_ALL = ("null", "zero", "full", "random", "urandom")
_GPU = re.compile(r"nvidia(\d+)")
FLAGS = (
    # Device files are handed to containers by the kubelet: there is no container toolkit.
    *("--pass-device-specs=true", "--device-list-strategy=envvar", "--device-discovery-strategy=nvml"),
    *("--mig-strategy=none", "--nvidia-driver-root=/"),
)


def run(number: int) -> None:
    """Become the device plugin of a node, in a mount namespace of its own."""
    node = next(each for each in Settings.read().nodes if each.number == number)
    show_only(seen(node))
    program = places.program("nvidia-device-plugin")
    os.execv(program, [program, *FLAGS])


def seen(node: places.Node) -> tuple[int, ...]:
    """Return the GPUs that the plugin of a node sees: all of its own, unless `NODE-device-plugin.sees` names others."""
    path = places.STATE / f"{node.name}-device-plugin.sees"
    return tuple(int(each) for each in path.read_text().split()) if path.exists() else node.gpus


def show_only(gpus: Iterable[int], dev: Path = DEV) -> None:
    """Hide the device files of all other GPUs, in a way that NVML cannot make them anew.

    NVML lists every GPU of the driver, and makes a device file that is missing if it can: the folder is read-only.
    """
    shown = [each for each in sorted(dev.iterdir()) if _is_shown(each.name, set(gpus))]
    new = places.STATE / f"dev-{os.getpid()}"
    new.mkdir()
    mounts.tmpfs(new)
    for each in shown:
        target = new / each.name
        if each.is_dir():
            target.mkdir()
        else:
            target.touch()
        mounts.bind(each, target)
    mounts.close(new)
    mounts.bind(new, dev)


def _is_shown(name: str, gpus: set[int]) -> bool:
    found = _GPU.fullmatch(name)
    if found is not None:
        return int(found[1]) in gpus
    return name in OF_ALL or name.startswith("nvidia")
