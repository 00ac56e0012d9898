"""NVIDIA's GPUs by NVML, through the library that its maker publishes (`nvidia-ml-py`, module `pynvml`)."""

import contextlib
import dataclasses
import importlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_gpucluster.provider.host import sysfs
from pytest_gpucluster.provider.host.inventory import Gpu, HostProblem, Vendor

RESOURCE = "nvidia.com/gpu"
VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Device files in /dev that every program needs that uses a GPU."""
NEEDED = ("nvidiactl", "nvidia-uvm")
"""Without these CUDA does not begin."""
MINORS = "proc/driver/nvidia-caps/mig-minors"
MAKING = 60
"""Seconds for device files to be made."""
MISSING = "the Python package nvidia-ml-py is missing: pip install nvidia-ml-py"


def make_files(command: Sequence[str] = ("nvidia-modprobe", "-c", "0", "-u"), root: Path = Path("/")) -> None:
    """Make device files that the driver only makes when the first program begins: containers cannot."""
    if all((root / "dev" / name).exists() for name in NEEDED) or shutil.which(command[0]) is None:
        return
    # What is missing afterwards is noted where devices are looked for.
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=MAKING, check=False)


def library() -> Any:
    """Return the module `pynvml`.

    Raises:
        HostProblem: it is not installed.
    """
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        raise HostProblem(MISSING) from None


def read(nvml: Any, root: Path, visible: str | None = None) -> Vendor:
    """Return the GPUs that the driver has.

    Args:
        nvml: the module, or what stands for it.
        root: folder of the machine's root.
        visible: what `CUDA_VISIBLE_DEVICES` of this process says: others are not ours; None where it says nothing.

    Raises:
        HostProblem: no driver, no library of it, no permission.
    """
    with _opened(nvml):
        found: list[Gpu] = []
        for index in range(int(nvml.nvmlDeviceGetCount())):
            found += _gpus(nvml, root, index)
        if visible is not None:
            found = _visible(found, visible)
        return Vendor(
            RESOURCE,
            tuple(found),
            tuple(f"/dev/{name}" for name in SHARED if (root / "dev" / name).exists()),
            VARIABLES,
            driver=_text(_told(nvml, nvml.nvmlSystemGetDriverVersion)),
            runtime=_cuda(_told(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)),
            notes=(*_notes(found), *(_lacking(root) if found else ())),
        )


@contextlib.contextmanager
def _opened(nvml: Any) -> Iterator[None]:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise HostProblem(f"NVML does not open: {_said(error)}") from None
    try:
        yield
    except nvml.NVMLError as error:
        raise HostProblem(f"NVML broke off: {_said(error)}") from None
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _gpus(nvml: Any, root: Path, index: int) -> list[Gpu]:
    """Return a GPU, or its MIG slices; one that does not answer is counted and cannot be used."""
    uuid = f"GPU-unknown-{index}"
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        whole = _whole(nvml, root, index, uuid, handle)
        if not whole.partitioned:
            return [whole]
        return _slices(nvml, root, whole, handle)
    except nvml.NVMLError_NoPermission as error:
        raise HostProblem(f"NVML refuses GPU {index} to this user: {_said(error)}") from None
    except nvml.NVMLError as error:
        return [Gpu(uuid, index, problem=_said(error))]


def _whole(nvml: Any, root: Path, index: int, uuid: str, handle: Any) -> Gpu:
    pci = sysfs.pci_address(_text(nvml.nvmlDeviceGetPciInfo(handle).busId))
    file = f"/dev/nvidia{int(nvml.nvmlDeviceGetMinorNumber(handle))}"
    mode = _told(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle))
    compute = _told(nvml, lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    there = (root / file.lstrip("/")).exists()
    return Gpu(
        uuid,
        index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        pci=pci,
        memory=int(nvml.nvmlDeviceGetMemoryInfo(handle).total) >> 20,
        numa=sysfs.numa_of(root, pci),
        files=(file,),
        partitioned=bool(mode and mode[0]),
        compute=f"{compute[0]}.{compute[1]}" if compute else "",
        problem="" if there else f"its device file {file} does not exist",
    )


def _slices(nvml: Any, root: Path, whole: Gpu, handle: Any) -> list[Gpu]:
    """Return the MIG slices of a GPU: its plugin offers them in its place."""
    minors = dict(
        line.rsplit(" ", 1) for line in sysfs.text(root / MINORS).splitlines() if line.count(" ") == 1
    )
    found = []
    for number in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except nvml.NVMLError_NotFound:
            continue
        owner = (
            f"gpu{whole.files[0].removeprefix('/dev/nvidia')}/gi{int(nvml.nvmlDeviceGetGpuInstanceId(part))}"
        )
        keys = (f"{owner}/access", f"{owner}/ci{int(nvml.nvmlDeviceGetComputeInstanceId(part))}/access")
        caps = tuple(f"/dev/nvidia-caps/nvidia-cap{minors[key]}" for key in keys if key in minors)
        name = _text(nvml.nvmlDeviceGetName(part))
        found.append(
            Gpu(
                _text(nvml.nvmlDeviceGetUUID(part)),
                whole.index,
                name=whole.name,
                pci=whole.pci,
                memory=int(nvml.nvmlDeviceGetMemoryInfo(part).total) >> 20,
                numa=whole.numa,
                files=(*whole.files, *caps),
                mig=name.rpartition(" MIG ")[2] if " MIG " in name else "unknown",
                partitioned=True,
                compute=whole.compute,
                problem=whole.problem or ("" if len(caps) == 2 else f"{MINORS} does not name its files"),
            )
        )
    return found or [dataclasses.replace(whole, files=(), problem="it is in MIG mode but has no slice")]


def _visible(gpus: list[Gpu], told: str) -> list[Gpu]:
    """Return those that `CUDA_VISIBLE_DEVICES` names, by number or by the beginning of a UUID."""
    words = [word.strip() for word in told.split(",") if word.strip()]
    return [
        gpu
        for gpu in gpus
        if any(word == str(gpu.index) or (len(word) > 3 and gpu.id.startswith(word)) for word in words)
    ]


def _notes(gpus: list[Gpu]) -> tuple[str, ...]:
    return tuple(f"GPU {gpu.index} cannot be used: {gpu.problem}" for gpu in gpus if gpu.problem)


def _lacking(root: Path) -> tuple[str, ...]:
    return tuple(
        f"/dev/{name} does not exist: CUDA does not start (nvidia-modprobe -c 0 -u creates it)"
        for name in NEEDED
        if not (root / "dev" / name).exists()
    )


def _told(nvml: Any, ask: Callable[[], Any]) -> Any:
    """Return what a device says, None where its driver does not support the question."""
    try:
        return ask()
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return None


def _cuda(number: int | None) -> str:
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""


def _text(value: Any) -> str:
    """Return text of NVML, which older versions of its library gave as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
