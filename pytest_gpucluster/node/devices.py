"""Device manager: the GPUs of one node, handed to pods at admission and taken back at their end."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from pytest_gpucluster.node import hardware, topology
from pytest_gpucluster.node.config import NodeSpec
from pytest_gpucluster.node.hardware import Hardware, RealDevice, Shown


class AdmissionError(Exception):
    """A pod that the node refuses.

    Attributes:
        reason: Machine-readable reason as a kubelet writes it to `status.reason`.
        message: Text without the prefix `Pod was rejected: `.
    """

    def __init__(self, reason: str, message: str) -> None:
        """Keep reason and message."""
        super().__init__(message)
        self.reason = reason
        self.message = message


def unexpected(why: str) -> AdmissionError:
    """Return the refusal of a pod whose devices cannot be allocated, in the words of a kubelet."""
    return AdmissionError("UnexpectedAdmissionError", f"Allocate failed due to {why}, which is unexpected")


@dataclass(frozen=True)
class Device:
    """One GPU.

    Attributes:
        id: As a device plugin reports it.
        numa: The NUMA node that the plugin reports, None where it reports none.
        files: The device files that whoever is given it sees.
    """

    id: str
    numa: int | None
    files: tuple[Shown, ...] = field(default=(), compare=False)

    @property
    def word(self) -> str:
        """Return the device as it stands in `names.DEVICES_VARIABLE`."""
        return self.id if self.numa is None else f"{self.id}@{self.numa}"


def node_devices(spec: NodeSpec) -> tuple[Device, ...]:
    """Return the devices of a node: those of its machine, or played ones in equal parts of its NUMA nodes."""
    if spec.hardware is not None:
        return of_machine(spec.hardware, spec.hardware.devices)
    return tuple(
        Device(f"GPU-fake-{i}", i * spec.numa // spec.gpus, hardware.stand_in(i)) for i in range(spec.gpus)
    )


def of_machine(has: Hardware, devices: Iterable[RealDevice]) -> tuple[Device, ...]:
    """Return devices of a real machine."""
    return tuple(Device(each.id, each.numa, has.shown(each.files)) for each in devices)


class DeviceManager:
    """Keeps which pod holds which GPU of one node.

    Attributes:
        registered: Whether the device plugin has registered with the kubelet.
        unhealthy: Ids of devices that the plugin calls unhealthy.
    """

    def __init__(
        self, devices: Iterable[Device], resource: str, machine: Collection[int], *, scattered: bool = False
    ) -> None:
        """Start with all devices free and healthy.

        Args:
            devices: What the device plugin reports.
            resource: The resource that they are.
            machine: The NUMA nodes that the machine has.
            scattered: Plant `node.misaligned`: hints are not followed.
        """
        self.registered = True
        self.unhealthy: frozenset[str] = frozenset()
        self._all = tuple(devices)
        self._resource = resource
        self._machine = frozenset(machine)
        self._scattered = scattered
        self._held: dict[str, list[Device]] = {}

    @property
    def healthy(self) -> list[Device]:
        """Return the devices that can be handed out at all."""
        return [d for d in self._all if d.id not in self.unhealthy] if self.registered else []

    def free(self) -> list[Device]:
        """Return the healthy devices that no pod holds."""
        taken = {device.id for held in self._held.values() for device in held}
        return [device for device in self.healthy if device.id not in taken]

    def release(self, uid: str) -> None:
        """Take back what a pod holds; a pod that holds nothing is no error."""
        self._held.pop(uid, None)

    def hints(self, wanted: int, reusable: Sequence[Device] = ()) -> topology.Hints:
        """Return where a request could be served.

        Args:
            wanted: How many devices.
            reusable: Devices that the pod's init containers hold and that are used again.
        """
        if wanted == 0 or not any(self._known(d) for d in self._all):
            return None
        here = [*reusable, *self.free()]
        if len(here) < wanted:
            return []
        return topology.hints(
            _per_numa(here),
            _per_numa(self._all),
            wanted,
            self._machine,
            {d.numa for d in reusable if d.numa is not None},
        )

    def allocate(
        self, uid: str, wanted: int, hint: topology.Hint, reusable: Sequence[Device] = ()
    ) -> list[Device]:
        """Hand devices to a container of a pod, those that it can use again first.

        Raises:
            AdmissionError: when there are not enough, or the plugin is not there.
        """
        if not self.registered:
            raise unexpected(
                f"no healthy devices present; cannot allocate unhealthy devices {self._resource}"
            )
        again = list(reusable[:wanted])
        missing = wanted - len(again)
        free = self.free()
        if len(free) < missing:
            raise unexpected(
                f"requested number of devices unavailable for {self._resource}. "
                f"Requested: {missing}, Available: {len(free)}"
            )
        fresh = self._choose(free, missing, hint)
        self._held.setdefault(uid, []).extend(fresh)
        return [*again, *fresh]

    def _choose(self, free: Sequence[Device], count: int, hint: topology.Hint) -> list[Device]:
        """Choose as a kubelet does: those of the hint's NUMA nodes, or any where the hint is no help.

        "Any" is a walk over a hash map there; here it is one device of each NUMA node in turn, so that what was not
        aligned shows. Recorded with kubelet v1.34.3: five of eight GPUs left one on the first NUMA node and two on the
        other.
        """
        helpful = hint.nodes is not None and hint.nodes != self._machine and not self._scattered
        inside = hint.nodes if helpful else None
        aligned = [d for d in free if inside is not None and d.numa in inside]
        rest = [d for d in free if d not in aligned]
        taken = _in_turn(aligned)[:count]
        taken += _in_turn(rest)[: count - len(taken)]
        return sorted(taken, key=free.index)

    def _known(self, device: Device) -> bool:
        """Report whether a device counts as tied to a NUMA node: the kubelet ignores ids that the machine lacks."""
        return device.numa in self._machine


def _per_numa(devices: Iterable[Device]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for device in devices:
        if device.numa is not None:
            counts[device.numa] = counts.get(device.numa, 0) + 1
    return counts


def _in_turn(devices: Sequence[Device]) -> list[Device]:
    """Order devices so that each next one is of the NUMA node with most that are left."""
    by_node: dict[int, list[Device]] = {}
    for device in devices:
        by_node.setdefault(-1 if device.numa is None else device.numa, []).append(device)
    ordered: list[Device] = []
    while len(ordered) < len(devices):
        fullest = max(by_node, key=lambda node: (len(by_node[node]), -node))
        ordered.append(by_node[fullest].pop(0))
    return ordered
