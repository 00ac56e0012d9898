"""Likely causes of errors of GPUs, by the words or the number that the driver gives them."""

import re

from pytest_gpucluster.measure.nccl.advice import Advice

OUT_OF_MEMORY = Advice(
    "the memory of the GPU (by the model, or by another process on it) or of the container is used up",
    "look at nvidia-smi (or amd-smi) on the node and at the container's limit; fewer channels need less",
)
_GPU: tuple[tuple[tuple[str, ...], Advice], ...] = (
    (("out of memory", "OutOfMemory", "OUT_OF_MEMORY"), OUT_OF_MEMORY),
    (("over nvlink", "NVLINK", "nvlink", "NVLink"), Advice(
        "a GPU could not reach another over NVLink, or its hardware failed",
        "on the node of this rank: dmesg for Xid (74, 48, 63, 94, 95), nvidia-smi nvlink -e, and drain it",
    )),
    (("uncorrectable ECC", "ECC"), Advice(
        "the memory of a GPU has an error that cannot be corrected",
        "on the node of this rank: nvidia-smi -q -d ECC,ROW_REMAPPER; drain it, and reset or replace the GPU",
    )),
    (("system not yet initialized", "SystemNotReady", "802"), Advice(
        "the fabric manager of the node does not run (error 802)",
        "start nvidia-fabricmanager in the driver's version on the node",
    )),
    (("illegal memory access", "device-side assert", "misaligned address", "Memory access fault"), Advice(
        "a kernel accessed foreign memory, or stopped itself: the program, a library, or the GPU",
        "run this rank's step alone with CUDA_LAUNCH_BLOCKING=1, and look at dmesg of its node for Xid: a fault that "
        "stays with the node is hardware",
    )),
    (("no kernel image", "invalid device function"), Advice(
        "the image was not built for this GPU", "use an image built for the GPU's architecture",
    )),
    (("invalid device ordinal", "no CUDA-capable device", "NoDevice", "no ROCm-capable"), Advice(
        "the container has fewer GPUs than the rank asks for", "compare LOCAL_RANK with `nvidia-smi -L` in the pod",
    )),
)  # fmt: skip
_ANY_GPU = Advice(
    "a GPU reported an error: the program, the driver or the hardware",
    "look at dmesg of this rank's node for Xid (AMD: amdgpu) at that time, and run the rank alone with "
    "CUDA_LAUNCH_BLOCKING=1",
)
_AMD_GPU: tuple[tuple[tuple[str, ...], Advice], ...] = (
    (("out of memory", "OutOfMemory"), Advice(
        "the memory of the GPU (by the model, or by another process on it) or of the container is used up",
        "look at amd-smi on the node and at the container's limit; fewer channels need less",
    )),
    (("illegal memory access", "device-side assert", "misaligned address", "Memory access fault"), Advice(
        "a kernel accessed foreign memory, or stopped itself: the program, a library, or the GPU",
        "run this rank's step alone with AMD_SERIALIZE_KERNEL=3, and look at dmesg of its node for amdgpu: a fault "
        "that stays with the node is hardware",
    )),
    (("no kernel image", "invalid device function", "NoBinaryForGpu"), Advice(
        "the image was not built for this GPU", "use an image built for the GPU's architecture (gfx...)",
    )),
    (("invalid device ordinal", "no ROCm-capable", "NoDevice"), Advice(
        "the container has fewer GPUs than the rank asks for", "compare LOCAL_RANK with `rocm-smi` in the pod",
    )),
)  # fmt: skip

_AMD_WORDS = re.compile(
    r"\bHIP\b|\bhip[A-Z]|\bROCr\b|\bROCm\b|\bHSA_STATUS_|\bamdgpu\b|Memory access fault by GPU"
)

_XID = re.compile(r"\bXid \([^)]*\): (?P<number>\d{1,4})\b")
_XIDS: tuple[tuple[frozenset[int], str], ...] = (
    (frozenset({13, 31, 43, 45, 68, 69, 109}), "of the program or of the GPU: run the same elsewhere, and others here"),
    (frozenset({48, 63, 64, 92, 94, 95, 140}), "of the GPU's memory (ECC)"),
    (frozenset({74, 149}), "of an NVLink: a GPU, the switch or the link between them"),
    (frozenset({79}), "the GPU fell off the bus"),
    (frozenset({61, 62, 119, 120, 143, 154}), "of the GPU's firmware (GSP), or a GPU that needs a reset"),
)  # fmt: skip
"""(numbers of Xid errors, whose they are)."""


def _of_xid(number: int) -> Advice:
    whose = next((words for numbers, words in _XIDS if number in numbers), "of unknown meaning here")
    return Advice(
        f"the driver reported Xid {number}: {whose}",
        "on the node of this rank: nvidia-smi -q, and the lines around it in dmesg; drain it if the error "
        "stays with the "
        "node, and reset or replace the GPU",
    )


def of(detail: str) -> Advice:
    """Return what to do about an error of a GPU of NVIDIA, or of an unknown vendor."""
    if xid := _XID.search(detail):
        return _of_xid(int(xid["number"]))
    return next((one for words, one in _GPU if any(word in detail for word in words)), _ANY_GPU)


def speaks_amd(detail: str) -> bool:
    """Report whether an error is told in words of AMD's runtime or driver, whatever else the log has."""
    return _AMD_WORDS.search(detail) is not None


def of_amd(detail: str) -> Advice | None:
    """Return what to do about an error of a GPU of AMD; None where its words tell nothing in particular."""
    return next((one for words, one in _AMD_GPU if any(word in detail for word in words)), None)
