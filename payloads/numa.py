"""What a container sees of its devices and of the NUMA nodes that it may use.

Standard library only. Prints one line as in `lines.py`, then ends; with `--hold` it holds what it was given until it
is ended.
"""

import ctypes
import mmap
import os
import pathlib
import re
import signal
import sys

from lines import say

TOLD = "GPUCLUSTER_DEVICES"
"""Where a device plugin that tells NUMA nodes puts them: `ID@NUMA,ID@NUMA`, without `@NUMA` where it reports none."""
IDS = "NVIDIA_VISIBLE_DEVICES"
"""Where the vendor's plugin puts the ids of a container's devices."""
ENOUGH = 16
"""Devices that one line names; more would not fit into one write."""
NODES = "/sys/devices/system/node"
TRIAL = 8 << 20
"""Bytes that are had and written to, to see where they lie."""


def read(path: str) -> str:
    """Return the text of a file without the line's end, empty where it cannot be read."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def told() -> dict[str, object]:
    """Return what the device plugin told: id -> NUMA node, None where it told an id alone."""
    text = os.environ.get(TOLD) or os.environ.get(IDS) or ""
    found: dict[str, object] = {}
    for word in text.split(","):
        name, _, numa = word.strip().partition("@")
        if name and name not in ("none", "void", "all"):
            found[name] = int(numa) if numa.isdigit() else None
    return found


def on_the_bus() -> dict[str, int]:
    """Return what the machine itself says: UUID of a GPU that is visible here -> NUMA node of its PCI device."""
    found: dict[str, int] = {}
    for path in pathlib.Path("/proc/driver/nvidia/gpus").glob("*/information"):
        uuid = re.search(r"GPU UUID:\s*(\S+)", read(str(path)))
        numa = read(f"/sys/bus/pci/devices/{path.parent.name.lower()}/numa_node")
        if uuid and re.fullmatch(r"-?\d+", numa):
            found[uuid[1]] = int(numa)
    return found


def allowed(field: str) -> str:
    """Return a list of the process's status, such as `0-3`."""
    match = re.search(rf"^{field}:\s*(\S+)", read("/proc/self/status"), re.MULTILINE)
    return match[1] if match else ""


def quota() -> float | None:
    """Return the CPUs that the container's cgroup allows at most, None where there is no limit or none can be read."""
    both = read("/sys/fs/cgroup/cpu.max").split() or [
        read(f"/sys/fs/cgroup/cpu/cpu.cfs_{part}_us") for part in ("quota", "period")
    ]
    if len(both) != 2 or not both[0].isdigit() or not both[1].isdigit():
        return None
    return round(int(both[0]) / int(both[1]), 3)


def listed(text: str) -> list[int]:
    """Return the numbers of a list such as `0-3,8`."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match:
            found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found


def nodes_of(cpus: str) -> list[int]:
    """Return the NUMA nodes on which CPUs lie, as the machine says; empty where it does not."""
    own = set(listed(cpus))
    folders = pathlib.Path(NODES).glob("node[0-9]*")
    there = {int(each.name[4:]): own & set(listed(read(f"{each}/cpulist"))) for each in folders}
    return sorted(node for node, some in there.items() if some)


def memory() -> dict[str, object]:
    """Return where memory lies that this process has and writes to: policy, and NUMA node -> pages."""
    trial = mmap.mmap(-1, TRIAL)
    for at in range(0, TRIAL, mmap.PAGESIZE):
        trial[at] = 1
    holder = ctypes.c_char.from_buffer(trial)
    start = f"{ctypes.addressof(holder):x}"
    for line in read("/proc/self/numa_maps").splitlines():
        words = line.split()
        if words[0].lstrip("0") == start:
            pages = dict(re.findall(r"\bN(\d+)=(\d+)", line))
            return {"policy": words[1], "pages": {node: int(count) for node, count in pages.items()}}
    return {}


def functions() -> list[dict[str, object]]:
    """Return the network functions that this container was given: devices of its network, and verbs with a file."""
    links = [each for each in sorted(pathlib.Path("/sys/class/net").glob("*")) if (each / "device").exists()]
    found: list[dict[str, object]] = [
        {"name": each.name, "kind": "net", "numa": numa_at(each)} for each in links
    ]
    for file in sorted(pathlib.Path("/dev/infiniband").glob("uverbs*")):
        folder = pathlib.Path("/sys/class/infiniband_verbs") / file.name
        found.append({"name": read(f"{folder}/ibdev") or file.name, "kind": "verbs", "numa": numa_at(folder)})
    return found


def numa_at(folder: pathlib.Path) -> int | None:
    """Return the NUMA node of a device of the machine, None where it tells none."""
    told = read(f"{folder}/device/numa_node")
    return int(told) if told.isdigit() else None


def main() -> int:
    """Tell devices, CPUs and memory; hold them where asked to."""
    plugin, bus = told(), on_the_bus()
    ids, cpus = list(plugin)[:ENOUGH], allowed("Cpus_allowed_list")
    say(
        "devices",
        devices=[
            {"id": name, "numa": plugin[name], **({"bus": bus[name]} if name in bus else {})} for name in ids
        ],
        count=len(plugin),
        by=TOLD if os.environ.get(TOLD) else IDS if os.environ.get(IDS) else "",
        cpus=cpus,
        cpu_nodes=nodes_of(cpus),
        quota=quota(),
        mems=allowed("Mems_allowed_list"),
        memory=memory(),
        functions=functions()[:ENOUGH],
        nodes=read(f"{NODES}/online"),
    )
    if "--hold" in sys.argv[1:]:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        while True:
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
