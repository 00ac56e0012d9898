"""What a container can reach of GPUs and adapters: device files, and what the driver lists when it is called.

Standard library only. Prints one line as in `lines.py`. The driver is called in a process of its own, without the
variables that only ask it to hide GPUs: what is out of reach stays so without them.
"""

import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

from lines import say

ENOUGH = 16
"""Devices of one kind that the line names; more would not fit into one write."""
ASKED = ("GPUCLUSTER_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""Where a device plugin tells a container its devices; `ID@NUMA` in the first."""
HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
DEVICES = ("/dev/nvidia[0-9]*", "/dev/dri/renderD*", "/dev/gpucluster/*")
"""One file a GPU; the last are those of devices that a test cluster only plays."""
SHARED = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/kfd")
VERBS = ("/dev/infiniband/uverbs*",)
CUDA = ("libcuda.so.1", "libcuda.so")
HIP = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6")
NO_DEVICE = 100
"""What both drivers return where there is no GPU."""
SECONDS = 90
"""For the driver's answer: one that is not kept loaded wakes each GPU first."""


def asked() -> list[str]:
    """Return the ids that the device plugin told, without NUMA nodes."""
    text = next((os.environ[name] for name in ASKED if os.environ.get(name)), "")
    words = [word.strip().partition("@")[0] for word in text.split(",")]
    return [word for word in words if word and word not in ("none", "void", "all")]


def files(patterns: tuple[str, ...]) -> list[dict[str, object]]:
    """Return the device files that are here, and whether each opens."""
    found: list[dict[str, object]] = []
    for pattern in patterns:
        folder, _, name = pattern.rpartition("/")
        paths = sorted(path for path in pathlib.Path(folder).glob(name) if not path.is_dir())
        found += [{"path": str(path), **opened(path)} for path in paths]
    return found


def opened(path: pathlib.Path) -> dict[str, object]:
    """Return whether a file opens, else why not."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return {"opens": False, "why": error.strerror or str(error)}
    return {"opens": True}


def library(names: tuple[str, ...]) -> tuple[str, ctypes.CDLL | None]:
    """Return the first of these libraries that is here."""
    for name in names:
        try:
            return name, ctypes.CDLL(name)
        except OSError:
            continue
    return "", None


def driver() -> dict[str, object]:
    """Call the driver: which library answered, with what result, and which GPUs it lists."""
    name, found = library(CUDA)
    if found is not None:
        return {"library": name, **cuda(found)}
    name, found = library(HIP)
    if found is not None:
        return {"library": name, **hip(found)}
    return {"library": "", "why": f"neither {CUDA[0]} nor {HIP[0]} is here"}


def cuda(lib: ctypes.CDLL) -> dict[str, object]:
    """Ask NVIDIA's driver."""
    result = lib.cuInit(0)
    if result != 0:
        return {"result": result, "devices": []}
    count = ctypes.c_int()
    result = lib.cuDeviceGetCount(ctypes.byref(count))
    devices = []
    for index in range(count.value if result == 0 else 0):
        device, raw, bus = ctypes.c_int(), (ctypes.c_ubyte * 16)(), ctypes.create_string_buffer(32)
        lib.cuDeviceGet(ctypes.byref(device), index)
        ask = getattr(lib, "cuDeviceGetUuid_v2", lib.cuDeviceGetUuid)
        one = {"uuid": str(uuid.UUID(bytes=bytes(raw)))} if ask(ctypes.byref(raw), device) == 0 else {}
        if lib.cuDeviceGetPCIBusId(bus, 32, device) == 0:
            one["pci"] = bus.value.decode().lower()
        devices.append(one)
    return {"result": result, "count": count.value, "devices": devices[:ENOUGH]}


def hip(lib: ctypes.CDLL) -> dict[str, object]:
    """Ask AMD's runtime."""
    count = ctypes.c_int()
    result = lib.hipGetDeviceCount(ctypes.byref(count))
    devices = []
    for index in range(count.value if result == 0 else 0):
        bus = ctypes.create_string_buffer(32)
        ok = lib.hipDeviceGetPCIBusId(bus, 32, index) == 0
        devices.append({"pci": bus.value.decode().lower()} if ok else {})
    return {"result": result, "count": count.value, "devices": devices[:ENOUGH]}


def called() -> dict[str, object]:
    """Call the driver in a process of its own, which may hang or die of it."""
    environment = {key: value for key, value in os.environ.items() if key not in HIDING}
    command = [sys.executable, os.path.realpath(__file__), "--driver"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return {"library": "?", "why": f"the driver did not answer within {SECONDS} s"}
    found = re.search(r"^\{.*\}$", done.stdout, re.MULTILINE)
    if found is None:
        return {"library": "?", "why": f"the process that called the driver ended with {done.returncode}"}
    told: dict[str, object] = json.loads(found[0])
    return told


def main() -> int:
    """Tell what is within reach."""
    if sys.argv[1:] == ["--driver"]:
        print(json.dumps(driver()))
        return 0
    told = asked()
    say(
        "access",
        told=told[:ENOUGH],
        count=len(told),
        files=files(DEVICES)[:ENOUGH],
        shared=[one["path"] for one in files(SHARED) if one["opens"]],
        verbs=files(VERBS)[:ENOUGH],
        driver=called(),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
