"""Nodes as they were when the evidence ends: what each offers, which have GPUs, which form a pool."""

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from pytest_gpucluster.evidence import fields
from pytest_gpucluster.evidence.model import EVERY_KIND, Evidence, Line
from pytest_gpucluster.plain import names

GPU_RESOURCE = re.compile(
    r"^(?:nvidia\.com/(?:gpu|pgpu|mig-[a-z0-9.+_-]+?)|amd\.com/gpu|gpu\.intel\.com/(?:i915|xe)|habana\.ai/gaudi)"
    r"(?P<shared>\.shared)?$"
)
"""Resource names of device plugins that stand for GPUs or parts of them."""

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


@functools.cache
def is_gpu(resource: str) -> bool:
    """Report whether a resource name stands for GPUs or parts of them."""
    return GPU_RESOURCE.match(resource) is not None


@dataclasses.dataclass(frozen=True)
class Machine:
    """One node.

    Attributes:
        name: its name.
        line: its last line of evidence.
        labels: its labels.
        capacity: extended resource -> how many there are.
        allocatable: extended resource -> how many can be asked for.
        reported: whether its kubelet ever said what it has.
        ready: whether it is Ready; None where it does not say.
        cordoned: whether it takes no new pods by decision.
    """

    name: str
    line: Line
    labels: Mapping[str, Any]
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
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
        """Return GPU resources that the node has under another name than the declared one."""
        return {
            name: count
            for name, count in self.capacity.items()
            if count > 0 and name != declared and is_gpu(name)
        }

    def has_gpus(self, declared: str) -> bool:
        """Report whether this is a GPU node: by what it offers, under any name, or by its labels."""
        return bool(self.capacity.get(declared) or self.other_gpus(declared) or self.gpu_label)


def machines(evidence: Evidence) -> tuple[Machine, ...]:
    """Return the nodes that are there when the evidence ends, by name."""
    return evidence.derived(_machines)


def states(evidence: Evidence, name: str) -> tuple[Machine, ...]:
    """Return a node as it was each time that it was seen, in order."""
    return tuple(_machine(line) for line in evidence.derived(_lines_by_name).get(name, ()))


def _lines_by_name(evidence: Evidence) -> Mapping[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in evidence.of_kind("Node"):
        if line.type != "DELETED":
            found.setdefault(line.name, []).append(line)
    return found


def _machines(evidence: Evidence) -> tuple[Machine, ...]:
    newest = {line.name: line for line in evidence.of_kind("Node")}
    return tuple(_machine(newest[name]) for name in sorted(newest) if newest[name].type != "DELETED")


def _machine(line: Line) -> Machine:
    status = fields.sub(line.object, "status")
    ready = fields.condition(line.object, "Ready").get("status")
    return Machine(
        name=line.name,
        line=line,
        labels=fields.sub(line.object, "metadata", "labels"),
        capacity=_extended(fields.sub(status, "capacity")),
        allocatable=_extended(fields.sub(status, "allocatable")),
        reported=bool(fields.sub(status, "capacity") or fields.sub(status, "allocatable")),
        ready=None if ready is None else str(ready) == "True",
        cordoned=bool(fields.sub(line.object, "spec").get("unschedulable")),
    )


def _extended(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Return the extended resources (they have a domain, and it is not Kubernetes' own), without slots of ours."""
    return {
        key: int(value) if isinstance(value, str) and value.isdigit() else math.floor(fields.quantity(value))
        for key, value in amounts.items()
        if "/" in key and "kubernetes.io/" not in key and not key.startswith(names.SLOT_PREFIX)
    }


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


def total(found: Iterable[Machine], resource: str) -> Fraction:
    """Return the sum of what nodes offer of a resource, in its base unit."""
    amounts = (fields.sub(m.line.object, "status", "allocatable").get(resource) for m in found)
    return sum((fields.quantity(amount) for amount in amounts if amount is not None), Fraction(0))
