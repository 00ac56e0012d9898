"""CPU manager with the policy `static`: whole CPUs of Guaranteed pods are theirs alone."""

from collections.abc import Collection, Mapping

from pytest_gpucluster.node import topology
from pytest_gpucluster.node.devices import unexpected


class CpuManager:
    """Keeps which pod holds which whole CPUs of one node."""

    def __init__(
        self,
        cpus: int,
        machine: Collection[int],
        *,
        static: bool,
        places: Mapping[int, int] | None = None,
    ) -> None:
        """Start with all CPUs shared.

        Args:
            cpus: How many the node has, spread over its NUMA nodes in equal consecutive parts.
            machine: The NUMA nodes.
            static: Whether whole CPUs are handed out at all.
            places: CPU -> NUMA node, where they are those of a real machine.
        """
        ids = sorted(machine)
        self.static = static
        self._machine = ids
        self._numa = dict(places or {cpu: ids[cpu * len(ids) // cpus] for cpu in range(cpus)})
        self._held: dict[str, set[int]] = {}

    def free(self) -> list[int]:
        """Return the CPUs that no pod holds."""
        taken = {cpu for held in self._held.values() for cpu in held}
        return [cpu for cpu in self._numa if cpu not in taken]

    def release(self, uid: str) -> None:
        """Take back what a pod holds."""
        self._held.pop(uid, None)

    def hints(self, wanted: int, reusable: Collection[int] = ()) -> topology.Hints:
        """Return where whole CPUs could be had; no preference where none are asked for."""
        if not self.static or wanted == 0:
            return None
        here = [*reusable, *self.free()]
        if len(here) < wanted:
            return []
        return topology.hints(
            self._counts(here),
            self._counts(self._numa),
            wanted,
            self._machine,
            {self._numa[c] for c in reusable},
        )

    def allocate(
        self, uid: str, wanted: int, hint: topology.Hint, reusable: Collection[int] = ()
    ) -> frozenset[int]:
        """Hand whole CPUs to a container of a pod, from the hint's NUMA nodes first.

        Raises:
            AdmissionError: when there are not enough.
        """
        if not self.static or wanted == 0:
            return frozenset()
        again = sorted(reusable)[:wanted]
        free = self.free()
        missing = wanted - len(again)
        if len(free) < missing:
            raise unexpected(
                f"not enough cpus available to satisfy request: requested={wanted}, available={len(free)}"
            )
        inside = hint.nodes or frozenset(self._machine)
        fresh = sorted(free, key=lambda cpu: (self._numa[cpu] not in inside, cpu))[:missing]
        self._held.setdefault(uid, set()).update(fresh)
        return frozenset([*again, *fresh])

    def _counts(self, cpus: Collection[int]) -> dict[int, int]:
        counts: dict[int, int] = {}
        for cpu in cpus:
            counts[self._numa[cpu]] = counts.get(self._numa[cpu], 0) + 1
        return counts
