"""What the GPUs of a container say of their health, and what the kernel's log says of GPUs.

NVIDIA's by NVML (pynvml), or by nvidia-smi where the image lacks that package; AMD's by the RAS files of the kernel.
Nothing is changed. What a driver does not tell is null, never 0. Standard library, and pynvml if it is there. Prints
one line for each GPU, as in `lines.py`, and one for the kernel's log.
"""

import contextlib
import ctypes
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from lines import say

SECONDS = 60
"""For the answer of nvidia-smi, which wakes each GPU first."""
RECOVERY = 230
"""Field of NVML: what the driver itself says must be done before the GPU can be used; 0 for nothing."""
QUERY = {
    "uuid": "uuid", "bus": "pci.bus_id", "name": "name", "ecc": "ecc.mode.current",
    "uncorrected": "ecc.errors.uncorrected.volatile.total", "pending": "remapped_rows.pending",
    "failed": "remapped_rows.failure",
}  # fmt: skip
"""Field of a line -> what nvidia-smi calls it."""
FURTHER = {"recovery": "gpu_recovery_action"}
"""The same of fields that drivers before 570 do not know."""
WORDS = {"yes": 1, "no": 0, "enabled": 1, "disabled": 0, "none": 0}
NOTHING = re.compile(r"\[.*\]|N/A|ERR!|", re.IGNORECASE)
"""What nvidia-smi prints in place of a value."""
DRM = pathlib.Path("/sys/class/drm")
AMD = "0x1002"
KERNEL = re.compile(r"NVRM: Xid|amdgpu.*(?:RAS|uncorrectable|GPU reset)", re.IGNORECASE)
"""What is told of the kernel's log; whether it stands for a fault is for others to judge."""
FROM_BOOT = re.compile(r"\[ *0\.0+\]|Linux version ")
"""What the kernel writes first when it boots: a log without it has lost its oldest lines, or was cleared."""
FIRST = 8
"""Lines among which that must be."""
READ_ALL, MOST_LINES, MOST_TEXT = 3, 12, 180
"""Action of syslog(2), lines that are told (the last ones), characters of each."""


def told(nvml: Any, ask: Callable[[], Any]) -> Any:
    """Return what a device says, None where its driver does not."""
    try:
        return ask()
    except nvml.NVMLError:
        return None


