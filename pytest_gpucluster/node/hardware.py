"""What a node is given of a real machine: devices with their files, CPUs of NUMA nodes, who is shown what."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_gpucluster.plain.names import did_you_mean

Shown = tuple[str, Path]
"""A device file: path in the container, path on the machine."""

STAND_INS = "/dev/gpucluster"
"""Folder of the files that stand for devices that are only played: each opens, and leads nowhere."""

_KEYS = ("devices", "further", "shared", "cpus", "files", "variables", "root")
_DEVICE_KEYS = ("id", "numa", "files", "healthy")


@dataclass(frozen=True)
class RealDevice:
    """A device of the machine.

    Attributes:
        id: As its vendor's device plugin names it.
        numa: Its NUMA node, None where the machine tells none.
        files: Its device files.
        healthy: Whether it can be handed out.
    """

    id: str
    numa: int | None
    files: tuple[str, ...] = ()
    healthy: bool = True


@dataclass(frozen=True)
class Hardware:
    """What one node has of a real machine.

    Attributes:
        devices: Its devices.
        further: Further resource -> devices of it, such as adapters.
        shared: Device files that everybody gets who gets a device.
        cpus: NUMA node -> CPUs of it that are this node's.
        files: Resource -> device files that everybody gets who asks for the resource.
        variables: Environment variables that name the devices that a container was given.
        root: Folder below which the device files are.
    """

    devices: tuple[RealDevice, ...] = ()
    further: Mapping[str, tuple[RealDevice, ...]] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    cpus: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    root: Path = Path("/")

    def shown(self, paths: Collection[str]) -> tuple[Shown, ...]:
        """Return device files of the machine as containers see them: under their own names."""
        return tuple((path, self.root / path.lstrip("/")) for path in paths)

    @property
    def numa_of_cpu(self) -> dict[int, int]:
        """Return CPU -> NUMA node."""
        return {cpu: node for node, cpus in sorted(self.cpus.items()) for cpu in cpus}


def parse(raw: Any) -> Hardware:
    """Read the key `hardware` of a node's configuration.

    Raises:
        ValueError: an unknown key, or a value of the wrong shape; one line.
    """
    _only("hardware", raw, _KEYS)
    return Hardware(
        _devices(raw.get("devices", ())),
        {str(name): _devices(listed) for name, listed in raw.get("further", {}).items()},
        tuple(map(str, raw.get("shared", ()))),
        {int(node): tuple(map(int, cpus)) for node, cpus in raw.get("cpus", {}).items()},
        {str(name): tuple(map(str, paths)) for name, paths in raw.get("files", {}).items()},
        tuple(map(str, raw.get("variables", ()))),
        Path(raw.get("root", "/")),
    )


def _devices(listed: Any) -> tuple[RealDevice, ...]:
    devices = []
    for entry in listed:
        _only("hardware device", entry, _DEVICE_KEYS)
        if not entry.get("id"):
            raise ValueError(f"a hardware device must have an id, got {entry!r}")
        numa = entry.get("numa")
        files = tuple(str(path) for path in entry.get("files", ()))
        healthy = bool(entry.get("healthy", True))
        devices.append(RealDevice(str(entry["id"]), None if numa is None else int(numa), files, healthy))
    if len({device.id for device in devices}) != len(devices):
        raise ValueError("each hardware device must have an id of its own")
    return tuple(devices)


def _only(what: str, raw: Any, keys: Sequence[str]) -> None:
    if not isinstance(raw, dict):
        raise ValueError(f"{what} must be an object, got {raw!r}")  # noqa: TRY004 - one kind of error for a config
    for key in raw:
        if key not in keys:
            raise ValueError(f"unknown key {key!r} of {what}{did_you_mean(key, keys)}")


def stand_in(index: int) -> tuple[Shown, ...]:
    """Return the device file of a device that is only played."""
    return ((f"{STAND_INS}/gpu{index}", Path("/dev/null")),)
