"""Machines made up for tests: a tree with /sys, /proc and /dev, and a module that answers as NVML would."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

from pytest_gpucluster.provider.host import discover
from pytest_gpucluster.provider.host.inventory import Inventory

GIB = 1 << 30


class NVMLError(Exception):
    """As the library's: the text is the driver's."""


class NVMLError_NotSupported(NVMLError):  # noqa: N801, N818 - as the library calls it
    """What a device does not know."""


class NVMLError_FunctionNotFound(NVMLError):  # noqa: N801, N818 - as the library calls it
    """What an old driver does not know."""


class NVMLError_NotFound(NVMLError):  # noqa: N801, N818 - as the library calls it
    """No MIG slice of this number."""


class NVMLError_NoPermission(NVMLError):  # noqa: N801, N818 - as the library calls it
    """What this user may not ask."""


class NVMLError_GpuIsLost(NVMLError):  # noqa: N801, N818 - as the library calls it
    """A GPU that fell off the bus."""


@dataclasses.dataclass
class Slice:
    """A MIG slice."""

    uuid: str
    profile: str
    instance: int
    memory: int = 10 * GIB


@dataclasses.dataclass
class Card:
    """A GPU as the driver has it."""

    minor: int
    pci: str
    numa: str = "0"
    name: str = "NVIDIA H100 80GB HBM3"
    memory: int = 80 * GIB
    lost: bool = False
    mig: bool = False
    slices: list[Slice] = dataclasses.field(default_factory=list)

    @property
    def uuid(self):
        """Return a UUID that tells the cards apart."""
        return f"GPU-{self.minor:08x}-1111-2222-3333-444444444444"


def library(cards, *, error=None, bytes_too=False):
    """Return what stands for the module `pynvml`."""
    put = (lambda text: text.encode()) if bytes_too else (lambda text: text)

    def init():
        if error is not None:
            raise error

    def handle(index):
        if cards[index].lost:
            raise NVMLError_GpuIsLost("GPU is lost")
        return cards[index]

    def mode(card):
        if "H100" not in card.name:
            raise NVMLError_NotSupported("Not Supported")
        return [int(card.mig), int(card.mig)]

    def part(card, number):
        if number >= len(card.slices):
            raise NVMLError_NotFound("Not Found")
        return card.slices[number]

    def name(item):
        return put(item.name if isinstance(item, Card) else f"NVIDIA H100 80GB HBM3 MIG {item.profile}")

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVMLError_NotSupported=NVMLError_NotSupported,
        NVMLError_FunctionNotFound=NVMLError_FunctionNotFound,
        NVMLError_NotFound=NVMLError_NotFound,
        NVMLError_NoPermission=NVMLError_NoPermission,
        NVMLError_GpuIsLost=NVMLError_GpuIsLost,
        nvmlInit=init,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(cards),
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetUUID=lambda item: put(item.uuid),
        nvmlDeviceGetName=name,
        nvmlDeviceGetPciInfo=lambda card: SimpleNamespace(busId=put(f"0000{card.pci.upper()}")),
        nvmlDeviceGetMinorNumber=lambda card: card.minor,
        nvmlDeviceGetMemoryInfo=lambda item: SimpleNamespace(total=item.memory),
        nvmlDeviceGetMigMode=mode,
        nvmlDeviceGetCudaComputeCapability=lambda _card: (9, 0),
        nvmlDeviceGetMaxMigDeviceCount=lambda _card: 7,
        nvmlDeviceGetMigDeviceHandleByIndex=part,
        nvmlDeviceGetGpuInstanceId=lambda part: part.instance,
        nvmlDeviceGetComputeInstanceId=lambda _part: 0,
        nvmlSystemGetDriverVersion=lambda: put("580.159.04"),
        nvmlSystemGetCudaDriverVersion_v2=lambda: 13000,
    )


def put(path: Path, text: str = "") -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n" if text else "")
    return path


def tree(root: Path, cards, nodes=None) -> Path:
    """Make the tree of a machine: device files, PCI addresses, NUMA nodes with their CPUs."""
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
        put(root / "dev" / name)
    for card in cards:
        put(root / f"dev/nvidia{card.minor}")
        put(root / f"sys/bus/pci/devices/{card.pci}/numa_node", card.numa)
    for node, cpus in (nodes if nodes is not None else {0: "0-3"}).items():
        put(root / f"sys/devices/system/node/node{node}/cpulist", cpus)
        put(root / f"sys/devices/system/node/node{node}/meminfo", f"Node {node} MemTotal:       1048576 kB")
    return root


def adapter(root: Path, name: str, pci: str, numa: str, number: int | None = None) -> None:
    """Add an adapter: a network interface, or with a number one that has RDMA verbs."""
    device = put(root / f"sys/devices/pci0000:00/{pci}/numa_node", numa).parent
    kind = "net" if number is None else "infiniband"
    folder = root / f"sys/class/{kind}/{name}"
    folder.mkdir(parents=True)
    (folder / "device").symlink_to(device)
    if number is None:
        put(folder / "operstate", "up")
        put(folder / "speed", "100000")
        return
    put(folder / "ports/1/link_layer", "InfiniBand")
    put(folder / "ports/1/state", "4: ACTIVE")
    put(folder / "ports/1/rate", "400 Gb/sec (4X NDR)")
    put(root / f"sys/class/infiniband_verbs/uverbs{number}/ibdev", name)
    put(root / f"dev/infiniband/uverbs{number}")
    put(root / "dev/infiniband/rdma_cm")


def hgx(root: Path) -> tuple[Path, list[Card]]:
    """Make a machine with two sockets, four GPUs and two HCAs on each."""
    cards = [Card(n, f"0000:{0x1B + 0x10 * n:02x}:00.0", str(n // 4)) for n in range(8)]
    tree(root, cards, {0: "0-3,8-11", 1: "4-7,12-15"})
    for n in range(4):
        adapter(root, f"mlx5_{n}", f"0000:{0x1C + 0x20 * n:02x}:00.0", str(n // 2), n)
    adapter(root, "eth0", "0000:01:00.0", "0")
    put(root / "sys/class/net/lo/operstate", "unknown")
    put(root / "sys/class/dmi/id/product_name", "HGX H100 (R2)")
    return root, cards


def look(root: Path, cards, cpus=range(16), visible=None, **more) -> Inventory:
    """Look at a machine."""
    return discover.look(root, lambda: library(cards, **more), frozenset(cpus), visible)