def by_nvml() -> list[dict[str, object]]:
    """Return what NVML tells of each GPU."""
    nvml = importlib.import_module("pynvml")
    nvml.nvmlInit()
    try:
        return [of_device(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    finally:
        nvml.nvmlShutdown()


def of_device(nvml: Any, index: int) -> dict[str, object]:
    """Return what NVML tells of one GPU; one that does not answer is told too."""
    handle = told(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    if handle is None:
        return {"uuid": "", "bus": "", "name": "", "lost": True}
    uncorrected, volatile = 1, 0
    rows = told(nvml, lambda: nvml.nvmlDeviceGetRemappedRows(handle))
    mode = told(nvml, lambda: nvml.nvmlDeviceGetEccMode(handle))
    pci = told(nvml, lambda: nvml.nvmlDeviceGetPciInfo(handle))
    return {
        "uuid": text(told(nvml, lambda: nvml.nvmlDeviceGetUUID(handle))),
        "bus": text(getattr(pci, "busId", "")),
        "name": text(told(nvml, lambda: nvml.nvmlDeviceGetName(handle))),
        "ecc": mode[0] if mode else None,
        "uncorrected": told(nvml, lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, volatile)),
        "pending": rows[2] if rows else None,
        "failed": rows[3] if rows else None,
        "recovery": told(nvml, lambda: field(nvml, handle, RECOVERY)),
        "lost": False,
    }


def field(nvml: Any, handle: Any, number: int) -> int | None:
    """Return a field of NVML, None where its driver does not have it."""
    value = nvml.nvmlDeviceGetFieldValues(handle, [number])[0]
    return int(value.value.uiVal) if value.nvmlReturn == 0 else None


def text(value: object) -> str:
    """Return text of NVML, which older versions of its library gave as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def by_smi() -> list[dict[str, object]]:
    """Return what nvidia-smi tells of each GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        raise FileNotFoundError("neither the package pynvml nor the program nvidia-smi is in the image")
    for more in (FURTHER, {}):
        asked = {**QUERY, **more}
        command = [program, f"--query-gpu={','.join(asked.values())}", "--format=csv,noheader,nounits"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode == 0:
            return [of_row(list(asked), line) for line in done.stdout.splitlines() if line.strip()]
    raise OSError(
        f"nvidia-smi ended with {done.returncode}: {' '.join((done.stdout + done.stderr).split())[:150]}"
    )


def of_row(names: list[str], line: str) -> dict[str, object]:
    """Return what one line of nvidia-smi tells; words in brackets stand for nothing."""
    values = [each.strip() for each in line.split(",")]
    if len(values) != len(names):
        return {"uuid": "", "bus": "", "name": "", "lost": True}
    found: dict[str, object] = {"recovery": None, "lost": False}
    for name, value in zip(names, values, strict=True):
        if name in ("uuid", "bus", "name"):
            found[name] = value
        else:
            number = int(value) if value.isdecimal() else WORDS.get(value.lower())
            # An action that must be taken has words of its own, such as `Drain P2P`.
            action = name == "recovery" and NOTHING.fullmatch(value) is None
            found[name] = value if number is None and action else number
    return found


def by_ras() -> list[dict[str, object]]:
    """Return what the kernel's RAS files tell of each GPU of AMD on the node."""
    found: list[dict[str, object]] = []
    for device in sorted(DRM.glob("card[0-9]*/device")):
        if read(device / "vendor").strip() != AMD:
            continue
        counts = [int(n) for path in sorted((device / "ras").glob("*_err_count"))
                  for n in re.findall(r"^ue:\s*(\d+)", read(path), re.MULTILINE)]  # fmt: skip
        pages = device / "ras" / "gpu_vram_bad_pages"
        marks = re.findall(r":\s*([RPF])\s*$", read(pages), re.MULTILINE) if pages.exists() else None
        found.append(
            {
                "uuid": read(device / "unique_id").strip(),
                "bus": device.resolve().name,
                "name": read(device / "product_name").strip(),
                "ecc": 1 if counts else None,
                "uncorrected": sum(counts) if counts else None,
                "pending": None if marks is None else marks.count("P"),
                "failed": None if marks is None else marks.count("F"),
                "recovery": None,
                "lost": False,
            }
        )
    return found


def read(path: pathlib.Path) -> str:
    """Return what a file of the kernel holds, "" where it cannot be read."""
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def kernel_log() -> dict[str, object]:
    """Return the lines of the kernel's log about GPUs, or why it cannot be read."""
    libc = ctypes.CDLL(None, use_errno=True)
    size = libc.klogctl(10, None, 0)
    # Heads of lines are written when they are read, and the oldest lines are left out if all do not fit.
    buffer = ctypes.create_string_buffer(max(4 * size, 1 << 20))
    length = libc.klogctl(READ_ALL, buffer, len(buffer))
    if length <= 0:
        why = os.strerror(ctypes.get_errno()) if length < 0 else "it is empty"
        return {"readable": False, "why": why, "from_boot": False, "lines": [], "count": 0}
    every = buffer.raw[:length].decode("utf-8", "replace").splitlines()
    lines = [line for line in every if KERNEL.search(line)]
    return {
        "readable": True,
        "why": "",
        "from_boot": any(FROM_BOOT.search(line) for line in every[:FIRST]),
        "lines": [one[:MOST_TEXT] for one in lines[-MOST_LINES:]],
        "count": len(lines),
    }


def main() -> int:
    """Tell the health of each GPU, and what the kernel says."""
    ways: dict[str, Callable[[], list[dict[str, object]]]] = {
        "nvml": by_nvml,
        "nvidia-smi": by_smi,
        "ras": by_ras,
    }
    problems = []
    found: list[dict[str, object]] = []
    how = ""
    for how, way in ways.items():
        try:
            found = way()
        except Exception as error:  # noqa: BLE001 - whatever a driver's library raises: it cannot be read this way
            problems.append(f"{how}: {' '.join(str(error).split())[:120] or type(error).__name__}")
            continue
        if found:
            break
    node = os.environ.get("NODE_NAME", "")
    for number, gpu in enumerate(found):
        say("gpu-health", node=node, how=how, index=number, count=len(found), gpu=gpu)
    unasked = {"readable": False, "why": "it is not asked for", "from_boot": False, "lines": [], "count": 0}
    log: dict[str, object] = unasked if "--no-kernel-log" in sys.argv else kernel_log()
    say(
        "kernel-log",
        node=node,
        gpus=len(found),
        problems=problems,
        readable=log["readable"],
        why=log["why"],
        from_boot=log["from_boot"],
        lines=log["lines"],
        count=log["count"],
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
