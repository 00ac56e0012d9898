"""Admission of a pod by its node: what its containers ask for, where it may lie, and who hands it out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_gpucluster.node import topology
from pytest_gpucluster.node.cpus import CpuManager
from pytest_gpucluster.node.device_env import Handing
from pytest_gpucluster.node.devices import AdmissionError, Device, DeviceManager
from pytest_gpucluster.node.hardware import Shown
from pytest_gpucluster.plain.quantities import parse_quantity

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Demand:
    """What one container asks for.

    Attributes:
        container: Its name.
        gpus: How many GPUs.
        cpus: How many whole CPUs of its own: a whole number of a Guaranteed pod, else 0.
        init: Whether it is an init container that ends, so that others use again what it held.
        resources: All resources that it asks for -> how many whole ones.
        guaranteed: Whether its pod is Guaranteed.
    """

    container: str
    gpus: int
    cpus: int = 0
    init: bool = False
    resources: Mapping[str, int] = field(default_factory=dict)
    guaranteed: bool = False


@dataclass(frozen=True)
class Grant:
    """What one container was given.

    Attributes:
        devices: Its GPUs.
        cpus: Whole CPUs that are its alone, as the node counts them.
        files: Device files that it sees.
        variables: What its environment says of its devices.
        pinned: CPUs of the machine on which it runs; none for any.
        memory: NUMA nodes of which it may have memory; none for any.
    """

    devices: tuple[Device, ...] = ()
    cpus: frozenset[int] = frozenset()
    files: tuple[Shown, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    pinned: tuple[int, ...] = ()
    memory: frozenset[int] = frozenset()


def demands(pod: Object, resource: str) -> list[Demand]:
    """Return what the containers of a pod ask for, init containers first, as they are admitted."""
    spec = pod["spec"]
    guaranteed = (pod.get("status") or {}).get("qosClass") == "Guaranteed"
    found = []
    for init, containers in ((True, spec.get("initContainers") or []), (False, spec["containers"])):
        for container in containers:
            resources = container.get("resources") or {}
            limits = resources.get("limits") or resources.get("requests") or {}
            cpus = parse_quantity((resources.get("requests") or limits).get("cpu", "0"))
            whole = guaranteed and cpus.denominator == 1
            found.append(
                Demand(
                    container["name"],
                    int(parse_quantity(limits.get(resource, "0"))),
                    int(cpus) if whole else 0,
                    init and container.get("restartPolicy") != "Always",
                    {
                        name: int(whole)
                        for name, amount in limits.items()
                        if (whole := parse_quantity(amount))
                    },
                    guaranteed,
                )
            )
    return found


class Admission:
    """Topology Manager of one node, over its device manager and its CPU manager."""

    def __init__(
        self,
        policy: str,
        scope: str,
        devices: DeviceManager,
        cpus: CpuManager,
        machine: Sequence[int],
        *,
        handing: Handing | None = None,
        further: Mapping[str, DeviceManager] | None = None,
        memory: bool = False,
        blind_to_init: bool = False,
    ) -> None:
        """Take policy, scope (`container` or `pod`), managers and the NUMA nodes of the machine.

        `handing` is how containers see what they were given, `further` hands out further resources, `memory` is whether
        memory of Guaranteed pods is bound; `blind_to_init` plants `node.init-unaligned`.
        """
        self._further = dict(further or {})
        self._memory = memory
        self._handing = handing or Handing()
        self._blind_to_init = blind_to_init
        self.policy = policy
        self.scope = scope
        self.devices = devices
        self.cpus = cpus
        self._machine = tuple(machine)

    def admit(self, uid: str, wanted: Sequence[Demand]) -> dict[str, Grant]:
        """Give the containers of a pod what they ask for, all or none.

        Args:
            uid: The pod.
            wanted: What its containers ask for, in the order of admission.

        Returns:
            Container name -> what it was given.

        Raises:
            AdmissionError: when the Topology Manager or a shortage refuses the pod.
        """
        try:
            return self._admit(uid, wanted)
        except AdmissionError:
            self.release(uid)
            raise

    def release(self, uid: str) -> None:
        """Take back what a pod holds; a pod that holds nothing is no error."""
        self.devices.release(uid)
        for manager in self._further.values():
            manager.release(uid)
        self.cpus.release(uid)

    def _admit(self, uid: str, wanted: Sequence[Demand]) -> dict[str, Grant]:
        whole: topology.Hint | None = None
        if self._blind_to_init and any(demand.init for demand in wanted):
            whole = topology.Hint(None, preferred=True)
        elif self.scope == "pod" and self.policy != "none":
            whole = self._hint(
                self.devices.hints(_peak([(d.gpus, d.init) for d in wanted])),
                self.cpus.hints(_peak([(d.cpus, d.init) for d in wanted])),
                *(
                    manager.hints(_peak([(d.resources.get(name, 0), d.init) for d in wanted]))
                    for name, manager in self._further.items()
                ),
            )
        given: dict[str, Grant] = {}
        again: list[Device] = []
        cpus_again: set[int] = set()
        for demand in wanted:
            hint = whole or self._hint(
                self.devices.hints(demand.gpus, again),
                self.cpus.hints(demand.cpus, cpus_again),
                *(m.hints(demand.resources.get(name, 0)) for name, m in self._further.items()),
            )
            devices = self.devices.allocate(uid, demand.gpus, hint, again) if demand.gpus else []
            cpus = self.cpus.allocate(uid, demand.cpus, hint, cpus_again)
            others = self._others(uid, demand, hint)
            given[demand.container] = Grant(
                tuple(devices),
                cpus,
                self._handing.files(devices, others, demand.resources),
                self._handing.variables(devices, demand.resources),
                self._handing.pinned(cpus),
                hint.nodes or frozenset() if self._memory and demand.guaranteed else frozenset(),
            )
            if demand.init:
                again += [d for d in devices if d not in again]
                cpus_again |= cpus
            else:
                again = [d for d in again if d not in devices]
                cpus_again -= cpus
        return given

    def _others(self, uid: str, demand: Demand, hint: topology.Hint) -> list[Device]:
        """Hand out devices of further resources; an init container's are not used again."""
        wanted = {name: demand.resources.get(name, 0) for name in self._further}
        return [
            device
            for name, count in wanted.items()
            if count
            for device in self._further[name].allocate(uid, count, hint)
        ]

    def _hint(self, *offers: topology.Hints) -> topology.Hint:
        admitted, hint = topology.admit(self.policy, offers, self._machine)
        if not admitted:
            raise AdmissionError(topology.AFFINITY_REASON, topology.AFFINITY_MESSAGE)
        return hint


def _peak(amounts: Sequence[tuple[int, bool]]) -> int:
    """Return the most that a pod needs at one time: each init container alone, then all others together."""
    return max([sum(n for n, init in amounts if not init), *(n for n, init in amounts if init)])
