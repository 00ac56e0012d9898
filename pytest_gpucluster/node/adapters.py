"""RDMA adapters that a node only plays: what sysfs would say of them, and device files that open and lead nowhere."""

from dataclasses import dataclass
from pathlib import Path

from pytest_gpucluster.node.hardware import Shown

SYSFS = "/dev/gpucluster/sysfs"
"""Where containers see what `/sys` would have."""
VARIABLE = "GPUCLUSTER_SYSFS"


@dataclass(frozen=True)
class PlayedAdapters:
    """The adapters of one node.

    Attributes:
        resource: What pods ask for to see them.
        count: How many there are.
        gbps: Rate of their ports in Gbit/s.
        layer: Link layer of their ports.
        folder: Where they are written.
        waiting: Whether the port of the last one is linked and not active.
    """

    resource: str
    count: int
    gbps: float
    layer: str
    folder: Path
    waiting: bool = False

    def shown(self) -> tuple[Shown, ...]:
        """Write the adapters; return what a container sees: sysfs, and a device file of each."""
        found = [(SYSFS, self.folder / "sys")]
        for number in range(self.count):
            adapter = self.folder / "sys" / "class" / "infiniband" / f"mlx5_{number}"
            (adapter / "device" / "infiniband_verbs" / f"uverbs{number}").mkdir(parents=True, exist_ok=True)
            port = adapter / "ports" / "1"
            port.mkdir(parents=True, exist_ok=True)
            last = self.waiting and number == self.count - 1
            told = {
                "state": "2: INIT" if last else "4: ACTIVE",
                "phys_state": "5: LinkUp",
                "rate": f"{self.gbps:g} Gb/sec (4X)",
                "link_layer": self.layer,
                "sm_lid": "0x0" if last or self.layer == "Ethernet" else "0x1",
            }
            for name, text in told.items():
                (port / name).write_text(f"{text}\n", encoding="ascii")
            device = self.folder / f"uverbs{number}"
            device.touch()
            found.append((f"/dev/infiniband/uverbs{number}", device))
        return tuple(found)
