"""What was found on a machine, as plain facts."""

import dataclasses
from collections.abc import Mapping
from typing import Any

OFFER = "; --cluster=embedded needs no GPU"


class HostProblem(Exception):  # noqa: N818 - a way of looking for GPUs that led nowhere, no error of the program
    """A way of looking for GPUs that led nowhere; the text says why in a few words."""


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU, or one MIG slice of a GPU.

    Attributes:
        id: what the vendor's device plugin calls it: its UUID.
        index: number of the GPU as the driver counts.
        name: of the product, as the driver writes it.
        pci: PCI address as sysfs writes it, empty where it is not known.
        memory: MiB, 0 where it is not known.
        numa: its NUMA node, None where the machine tells none.
        files: its device files.
        mig: profile of a MIG slice such as `1g.10gb`, else empty.
        partitioned: whether the GPU is in MIG mode.
        compute: compute capability such as `9.0`, else empty.
        problem: why it cannot be used, empty where it can.
    """

    id: str
    index: int
    name: str = ""
    pci: str = ""
    memory: int = 0
    numa: int | None = None
    files: tuple[str, ...] = ()
    mig: str = ""
    partitioned: bool = False
    compute: str = ""
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Vendor:
    """The GPUs of one vendor.

    Attributes:
        resource: what Kubernetes calls them.
        gpus: they.
        shared: device files that everybody needs who uses one.
        variables: environment variables by which a container is told its devices.
        driver: version of the driver, empty where it is not known.
        runtime: newest CUDA version that the driver serves, such as `13.0`, else empty.
        notes: what could not be found out, one line each.
    """

    resource: str
    gpus: tuple[Gpu, ...]
    shared: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    driver: str = ""
    runtime: str = ""
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Adapter:
    """A network adapter of the machine.

    Attributes:
        name: as the system calls it: `eth0`, `mlx5_0`.
        kind: `net`, or `InfiniBand` or `Ethernet` for what has RDMA verbs.
        pci: PCI address, empty where it has none.
        numa: its NUMA node, None where the machine tells none.
        state: `up`, `ACTIVE` ... as the system writes it.
        rate: as the system writes it: `400 Gb/sec (4X NDR)`, or Mbit/s of a network interface.
        files: device files of its verbs.
    """

    name: str
    kind: str
    pci: str = ""
    numa: int | None = None
    state: str = ""
    rate: str = ""
    files: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Inventory:
    """A machine.

    Attributes:
        vendor: its GPUs.
        cpus: NUMA node -> CPUs that this process may use.
        memory: NUMA node -> KiB.
        adapters: its network adapters.
        rdma: device files that every user of verbs needs beside an adapter's own.
        product: what the machine's maker calls it, empty where it is not known.
        root: folder of the machine's root, below which its device files are.
        notes: what could not be found out, one line each.
    """

    vendor: Vendor
    cpus: Mapping[int, tuple[int, ...]]
    memory: Mapping[int, int]
    adapters: tuple[Adapter, ...] = ()
    rdma: tuple[str, ...] = ()
    product: str = ""
    root: str = "/"
    notes: tuple[str, ...] = ()

    @property
    def hcas(self) -> tuple[Adapter, ...]:
        """Return the adapters that have RDMA verbs."""
        return tuple(adapter for adapter in self.adapters if adapter.kind != "net")

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for the record, without serial numbers of the machine."""
        return {
            "gpus": [_short(gpu) for gpu in self.vendor.gpus],
            "driver": self.vendor.driver,
            "runtime": self.vendor.runtime,
            "numa": {
                str(node): {"cpus": len(cpus), "memory": f"{self.memory.get(node, 0)}Ki"}
                for node, cpus in self.cpus.items()
            },
            "adapters": [_short(adapter) for adapter in self.adapters],
            "product": self.product,
            "notes": [*self.vendor.notes, *self.notes],
        }


def _short(item: Gpu | Adapter) -> dict[str, Any]:
    """Return what is known of one thing, as JSON has it; what is not known is left out."""
    told = dataclasses.asdict(item)
    known = {key: value for key, value in told.items() if value is not None and value is not False}
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in known.items()}
    return {key: value for key, value in plain.items() if value not in ("", [])}
