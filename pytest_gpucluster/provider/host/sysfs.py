"""NUMA nodes, CPUs, memory and network adapters, as the kernel shows them in /sys."""

import re
from collections.abc import Collection
from pathlib import Path

from pytest_gpucluster.plain import ranges
from pytest_gpucluster.provider.host.inventory import Adapter

NODES = "sys/devices/system/node"
PCI = "sys/bus/pci/devices"
NET = "sys/class/net"
RDMA = "sys/class/infiniband"
VERBS = "sys/class/infiniband_verbs"
SHARED_RDMA = ("rdma_cm",)
"""Files in /dev/infiniband that belong to no adapter."""


def text(path: Path) -> str:
    """Return the text of a file without its last line end, empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def pci_address(address: str) -> str:
    """Return a PCI address as sysfs writes it: NVML writes eight digits of domain, in capitals."""
    domain, _, rest = address.strip().lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if rest and re.fullmatch("[0-9a-f]+", domain) else address


def numa_of(root: Path, pci: str) -> int | None:
    """Return the NUMA node of a PCI device, None where the machine tells none: -1, or nothing to read."""
    return _numa(root / PCI / pci / "numa_node") if pci else None


def _numa(path: Path) -> int | None:
    told = text(path)
    return int(told) if told.isdigit() else None


def numa_nodes(
    root: Path, usable: Collection[int]
) -> tuple[dict[int, tuple[int, ...]], dict[int, int], list[str]]:
    """Return the NUMA nodes with CPUs that can be used.

    Args:
        root: folder of the machine's root.
        usable: CPUs that this process may use.

    Returns:
        NUMA node -> its CPUs, NUMA node -> its KiB of memory, and what could not be found out.
    """
    cpus: dict[int, tuple[int, ...]] = {}
    memory: dict[int, int] = {}
    for folder in (root / NODES).glob("node[0-9]*"):
        node = int(folder.name.removeprefix("node"))
        own = tuple(cpu for cpu in ranges.read(text(folder / "cpulist")) if cpu in set(usable))
        if own:
            cpus[node] = own
            memory[node] = _total(text(folder / "meminfo"))
    if cpus:
        return dict(sorted(cpus.items())), memory, []
    note = f"/{NODES} lists no NUMA node: the machine counts as one"
    return {0: tuple(sorted(usable))}, {0: _total(text(root / "proc/meminfo"))}, [note]


def _total(meminfo: str) -> int:
    match = re.search(r"MemTotal:\s*(\d+)\s*kB", meminfo)
    return int(match[1]) if match else 0


def adapters(root: Path) -> list[Adapter]:
    """Return the network adapters that are devices of the machine, and those with RDMA verbs."""
    found = []
    for folder in _entries(root / NET):
        if (folder / "device").exists():
            speed = text(folder / "speed")
            rate = f"{speed} Mbit/s" if speed.isdigit() else ""
            found.append(
                Adapter(
                    folder.name,
                    "net",
                    _address(folder),
                    _numa(folder / "device/numa_node"),
                    text(folder / "operstate"),
                    rate,
                )
            )
    verbs = {
        text(folder / "ibdev"): folder.name for folder in _entries(root / VERBS) if text(folder / "ibdev")
    }
    for folder in _entries(root / RDMA):
        port = next(iter(_entries(folder / "ports")), folder)
        file = f"/dev/infiniband/{verbs.get(folder.name, '')}"
        found.append(
            Adapter(
                folder.name,
                text(port / "link_layer") or "InfiniBand",
                _address(folder),
                _numa(folder / "device/numa_node"),
                text(port / "state").partition(":")[2].strip(),
                text(port / "rate"),
                (file,) if (root / file.lstrip("/")).exists() and folder.name in verbs else (),
            )
        )
    return found


def shared_rdma(root: Path) -> tuple[str, ...]:
    """Return the device files that every user of RDMA verbs needs beside an adapter's own."""
    return tuple(
        f"/dev/infiniband/{name}" for name in SHARED_RDMA if (root / "dev/infiniband" / name).exists()
    )


def product(root: Path) -> str:
    """Return what the machine's maker calls it."""
    return text(root / "sys/class/dmi/id/product_name")


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _address(folder: Path) -> str:
    name = (folder / "device").resolve().name
    return name if re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", name) else ""
