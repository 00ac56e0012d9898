"""What programs that measure speed tell of a GPU: what it is, its gauges while it works, and why something failed.

Mounted beside each program that imports it. Needs torch, and pynvml or nvidia-smi if they are there.
"""

import contextlib
import importlib
import os
import shutil
import statistics
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from lines import digits

REASONS = {
    0x1: "idle", 0x2: "application_clocks", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "hw_power_brake", 0x100: "display_clocks",
}  # fmt: skip
"""Bits of NVML's reasons for clocks below their maximum."""


def spread(values: list[float]) -> dict[str, float]:
    """Return median, 5th and 95th percentile, smallest and largest of some numbers."""
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    named = {"median": at(0.5), "p5": at(0.05), "p95": at(0.95), "min": ordered[0], "max": ordered[-1]}
    return {name: digits(value) for name, value in named.items()}


def variation(values: list[float]) -> float:
    """Return the coefficient of variation."""
    return statistics.pstdev(values) / statistics.fmean(values) if values else 0.0


class Gauges:
    """Clock, power, temperature and throttle reasons of one GPU, sampled beside the work; says so if unreadable."""

    def __init__(self, device: torch.device, uuid: str, period: float = 0.25) -> None:
        """Find a way to read them: pynvml, else nvidia-smi, else torch.cuda."""
        self._period = period
        self._samples: list[dict[str, float]] = []
        self._done = threading.Event()
        self.how, self._read = "not readable", None
        problems = []
        if device.type != "cuda":
            self.why = "no GPU"
            return
        ways = {"pynvml": self._by_pynvml, "nvidia-smi": self._by_smi, "torch.cuda": self._by_torch}
        for how, way in ways.items():
            try:
                read = way(device, uuid)
                read()
            except Exception as error:  # noqa: BLE001 - whatever a driver's library raises: it cannot be read this way
                problems.append(f"{how}: {' '.join(str(error).split())[:80] or type(error).__name__}")
                continue
            self.how, self._read = how, read
            break
        self.why = "; ".join(problems)

    @staticmethod
    def _by_pynvml(device: torch.device, uuid: str) -> Callable[[], dict[str, float]]:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        handle = (
            nvml.nvmlDeviceGetHandleByUUID(uuid) if uuid else nvml.nvmlDeviceGetHandleByIndex(device.index)
        )
        reasons = next(
            getattr(nvml, f"nvmlDeviceGetCurrentClocks{word}Reasons")
            for word in ("Event", "Throttle")  # The second is the word of drivers before 535.
            if hasattr(nvml, f"nvmlDeviceGetCurrentClocks{word}Reasons")
        )

        def read() -> dict[str, float]:
            return {
                "sm_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
                "max_sm_mhz": nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
                "watts": nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
                "limit_w": nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3,
                "default_limit_w": nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1e3,
                "celsius": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
                "reasons": reasons(handle),
            }

        return read

    @staticmethod
    def _by_smi(device: torch.device, uuid: str) -> Callable[[], dict[str, float]]:
        program = shutil.which("nvidia-smi")
        if program is None:
            raise FileNotFoundError("no such program")
        names = ("sm_mhz", "max_sm_mhz", "watts", "limit_w", "default_limit_w", "celsius", "reasons")
        asked = "clocks.sm,clocks.max.sm,power.draw,enforced.power.limit,power.default_limit,temperature.gpu"
        words = iter(("clocks_event_reasons.active", "clocks_throttle_reasons.active"))
        chosen = [next(words)]

        def read() -> dict[str, float]:
            query = [f"--query-gpu={asked},{chosen[0]}", "--format=csv,noheader,nounits"]
            told = subprocess.run(
                [program, "-i", uuid or str(device.index), *query],
                capture_output=True, text=True, timeout=10, check=False,
            )  # fmt: skip
            if told.returncode and "valid field" in told.stdout + told.stderr:
                for word in words:  # The second is the name in drivers before 535.
                    chosen[0] = word
                    return read()
            if told.returncode:
                raise OSError(told.stdout.strip() or told.stderr.strip())
            found = {}
            for name, text in zip(names, told.stdout.strip().split(","), strict=True):
                with contextlib.suppress(ValueError):  # "[N/A]"
                    found[name] = float(int(text, 16) if "0x" in text else float(text))
            return found

        return read

    @staticmethod
    def _by_torch(device: torch.device, uuid: str) -> Callable[[], dict[str, float]]:  # noqa: ARG004
        return lambda: {
            "sm_mhz": torch.cuda.clock_rate(device),
            "watts": torch.cuda.power_draw(device) / 1e3,
            "celsius": torch.cuda.temperature(device),
        }

    @contextlib.contextmanager
    def sampled(self) -> Iterator[None]:
        """Sample while the work inside goes on."""
        self._samples, self._done = [], threading.Event()
        thread = threading.Thread(target=self._sample, daemon=True)
        if self._read is not None:
            thread.start()
        try:
            yield
        finally:
            self._done.set()
            if self._read is not None:
                thread.join(timeout=15)

    def _sample(self) -> None:
        while self._read is not None and not self._done.wait(self._period):
            try:
                self._samples.append(self._read())
            except Exception as error:  # noqa: BLE001 - as above
                self.why = f"{self.how} failed: {' '.join(str(error).split())[:120]}"
                return

    def told(self) -> dict[str, object]:
        """Return what was sampled last, or that it cannot be read and why."""
        if not self._samples:
            return {"how": "not readable", "why": self.why or "the work ended before the first sample"}
        found: dict[str, object] = {"how": self.how, "samples": len(self._samples)}
        for name in ("sm_mhz", "watts", "celsius"):
            values = [sample[name] for sample in self._samples if name in sample]
            if values:
                found[name] = [min(values), digits(statistics.median(values)), max(values)]
        for name in ("max_sm_mhz", "limit_w", "default_limit_w"):
            if name in self._samples[-1]:
                found[name] = digits(self._samples[-1][name])
        bits = [int(sample["reasons"]) for sample in self._samples if "reasons" in sample]
        if bits:
            shares = {name: sum(bool(b & bit) for b in bits) / len(bits) for bit, name in REASONS.items()}
            found["reasons"] = {name: digits(share) for name, share in shares.items() if share}
        return found


