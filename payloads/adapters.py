"""What a container sees of RDMA adapters: which of them open, and state, rate and link layer of their ports.

Standard library only. Reads sysfs below `/sys`, or below the folder that GPUCLUSTER_SYSFS names. Prints a line per
adapter as in `lines.py`, then one with all their names, and ends. What is gone by the time it is read is told as that.
"""

import os
import pathlib
import sys
import time

from lines import say

ROOT = "GPUCLUSTER_SYSFS"
"""Where a cluster that only plays adapters keeps what `/sys` would have."""
DEVICES = "/dev/infiniband"
ENOUGH = 64
"""Adapters that are told; a machine with many virtual functions has more."""
OF_PORT = ("state", "phys_state", "rate", "link_layer", "sm_lid")


def read(path: pathlib.Path, lost: list[str]) -> str | None:
    """Return the text of a file without the line's end, None where it cannot be read, which is noted."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        lost.append(f"{path.parent.name}/{path.name}: {error.strerror or error}")
        return None


def names(folder: pathlib.Path) -> list[str]:
    """Return the names in a folder, in order; none where it is not there."""
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def opened(name: str) -> dict[str, object]:
    """Return whether the device file of a verbs device is here and opens, else why not."""
    path = f"{DEVICES}/{name}"
    if not name or not os.path.lexists(path):
        return {"file": "", "opens": False, "why": ""}
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return {"file": path, "opens": False, "why": error.strerror or str(error)}
    return {"file": path, "opens": True, "why": ""}


def adapter(folder: pathlib.Path) -> dict[str, object]:
    """Return one adapter: its device file, its ports, and what was lost while it was read."""
    lost: list[str] = []
    verbs = next((name for name in names(folder / "device" / "infiniband_verbs")), "")
    ports = [
        {"port": int(name), **{key: read(folder / "ports" / name / key, lost) for key in OF_PORT}}
        for name in names(folder / "ports")
        if name.isdigit()
    ]
    return {"name": folder.name, "verbs": verbs, **opened(verbs), "ports": ports, "lost": lost[:8]}


def main() -> int:
    """Tell each adapter, then all their names."""
    began = time.monotonic()
    root = os.environ.get(ROOT) or "/sys"
    folder = pathlib.Path(root) / "class" / "infiniband"
    found = [adapter(folder / name) for name in names(folder)]
    took = time.monotonic() - began
    for one in found[:ENOUGH]:
        say("adapter", **one)
    files = [name for name in names(pathlib.Path(DEVICES)) if name.startswith("uverbs")]
    say("adapters", root=root, names=[one["name"] for one in found][:ENOUGH], count=len(found), files=files[:ENOUGH],
        seconds=round(took, 6))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
