"""Devices by their vendor: which of a pod's resources they are, and how one looks at them on a node."""

import dataclasses
import re

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects import gpu_names
from pytest_gpucluster.requirement import Cause, Finding


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


_OWN = re.compile(
    r"NVIDIA container toolkit|\bnvidia runtime\b|nvidia-ctk|nvidia-peermem|NVIDIA_DRIVER_CAPABILITIES|\bMIG slices\b"
)
"""Words of causes that only devices of NVIDIA have."""
_SPOKEN: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"(?:`?NVRM: Xid`?|Xid (?:and ECC )?errors(?: and remapped rows)?|ECC and Xid errors)"),
        "{errors}",
    ),
    (re.compile(r"\b(?:an )?Xids?\b"), "an error of the driver"),
    (re.compile(r"`?nvidia-smi topo [^,`;)]*`?"), "{topology}"),
    (re.compile(r"`?nvidia-smi(?: -{1,2}[\w-]+(?: [A-Z][A-Z,_]+)?)*`?"), "{tool}"),
    (re.compile(r"\bMIG (?:mode|strategy)\b"), "partitions"),
    (re.compile(r"GPU feature discovery \(part of the GPU Operator\)"), "the vendor's node labeller"),
    (re.compile(r"NVIDIA_VISIBLE_DEVICES(?:=all)?"), "the variable of visible devices"),
    (re.compile(r",? and set accept-nvidia\S+ *= *false"), ""),
)
"""(words of NVIDIA in a cause, what stands for them with another vendor)."""


def worded(finding: Finding, resource: str) -> Finding:
    """Return a finding whose causes speak of devices in words of their vendor.

    Args:
        finding: what a judge found, in words of NVIDIA where devices are looked at.
        resource: the resource that stands for the devices; "" or one of NVIDIA: nothing is changed.
    """
    vendor = of(resource) if resource else NVIDIA
    if vendor is NVIDIA or not finding.causes:
        return finding
    kept = [cause for cause in finding.causes if not _OWN.search(f"{cause.text} {cause.fix}")]
    told = [Cause(_in_words_of(cause.text, vendor), _in_words_of(cause.fix, vendor)) for cause in kept]
    return dataclasses.replace(finding, causes=tuple(told))


def _in_words_of(text: str, vendor: Vendor) -> str:
    tool = vendor.tools.partition(", and ")[0]
    for pattern, words in _SPOKEN:
        said = words.format(errors=vendor.errors, topology=vendor.topology, tool=tool)
        text = pattern.sub(said, text)
    return text