def address(known: Any) -> str:
    """Return where a device is on its machine's bus, "" where this torch does not tell."""
    domain, bus, place = (getattr(known, f"pci_{name}_id", None) for name in ("domain", "bus", "device"))
    return "" if None in (domain, bus, place) else f"{domain:08x}:{bus:02x}:{place:02x}.0"


def identity(device: torch.device) -> dict[str, object]:
    """Return what a device says of itself."""
    if device.type != "cuda":
        return {"kind": "cpu", "name": "CPU", "cpus": len(os.sched_getaffinity(0))}
    known = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    uuid = str(getattr(known, "uuid", "") or "")
    return {
        "kind": "hip" if torch.version.hip else "cuda",
        "name": known.name,
        "uuid": f"GPU-{uuid}" if uuid and "-" in uuid and not uuid.startswith(("GPU-", "MIG-")) else uuid,
        "bus": address(known),
        "index": device.index,
        "sms": known.multi_processor_count,
        "gib": digits(total / 2**30),
        "free_gib": digits(free / 2**30),
        "capability": getattr(known, "gcnArchName", "") or f"{known.major}.{known.minor}",
    }


def kind_of(error: BaseException) -> str:
    """Return whether memory was short, the device failed, or the program asked for what there is not."""
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError) or "out of memory" in text:
        return "memory"
    wrong = any(part in text for part in ("NOT_SUPPORTED", "no kernel image", "invalid device function"))
    return "device" if not wrong and ("CUDA error" in text or "HIP error" in text) else "program"
