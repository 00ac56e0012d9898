"""What the machine must be and have; whatever is missing is said in one line."""

import ctypes
import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

from . import places
from .failure import Failed

PARTS = {
    "kubernetes": (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kube-proxy",
        "kubectl",
    ),
    "programs": (
        *("etcd", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "pause", "nvidia-device-plugin"),
        *("ptp", "host-local", "loopback", "portmap", "iptables"),
    ),
}
"""Programs by the archive in which they come."""
LIBRARIES = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64")
NVML = "libnvidia-ml.so.1"
SMALLEST = 4 << 30
"""Bytes of memory for the control plane, Kueue and one node; each further node takes as much as `PER_NODE`."""
PER_NODE = 1 << 30
UUID_BYTES = 96
_GPU = re.compile(r"nvidia(\d+)")


def check_parts() -> None:
    """Check that the archives were unpacked.

    Raises:
        Failed: names what is missing, and the archive in which it comes.
    """
    for archive, names in PARTS.items():
        for name in names:
            if not (places.HOME / archive / name).exists():
                raise Failed(f"{places.HOME / archive / name} is missing: unpack the archive {archive}")
    if not (places.HOME / "images").is_dir():
        raise Failed(f"{places.HOME / 'images'} is missing: unpack the archive programs")


def check(nodes: int, *, proc: Path = Path("/proc")) -> None:
    """Check what a cluster needs of the machine.

    Raises:
        Failed: one line with what is missing.
    """
    if os.geteuid() != 0:
        raise Failed("only root can make namespaces, mounts and control groups: run it as root")
    if shutil.which("unshare") is None:
        raise Failed("no program unshare: install the package util-linux")
    if not re.search(r"^nodev\toverlay$", (proc / "filesystems").read_text(), re.MULTILINE):
        raise Failed("this kernel has no overlayfs, on which containers' images lie: load the module overlay")
    found = re.search(r"^MemTotal:\s+(\d+) kB", (proc / "meminfo").read_text(), re.MULTILINE)
    memory = int(found[1]) << 10 if found else 0
    needed = SMALLEST + nodes * PER_NODE
    if memory < needed:
        has, wants = (f"{each / 2**30:.1f} GiB" for each in (memory, needed))
        raise Failed(f"{has} of memory are too little: a cluster of {nodes} node(s) needs {wants}")


def check_fake() -> None:
    """Check that this Python has what the fake device plugin speaks with, which the archives do not bring.

    Raises:
        Failed: it has not.
    """
    if importlib.util.find_spec("grpc") is None:
        raise Failed(
            f"--devices fake: {sys.executable} has no package grpc, with which the fake plugin speaks (grpcio)"
        )


def libraries() -> tuple[str, ...]:
    """Return the folders in which the driver's libraries lie.

    Raises:
        Failed: NVML is in none, or does not start.
    """
    said = [each for each in os.environ.get("LD_LIBRARY_PATH", "").split(":") if each]
    folders = [each for each in dict.fromkeys([*said, *LIBRARIES]) if (Path(each) / NVML).exists()]
    if not folders:
        raise Failed(
            f"no {NVML} in {', '.join([*said, *LIBRARIES])}: no driver of NVIDIA, or LD_LIBRARY_PATH lacks it"
        )
    return tuple(folders)


def gpus(libraries: tuple[str, ...], dev: Path = Path("/dev")) -> tuple[int, ...]:
    """Return the numbers of the machine's GPUs.

    Raises:
        Failed: NVML does not start, sees none, or sees other ones than there are device files.
    """
    numbers = sorted(uuids(libraries))
    files = {int(found[1]) for each in dev.iterdir() if (found := _GPU.fullmatch(each.name))}
    if not numbers or not set(numbers) <= files:
        raise Failed(f"NVML sees the GPUs {numbers}, but device files are there for {sorted(files)}")
    return tuple(numbers)


def uuids(libraries: tuple[str, ...]) -> dict[int, str]:
    """Return number -> UUID of the machine's GPUs, as NVML tells them.

    Raises:
        Failed: NVML does not start.
    """
    try:
        nvml = ctypes.CDLL(str(Path(libraries[0]) / NVML))
    except OSError as error:
        raise Failed(f"NVML cannot be loaded: {error}") from None
    code = nvml.nvmlInit_v2()
    if code != 0:
        raise Failed(f"NVML does not start (error {code}): is the driver loaded?")
    found: dict[int, str] = {}
    try:
        count = ctypes.c_uint()
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for index in range(count.value):
            handle, minor = ctypes.c_void_p(), ctypes.c_uint()
            uuid = ctypes.create_string_buffer(UUID_BYTES)
            nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
            if nvml.nvmlDeviceGetMinorNumber(handle, ctypes.byref(minor)) == 0:
                nvml.nvmlDeviceGetUUID(handle, uuid, UUID_BYTES)
                found[minor.value] = uuid.value.decode(errors="replace")
    finally:
        nvml.nvmlShutdown()
    return found


def dealt(gpus: tuple[int, ...], nodes: int) -> tuple[places.Node, ...]:
    """Deal GPUs over nodes, the same number to each.

    Raises:
        Failed: they cannot be.
    """
    if nodes < 1 or nodes > 60 or (gpus and len(gpus) % nodes):
        raise Failed(
            f"--nodes={nodes}: {len(gpus)} GPU(s) cannot be dealt over {nodes} nodes, the same number to each"
        )
    share = len(gpus) // nodes
    return tuple(places.Node(each + 1, gpus[each * share : (each + 1) * share]) for each in range(nodes))
