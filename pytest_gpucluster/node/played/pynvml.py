"""Plays NVML in a container that was given played GPUs: healthy ones, unless the node plants something else.

Only what programs of ours ask. As the library does, it raises for what a device does not have.
"""

# ruff: noqa: N802 - names of the library

import os
import types
from typing import Any

NVMLError = type("NVMLError", (Exception,), {})
NVMLError_NotSupported = type("NVMLError_NotSupported", (NVMLError,), {})
RECOVERY_ACTION = 230


def _devices() -> list[str]:
    words = os.environ.get("GPUCLUSTER_DEVICES", "").split(",")
    return [word.partition("@")[0] for word in words if word]


def _planted(name: str) -> bool:
    return name in os.environ.get("GPUCLUSTER_PLAYED", "").split(",")


def nvmlInit() -> None:
    """Begin."""


def nvmlShutdown() -> None:
    """End."""


def nvmlDeviceGetCount() -> int:
    """Return how many GPUs the container was given."""
    return len(_devices())


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    """Return the handle of a GPU: its number."""
    if not 0 <= index < len(_devices()):
        raise NVMLError("Invalid Argument")
    return index


def nvmlDeviceGetUUID(handle: int) -> str:
    """Return its id."""
    return _devices()[handle]


def nvmlDeviceGetName(handle: int) -> str:
    """Return its name, which claims no real hardware."""
    del handle
    return "Embedded GPU"


def nvmlDeviceGetPciInfo(handle: int) -> Any:
    """Return where it is."""
    return types.SimpleNamespace(busId=f"00000000:{handle + 1:02X}:00.0")


def nvmlDeviceGetEccMode(handle: int) -> list[int]:
    """Return that errors are corrected, now and after a reboot."""
    del handle
    return [1, 1]


def nvmlDeviceGetTotalEccErrors(handle: int, error: int, counter: int) -> int:
    """Return that there were none."""
    del handle, error, counter
    return 0


def nvmlDeviceGetRemappedRows(handle: int) -> tuple[int, int, int, int]:
    """Return rows remapped for correctable and other errors, whether one is pending, whether one failed."""
    pending = handle == len(_devices()) - 1 and _planted("row-remap-pending")
    return (0, int(pending), int(pending), 0)


def nvmlDeviceGetFieldValues(handle: int, fields: list[int]) -> list[Any]:
    """Return fields; it has the one that says what must be done, and nothing must."""
    del handle
    return [
        types.SimpleNamespace(
            nvmlReturn=0 if one == RECOVERY_ACTION else 3, value=types.SimpleNamespace(uiVal=0)
        )
        for one in fields
    ]
