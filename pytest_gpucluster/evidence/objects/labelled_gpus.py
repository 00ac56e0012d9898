"""What labels say of a node's GPUs: how many there are, into how many shares and slices each is cut.

Feature discovery of NVIDIA counts all GPUs of a node in `nvidia.com/gpu.count`, those in MIG mode too, whatever the
device plugin makes of them; under the MIG strategy `single` the number of slices stands there instead, and the product
ends in `-MIG-<profile>`. Replicas are shares of one GPU: 0 and 1 both mean that nobody shares it. Clouds say the same
in labels of their own.
"""

import dataclasses
import math
import re
from collections.abc import Mapping

from pytest_gpucluster.evidence.objects.node_status import Machine

WHOLE = "nvidia.com/gpu"
SHARED = ".shared"
"""How the name of a resource ends that stands for shares of it."""
COUNT, REPLICAS, PRODUCT = f"{WHOLE}.count", f"{WHOLE}.replicas", f"{WHOLE}.product"
SLICES_A_GPU = 7
"""Compute slices of one GPU in MIG mode; `<g>g.<m>gb` takes g of them."""

_SLICE = re.compile(r"^nvidia\.com/mig-(?P<g>\d+)(?:c\.\d+)?g\.")
_SHARING = ("cloud.google.com/gke-max-shared-clients-per-gpu", REPLICAS)
_CUT = ("cloud.google.com/gke-gpu-partition-size",)


@dataclasses.dataclass(frozen=True)
class Discovered:
    """What the labels of one node say.

    Attributes:
        labels: all of them.
        count: devices of the resource `nvidia.com/gpu` before they are shared; None where nobody counts.
        replicas: shares of each GPU, 1 where nobody shares it.
        sharing: the label, with its value, that says that each GPU is shared; "" where none does.
        cut: the label, with its value, that says that `nvidia.com/gpu` stands for slices of GPUs; "" where none does.
    """

    labels: Mapping[str, object]
    count: int | None
    replicas: int
    sharing: str
    cut: str

    @property
    def whole(self) -> int | None:
        """Return how many whole GPUs the node has; None where nobody counts, or slices are counted."""
        return None if self.cut else self.count

    def number(self, resource: str) -> tuple[int, str] | None:
        """Return how many of a resource the labels say that there are, and by which; None where they do not."""
        base = resource.removesuffix(SHARED)
        count = _whole_number(self.labels.get(f"{base}.count"))
        if count is None or (base != WHOLE and not _SLICE.match(base)):
            return None
        said = f"{base}.count says {count}"
        shares = _whole_number(self.labels.get(f"{base}.replicas"))
        if base == resource == WHOLE or (shares is not None and shares < 2 and base == resource):
            return count, said
        if shares is None:
            return None if base != resource else (count, said)
        return count * max(shares, 1), f"{said} and {base}.replicas {shares}"


def discovered(machine: Machine) -> Discovered:
    """Return what the labels of a node say of its GPUs."""
    labels = machine.labels
    product = str(labels.get(PRODUCT) or "")
    shares = next(((key, n) for key in _SHARING if (n := _whole_number(labels.get(key)) or 0) > 1), None)
    sharing = "" if shares is None else f"{shares[0]}={shares[1]}"
    if not sharing and product.upper().endswith("-SHARED"):
        sharing = f"{PRODUCT}={product}"
    cut = next((f"{key}={labels[key]}" for key in _CUT if labels.get(key)), "")
    if not cut and "-MIG-" in product.upper():
        cut = f"{PRODUCT}={product}"
    count = _whole_number(labels.get(COUNT))
    return Discovered(labels, count, 1 if shares is None else shares[1], sharing, cut)


def expected(machine: Machine, resource: str) -> int | None:
    """Return how many whole GPUs a node has by its labels.

    Args:
        machine: the node.
        resource: the GPU resource.

    Returns:
        None where no label counts them, or one counts fewer than the node offers and none says that they are shared.
    """
    said = discovered(machine)
    offered = max(machine.offers(resource)) if resource == WHOLE and not said.sharing else 0
    return None if said.whole is None or said.whole < offered else said.whole


def sliced(machine: Machine) -> tuple[int, dict[str, int]]:
    """Return (how many GPUs at least the slices that a node offers are cut from, the slices by resource)."""
    taken = 0.0
    found: dict[str, int] = {}
    for resource, count in machine.allocatable.items():
        match = _SLICE.match(resource)
        if match is None or count < 1:
            continue
        shares = max(_whole_number(machine.labels.get(f"{resource}.replicas")) or 1, 1)
        found[resource] = count
        taken += int(match["g"]) * math.ceil(count / shares)
    return math.ceil(taken / SLICES_A_GPU), found


def _whole_number(value: object) -> int | None:
    text = str(value if value is not None else "").strip()
    return int(text) if text.isdecimal() else None
