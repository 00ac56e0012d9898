"""How containers see what they were given: device files, environment variables, CPUs."""

import os
from collections.abc import Collection, Sequence

from pytest_gpucluster.node.adapters import SYSFS, VARIABLE, PlayedAdapters
from pytest_gpucluster.node.devices import Device
from pytest_gpucluster.node.hardware import Hardware, Shown
from pytest_gpucluster.plain.names import DEVICES_VARIABLE

IDS_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
"""Where the vendor's plugin puts the ids of a container's devices."""


class Handing:
    """What one node puts into the containers that it gave devices and CPUs."""

    def __init__(
        self,
        hardware: Hardware | None = None,
        leaked: Sequence[Device] = (),
        *,
        shares: bool = False,
        adapters: PlayedAdapters | None = None,
    ) -> None:
        """Take what the node has of a real machine.

        Args:
            hardware: None where devices and CPUs are only played.
            leaked: Plant `node.devices-leak`: devices that every container sees.
            shares: Plant `node.shares-a-device`: the second device of a container is its first one once more.
            adapters: RDMA adapters that the node plays; None for none.
        """
        self._hardware = hardware
        self._leaked = tuple(leaked)
        self._shares = shares
        self._adapters = adapters

    def files(
        self, devices: Sequence[Device], others: Sequence[Device], resources: Collection[str]
    ) -> tuple[Shown, ...]:
        """Return the device files that a container sees.

        Args:
            devices: The GPUs that it was given.
            others: Devices of further resources that it was given.
            resources: Names of all resources that it asked for.
        """
        devices = self._handed(devices)
        seen = [*devices, *(device for device in self._leaked if device not in devices)]
        found = [file for device in (*seen, *others) for file in device.files]
        if self._hardware is not None:
            shared = self._hardware.shared if seen else ()
            asked = [path for name in sorted(resources) for path in self._hardware.files.get(name, ())]
            found += self._hardware.shown([*shared, *asked])
        if self._adapters is not None and self._adapters.resource in resources:
            found += self._adapters.shown()
        return tuple(dict.fromkeys(found))

    def variables(self, devices: Sequence[Device], resources: Collection[str] = ()) -> dict[str, str]:
        """Return what a container's environment says of its devices, and of where it finds played adapters."""
        played = self._adapters is not None and self._adapters.resource in resources
        return {**self._of_devices(devices), **({VARIABLE: SYSFS} if played else {})}

    def _of_devices(self, devices: Sequence[Device]) -> dict[str, str]:
        if not devices:
            return {}
        devices = self._handed(devices)
        names = (IDS_VARIABLE,) if self._hardware is None else self._hardware.variables
        ids = ",".join(device.id for device in devices)
        return {**dict.fromkeys(names, ids), DEVICES_VARIABLE: ",".join(device.word for device in devices)}

    def _handed(self, devices: Sequence[Device]) -> Sequence[Device]:
        """Return what is put into a container for the devices that it was given."""
        return [*devices[:1], *devices[:1], *devices[2:]] if self._shares and len(devices) > 1 else devices

    def pinned(self, cpus: Collection[int]) -> tuple[int, ...]:
        """Return the machine's CPUs on which a container runs; none for any.

        A played node says that it has more CPUs than the machine; they are the machine's, counted round and round. A
        container that has more of its own than there are is not pinned. On a node that has a part of a real machine
        those without CPUs of their own run on that part.
        """
        host = sorted(os.sched_getaffinity(0))
        if self._hardware is not None and self._hardware.cpus:
            own = sorted(set(cpus or self._hardware.numa_of_cpu) & set(host))
            return () if own == host else tuple(own)
        found = {host[cpu % len(host)] for cpu in cpus}
        return tuple(sorted(found)) if len(found) == len(cpus) else ()
