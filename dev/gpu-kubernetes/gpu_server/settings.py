"""What was asked for, for all processes of a cluster."""

import dataclasses
import json

from . import places

FILE = "cluster.json"


@dataclasses.dataclass(frozen=True)
class Settings:
    """A cluster as it was asked for.

    Attributes:
        nodes: its nodes.
        devices: `nvidia` for the device plugin of NVIDIA, `fake` for one whose GPUs are not there.
        control_groups: their version.
        libraries: folders in which the driver's libraries lie.
        fake_gpus: of each node, with `fake`.
    """

    nodes: tuple[places.Node, ...]
    devices: str
    control_groups: int
    libraries: tuple[str, ...] = ()
    fake_gpus: int = 8

    def write(self) -> None:
        """Write it down for the other processes."""
        (places.STATE / FILE).write_text(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def read(cls) -> "Settings":
        """Return what was written down."""
        data = json.loads((places.STATE / FILE).read_text())
        nodes = tuple(places.Node(each["number"], tuple(each["gpus"])) for each in data.pop("nodes"))
        return cls(nodes, **{**data, "libraries": tuple(data["libraries"])})

    @property
    def search(self) -> dict[str, str]:
        """Return the variable by which the driver's libraries are found."""
        return {"LD_LIBRARY_PATH": ":".join(self.libraries)} if self.libraries else {}
