"""Device manager: the GPUs of one node, handed to pods at admission and taken back at their end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_gpucluster.node import topology
from pytest_gpucluster.node.config import NodeSpec


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


@dataclass(frozen=True)
class Device:
    """One GPU: its id as a device plugin would report it, and its NUMA node."""

    id: str
    numa: int

    @property
    def word(self) -> str:
        """Return the device as it stands in `names.DEVICES_VARIABLE`."""
        return f"{self.id}@{self.numa}"


def node_devices(spec: NodeSpec) -> tuple[Device, ...]:
    """Return the devices of a node, spread over its NUMA nodes in equal consecutive parts."""
    return tuple(Device(f"GPU-fake-{i}", i * spec.numa // spec.gpus) for i in range(spec.gpus))


class DeviceManager:
    """Keeps which pod holds which GPU of one node."""

    def __init__(self, spec: NodeSpec, resource: str) -> None:
        """Start with all devices free."""
        self._policy = spec.topology_policy
        self._resource = resource
        self._all = node_devices(spec)
        self._held: dict[str, list[Device]] = {}

    def free(self) -> list[Device]:
        """Return the devices that no pod holds."""
        taken = {device.id for held in self._held.values() for device in held}
        return [device for device in self._all if device.id not in taken]

    def admit(self, uid: str, wanted: Mapping[str, int]) -> dict[str, list[Device]]:
        """Allocate devices to the containers of a pod, all or none.

        Args:
            uid: The pod.
            wanted: Container name -> number of GPUs, in the order of the containers.

        Returns:
            Container name -> its devices, for containers that ask for any.

        Raises:
            AdmissionError: when the Topology Manager or a shortage refuses the pod.
        """
        given: dict[str, list[Device]] = {}
        self._held[uid] = []
        try:
            for container, count in wanted.items():
                if count > 0:
                    devices = self._allocate(count)
                    self._held[uid] += devices
                    given[container] = devices
        except AdmissionError:
            self.release(uid)
            raise
        return given

    def release(self, uid: str) -> None:
        """Take back what a pod holds; a pod that holds nothing is no error."""
        self._held.pop(uid, None)

    def _allocate(self, count: int) -> list[Device]:
        free = self.free()
        offered = topology.hints(_per_numa(free), _per_numa(self._all), count)
        admitted, hint = topology.admit(self._policy, offered)
        if not admitted:
            raise AdmissionError(topology.AFFINITY_REASON, topology.AFFINITY_MESSAGE)
        if len(free) < count:
            raise AdmissionError(
                "UnexpectedAdmissionError",
                f"Allocate failed due to requested number of devices unavailable for {self._resource}. "
                f"Requested: {count}, Available: {len(free)}, which is unexpected",
            )
        if hint is None:  # no policy: keep to few NUMA nodes all the same
            hint = topology.admit("best-effort", offered)[1]
        return _spread(free, hint.nodes if hint else (), count)


def _per_numa(devices: Sequence[Device]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for device in devices:
        counts[device.numa] = counts.get(device.numa, 0) + 1
    return counts


def _spread(free: Sequence[Device], nodes: Sequence[int], count: int) -> list[Device]:
    """Take devices evenly from the given NUMA nodes: a request over two of them leaves some free on each.

    Recorded with kubelet v1.34.3: five of eight GPUs left one on the first NUMA node and two on the other.
    """
    by_node = {n: [d for d in free if d.numa == n] for n in nodes}
    taken: list[Device] = []
    while len(taken) < count:
        fullest = max(by_node, key=lambda n: (len(by_node[n]), -n))
        taken.append(by_node[fullest].pop(0))
    return sorted(taken, key=free.index)
