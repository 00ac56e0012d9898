"""Labels of a node as the vendors' feature discovery writes them, from what was found."""

import re
from collections.abc import Sequence

from pytest_gpucluster.provider.host.inventory import Gpu, Inventory

FAMILIES = {
    "7.0": "volta",
    "7.5": "turing",
    "8.9": "ada-lovelace",
    "8": "ampere",
    "9": "hopper",
    "10": "blackwell",
    "12": "blackwell",
}
"""Compute capability, or its major part -> what NVIDIA's feature discovery calls the family."""


def labels(inventory: Inventory, gpus: Sequence[Gpu]) -> dict[str, str]:
    """Return the labels of a node that has these GPUs."""
    usable = [gpu for gpu in gpus if not gpu.problem]
    if not usable:
        return {}
    if inventory.vendor.resource == "amd.com/gpu":
        first = usable[0]
        found = {"amd.com/gpu.product-name": _joined(first.name, "_")}
        return {key: value for key, value in found.items() if value}
    return _nvidia(inventory, usable)


def _nvidia(inventory: Inventory, gpus: Sequence[Gpu]) -> dict[str, str]:
    first = gpus[0]
    suffix = f"-MIG-{first.mig}" if first.mig else ""
    major, _, minor = first.compute.partition(".")
    found = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": _joined(first.name, "-") + suffix,
        "nvidia.com/gpu.count": str(len(gpus)),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/gpu.memory": str(first.memory or ""),
        "nvidia.com/gpu.family": FAMILIES.get(first.compute, FAMILIES.get(major, "")),
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/gpu.machine": _joined(inventory.product, "-"),
        "nvidia.com/mig.strategy": "single" if first.mig else "none",
    }
    for what, version in (("driver", inventory.vendor.driver), ("runtime", inventory.vendor.runtime)):
        parts = version.split(".")
        names = ("major", "minor", "revision")
        found |= {
            f"nvidia.com/cuda.{what}-version.{name}": part for name, part in zip(names, parts, strict=False)
        }
        found[f"nvidia.com/cuda.{what}-version.full"] = version
    return {key: value for key, value in found.items() if value}


def _joined(name: str, blank: str) -> str:
    """Return a name as a label's value: other characters are left out, blanks become a hyphen, 63 at most."""
    kept = re.sub(r"[^A-Za-z0-9_. -]", "", name)
    return blank.join(kept.split())[:63].strip("-_.")
