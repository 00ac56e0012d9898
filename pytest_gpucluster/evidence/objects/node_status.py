"""Nodes as they were when the evidence ends: what each offers, which have GPUs, which form a pool."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import EVERY_KIND, Evidence, Line
from pytest_gpucluster.evidence.objects import gpu_names
from pytest_gpucluster.plain import names

POOL_LABELS = (
    "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool", "doks.digitalocean.com/node-pool", "node.kubernetes.io/instance-type",
)  # fmt: skip
"""Labels that say of which pool a node is, best first; the machine type stands for the pool where none does."""

_SAYS_GPU = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": "",
    "amd.com/gpu.product-name": "",
    "amd.com/gpu.device-id": "",
    "amd.com/gpu.family": "",
    "cloud.google.com/gke-accelerator": "",
    "k8s.amazonaws.com/accelerator": "",
    "feature.node.kubernetes.io/amd-gpu": "true",
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/pci-0302_10de.present": "true",
    "feature.node.kubernetes.io/pci-0300_10de.present": "true",
}
"""Labels of feature discovery and clouds that say that a node has GPUs: label -> the value that counts, "" for any."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """One node.

    Attributes:
        name: its name.
        line: its last line of evidence.
        labels: its labels.
        capacity: extended resource -> how many there are.
        allocatable: extended resource -> how many can be asked for.
        unreadable: extended resource -> what stands there in place of a number of devices.
        reported: whether its kubelet ever said what it has.
        ready: whether it is Ready; None where it does not say.
        cordoned: whether it takes no new pods by decision.
    """

    name: str
    line: Line
    labels: Mapping[str, Any]
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    unreadable: Mapping[str, str]
    reported: bool
    ready: bool | None
    cordoned: bool

    @property
    def info(self) -> Mapping[str, Any]:
        """Return what the kubelet says of the system: kernel, runtime, its own version."""
        return fields.sub(self.line.object, "status", "nodeInfo")

    @property
    def state(self) -> str:
        """Return what is unusual about the node, "" where nothing is."""
        words = ["NotReady"] if self.ready is False else []
        return ", ".join([*words, "cordoned"] if self.cordoned else words)

    @functools.cached_property
    def gpu_label(self) -> str:
        """Return a label, with its value, by which the node says that it has GPUs; "" without one."""
        for key, wanted in _SAYS_GPU.items():
            value = self.labels.get(key)
            if value is not None and str(value) and (not wanted or str(value) == wanted):
                return f"{key}={value}"
        count = str(self.labels.get("nvidia.com/gpu.count", "0"))
        return f"nvidia.com/gpu.count={count}" if count.isdigit() and int(count) > 0 else ""

    def offers(self, resource: str) -> tuple[int, int]:
        """Return (capacity, allocatable) of an extended resource; a key that stayed behind with 0 reads as absent."""
        return self.capacity.get(resource, 0), self.allocatable.get(resource, 0)

    def other_gpus(self, declared: str) -> dict[str, int]:
        """Return the resources that may stand for GPUs and that the node has under another name than the declared one.

        Capacity counts all, and a name that stands under what can be asked for alone is offered all the same.
        """
        every = dict.fromkeys((*self.capacity, *self.allocatable))
        counts = {name: max(self.offers(name)) for name in every}
        return {
            name: count
            for name, count in counts.items()
            if count > 0 and name != declared and gpu_names.reads_as_gpu(name)
        }

    def untold(self, declared: str) -> dict[str, str]:
        """Return the GPU resources of which the node tells no number of devices, with what it tells."""
        return {
            name: said
            for name, said in self.unreadable.items()
            if name == declared or gpu_names.reads_as_gpu(name)
        }

    def has_gpus(self, declared: str) -> bool:
        """Report whether this is a GPU node: by what it offers, under any name, or by its labels."""
        return bool(
            max(self.offers(declared)) or self.other_gpus(declared) or self.gpu_label or self.untold(declared)
        )


def machine(node: Mapping[str, Any]) -> Machine:
    """Return what a Node object says that is not of an evidence, such as one that is watched now."""
    return _machine(Line(0.0, "ADDED", "Node", node, {}, 0))


def machines(evidence: Evidence) -> tuple[Machine, ...]:
    """Return the nodes that are there when the evidence ends, by name."""
    return evidence.derived(_machines)


def states(evidence: Evidence, name: str) -> tuple[Machine, ...]:
    """Return a node as it was each time that it was seen, in order."""
    return evidence.derived(_states_by_name).get(name, ())


def _states_by_name(evidence: Evidence) -> Mapping[str, tuple[Machine, ...]]:
    found: dict[str, list[Machine]] = {}
    for line in evidence.of_kind("Node"):
        if line.type != "DELETED":
            found.setdefault(line.name, []).append(_machine(line))
    return {name: tuple(seen) for name, seen in found.items()}


def gpu_nodes(evidence: Evidence, declared: str) -> tuple[Machine, ...]:
    """Return the nodes that are there when the evidence ends and had GPUs at some time of it.

    One that has lost the name of its GPUs as well is a GPU node that offers none, and no node without GPUs.
    """
    return tuple(m for m in machines(evidence) if any(s.has_gpus(declared) for s in states(evidence, m.name)))


@dataclasses.dataclass(frozen=True)
class Absence:
    """A node that left the cluster while it was watched.

    Attributes:
        last: the node as it was last seen before.
        start: when it left.
        back: the node as it came back; None where it did not.
    """

    last: Machine
    start: float
    back: Machine | None

    @property
    def decided(self) -> bool:
        """Report whether somebody took it out by decision: it was cordoned, or an autoscaler had announced it."""
        taints = {str(t.get("key")) for t in fields.items(self.last.line.object, "spec", "taints")}
        return self.last.cordoned or not taints.isdisjoint(_LEAVING)

    @property
    def restarted(self) -> bool:
        """Report whether it came back from another boot: some clouds delete the Node of a machine that is off."""
        if self.back is None:
            return False
        before, after = (str(m.info.get("bootID") or "") for m in (self.last, self.back))
        return bool(before and after and before != after)


_LEAVING = frozenset({
    "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted",
    "karpenter.sh/disruption", "cloud.google.com/impending-node-termination", "node.kubernetes.io/unschedulable",
})  # fmt: skip
"""Taints by which autoscalers and clouds announce that a node goes."""


def absences(evidence: Evidence) -> tuple[Absence, ...]:
    """Return the nodes that left the cluster while it was watched, in order of time."""
    return evidence.derived(_absences)


def _absences(evidence: Evidence) -> tuple[Absence, ...]:
    found: dict[str, list[Absence]] = {}
    known: dict[str, Machine] = {}
    for line in evidence.of_kind("Node"):
        if line.type == "DELETED":
            # What the event carries is the last state; a recording may have left it out.
            before, last = known.pop(line.name, None), _machine(line)
            last = last if last.reported or before is None else before
            found.setdefault(line.name, []).append(Absence(last, line.t, None))
            continue
        known[line.name] = machine = _machine(line)
        left = found.get(line.name)
        if left and left[-1].back is None:
            left[-1] = dataclasses.replace(left[-1], back=machine)
    return tuple(sorted((one for each in found.values() for one in each), key=lambda one: one.start))


def _machines(evidence: Evidence) -> tuple[Machine, ...]:
    newest = {line.name: line for line in evidence.of_kind("Node")}
    return tuple(_machine(newest[name]) for name in sorted(newest) if newest[name].type != "DELETED")


def _machine(line: Line) -> Machine:
    status = fields.sub(line.object, "status")
    capacity, allocatable = fields.sub(status, "capacity"), fields.sub(status, "allocatable")
    ready = fields.condition(line.object, "Ready").get("status")
    return Machine(
        name=line.name,
        line=line,
        labels=fields.sub(line.object, "metadata", "labels"),
        capacity=_extended(capacity),
        allocatable=_extended(allocatable),
        unreadable={**_unreadable(capacity), **_unreadable(allocatable)},
        reported=bool(capacity or allocatable),
        ready=None if ready is None else str(ready) == "True",
        cordoned=bool(fields.sub(line.object, "spec").get("unschedulable")),
    )


def _extended(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Return the extended resources (they have a domain, and it is not Kubernetes' own), without slots of ours."""
    return {key: _whole(value) or 0 for key, value in amounts.items() if _is_extended(key)}


