"""Devices by their vendor: which of a pod's resources they are, and how one looks at them on a node."""

import dataclasses
import re

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects import gpu_names


@dataclasses.dataclass(frozen=True)
class Vendor:
    """How a vendor's devices are spoken of.

    Attributes:
        tools: what shows them on a node.
        errors: how their errors are called there.
        link_errors: how errors of the links between them are called there.
        topology: what shows which lie on one NUMA node.
    """

    tools: str
    errors: str = "errors"
    link_errors: str = "errors of its links"
    topology: str = "lscpu, and the vendor's tool"


NVIDIA = Vendor(
    "nvidia-smi -q, and dmesg | grep -i xid", "Xid and ECC errors", "Xid and nvlink errors (nvidia-smi nvlink -e)",
    "lscpu, nvidia-smi topo -m",
)  # fmt: skip
AMD = Vendor(
    "rocm-smi, and dmesg | grep -i amdgpu", "RAS and ECC errors (amd-smi metric --ecc)", "xgmi errors (amd-smi xgmi)",
    "lscpu, rocm-smi --showtopo",
)  # fmt: skip
OTHER = Vendor("the vendor's tool, the log of the device plugin, and dmesg")
VENDORS: tuple[tuple[str, Vendor], ...] = (
    ("nvidia.com", NVIDIA),
    ("amd.com", AMD),
    ("habana.ai", Vendor("hl-smi, and dmesg | grep -i habanalabs")),
    ("gpu.intel.com", Vendor("xpu-smi, and dmesg | grep -iE 'i915|xe'")),
    ("neuron", Vendor("neuron-ls, and dmesg | grep -i neuron")),
    ("google.com", Vendor("the log of the TPU device plugin, and dmesg")),
)
"""Domain of a resource -> vendor; the first that fits."""
ACCELERATOR = re.compile(r"tpu|neuron|gaudi|npu|(?:^|/)(?:gpu|vgpu|mig-)", re.IGNORECASE)


def resource_of(pod: fields.Object) -> str:
    """Return the resource of a pod that stands for its devices, "" where it asks for none that reads so."""
    asked = fields.scarce_resources(pod)
    found = [r for r in asked if gpu_names.reads_as_gpu(r) or ACCELERATOR.search(r)]
    return found[0] if found else ""


def claims(pod: fields.Object) -> bool:
    """Report whether a pod asks for devices by claims (DRA), of which its resources say nothing."""
    return bool(fields.items(pod, "spec", "resourceClaims"))


def of(resource: str, said: str = "") -> Vendor:
    """Return the vendor of a resource; where there is none, that of the words that a program prints."""
    domain = resource.partition("/")[0]
    known = next((vendor for name, vendor in VENDORS if domain and name in domain), None)
    if known is not None or domain:
        return known or OTHER
    if re.search(r"\bHIP\b|ROCm|amdgpu|HSA_STATUS", said):
        return AMD
    return NVIDIA if re.search(r"\bCUDA|NVIDIA|NVRM|\bXid\b|nvlink", said, re.IGNORECASE) else OTHER


def check(resource: str, node: str, said: str = "") -> str:
    """Return how to look at the devices of a node, in the words of their vendor."""
    return f"on {node}: {of(resource, said).tools}"