def _unreadable(amounts: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in amounts.items() if _is_extended(key) and _whole(value) is None}


def _is_extended(key: str) -> bool:
    return "/" in key and "kubernetes.io/" not in key and not key.startswith(names.SLOT_PREFIX)


def _whole(value: object) -> int | None:
    """Return a number of devices, None for what is none: Kubernetes takes whole numbers alone."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    amount = fields.amount(value)
    return int(amount) if amount is not None and amount >= 0 and amount.denominator == 1 else None


def listed(evidence: Evidence, kind: str) -> bool:
    """Report whether what the evidence shows of a kind when it ends is all there is.

    So it is where the watch was in sync then, and where kubectl printed a list: what it prints is one moment, whole.
    """
    if evidence.clock == "object" and not any(span.kind == kind for span in evidence.spans):
        return bool(evidence.of_kind(kind))
    end = evidence.end
    return any(
        span.kind in (kind, EVERY_KIND) and span.start <= end and span.end >= end - 1e-3
        for span in evidence.spans
    )


def pools(found: Iterable[Machine], label: str = "") -> tuple[str, dict[str, list[Machine]]]:
    """Return (the label that tells pools apart, "" for none; pool -> its nodes).

    Args:
        found: the nodes.
        label: the declared label; without one the first known label that some node carries.
    """
    every = list(found)
    chosen = label or next((key for key in POOL_LABELS if any(key in m.labels for m in every)), "")
    grouped: dict[str, list[Machine]] = {}
    for machine in every:
        grouped.setdefault(str(machine.labels.get(chosen, "")) if chosen else "", []).append(machine)
    return chosen, grouped


def none_in_service(found: Sequence[Machine]) -> str:
    """Return that all of some GPU nodes were taken out of service by decision; "" for none."""
    if not found or not all(machine.cordoned for machine in found):
        return ""
    count = f"the {len(found)} GPU nodes are" if len(found) > 1 else f"the one GPU node, {found[0].name}, is"
    return f"{'all of ' if len(found) > 1 else ''}{count} cordoned: nothing that is asked for can be placed"


def total(found: Iterable[Machine], resource: str) -> Fraction:
    """Return the sum of what nodes offer of a resource, in its base unit."""
    amounts = (fields.sub(m.line.object, "status", "allocatable").get(resource) for m in found)
    return sum((fields.quantity(amount) for amount in amounts if amount is not None), Fraction(0))
