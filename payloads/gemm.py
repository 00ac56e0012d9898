"""How fast each GPU multiplies matrices for as long as it must: one line a rank, measured on all ranks at once.

Run by torchrun, or alone. Each number format that the device has is measured by itself: warm-up, then windows of
products timed by device events until they are steady. Operands are normal random numbers, since zeros draw less power
and run faster than training does. Beside it clock, power, temperature and the reasons why clocks are held back are
read. Ranks meet over gloo before each format, so that a fault of the fabric is none of this program. Without a GPU
the same is done small, in fp32. Depends on torch alone. Lines as in `gang.py`.
"""

import argparse
import contextlib
import datetime as dt
import importlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

STEADY_WINDOWS = 10
"""So many last windows decide whether the speed is steady."""
TOLERANCE = {"fp32": 1e-4, "tf32": 1 / 256, "fp16": 1 / 256, "bf16": 1 / 128, "fp8": 1 / 32}
"""Largest error of a product, as part of its largest element."""
REASONS = {
    0x1: "idle", 0x2: "application_clocks", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "hw_power_brake", 0x100: "display_clocks",
}  # fmt: skip
"""Bits of NVML's reasons for clocks below their maximum."""


def say(event: str, **fields: object) -> None:
    """Write one event as one line in one write of less than 4096 bytes."""
    told = {
        "run": os.environ.get("GPUCLUSTER_RUN", ""),
        "attempt": int(os.environ.get("GPUCLUSTER_ATTEMPT", "0")),
        "event": event,
        "pod": os.environ.get("GPUCLUSTER_POD", socket.gethostname()),
        "container": os.environ.get("GPUCLUSTER_CONTAINER", ""),
        "t": round(time.time(), 3),
        **fields,
    }
    os.write(1, f"GPUCONF1 {json.dumps(told, separators=(',', ':'))}\n".encode())


def digits(value: float) -> float:
    """Return a number with five significant digits: a line must stay short."""
    return float(f"{value:.5g}")


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


def formats(device: torch.device) -> list[str]:
    """Return the number formats that a device has matrix units for; the first is the one that floors are about."""
    if device.type != "cuda":
        return ["fp32"]
    if torch.version.hip:
        arch = torch.cuda.get_device_properties(device).gcnArchName
        return ["bf16", "fp16", "fp8"] if arch.startswith(("gfx94", "gfx95")) else ["bf16", "fp16"]
    capability = torch.cuda.get_device_capability(device)
    if capability < (8, 0):
        return ["fp16"]
    return ["bf16", "fp16", "tf32", *(["fp8"] if capability >= (8, 9) else [])]


def size_for(device: torch.device) -> int:
    """Return the side of the matrices: large enough to fill the device, small enough for its memory."""
    if device.type != "cuda":
        return 512
    known = torch.cuda.get_device_properties(device)
    large = known.multi_processor_count >= 80 and torch.cuda.mem_get_info(device)[0] >= 8 * 2**30
    return 8192 if large else 4096


class Product:
    """One product of two square matrices of a format, done again and again into the same memory."""

    def __init__(self, name: str, n: int, device: torch.device) -> None:
        """Make the operands of normal random numbers."""
        self.name, self.n = name, n
        maker = torch.Generator(device=device).manual_seed(1 + int(os.environ.get("RANK", "0")))
        a, b = (torch.randn(n, n, device=device, generator=maker) for _ in range(2))
        self.once: Callable[[], torch.Tensor]
        if name == "fp8":
            arch = getattr(torch.cuda.get_device_properties(device), "gcnArchName", "")
            kind = torch.float8_e4m3fnuz if arch.startswith("gfx94") else torch.float8_e4m3fn
            # The second operand is stored by columns, as the units want it.
            self.a, self.b = a.to(kind), b.t().contiguous().to(kind).t()
            one = torch.ones((), device=device)
            self.once = lambda: torch._scaled_mm(  # noqa: SLF001 - the public name came with torch 2.10
                self.a, self.b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
            )
            return
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name, torch.float32)
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        self.a, self.b = a.to(kind), b.to(kind)
        out = torch.empty(n, n, device=device, dtype=kind)
        self.once = lambda: torch.mm(self.a, self.b, out=out)

    def error(self) -> float:
        """Return by how much a tile of a product is wrong, as part of its largest element."""
        tile = min(self.n, 128)
        got = self.once()[-tile:, -tile:].double()
        right = self.a[-tile:].float().double() @ self.b[:, -tile:].float().double()
        return float((got - right).abs().max() / right.abs().max())


class Stopwatch:
    """Times on the device's own clock: events on a GPU, the host's clock on a CPU."""

    def __init__(self, device: torch.device) -> None:
        """Take the device."""
        self._cuda = device.type == "cuda"

    def mark(self) -> Any:
        """Return a point of time, after all that was asked for so far."""
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        """Return the seconds between two points, once the second has come."""
        if not self._cuda:
            return float(end - start)
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3


def variation(values: list[float]) -> float:
    """Return the coefficient of variation."""
    return statistics.pstdev(values) / statistics.fmean(values) if values else 0.0


def sustained(
    once: Callable[[], object],
    device: torch.device,
    *,
    warm: float,
    least: float,
    most: float,
    window: float,
    cv: float,
) -> dict[str, Any]:
    """Do something again and again until windows of it are steady.

    Args:
        once: what is done.
        device: where.
        warm: seconds before anything counts.
        least: seconds that are measured at least.
        most: seconds after which it ends, steady or not.
        window: seconds of a window.
        cv: coefficient of variation below which the last windows are steady.

    Returns:
        `times` in seconds of each window, `each` repetitions in one, seconds by the host's clock, whether steady.
    """
    watch = Stopwatch(device)
    began = time.perf_counter()
    count, took, each = 1, 0.0, 1
    while time.perf_counter() - began < warm or took < window / 4:
        start = watch.mark()
        for _ in range(count):
            once()
        took = watch.between(start, watch.mark())
        each = max(1, round(count * window / max(took, 1e-9)))
        count = each if took >= window / 8 else min(each, count * 4)
    times: list[float] = []
    host = time.perf_counter()
    marks = [watch.mark()]
    steady = False
    while sum(times) < most:
        for _ in range(each):
            once()
        marks.append(watch.mark())
        # One window is always under way while the one before it is read, so that the device never waits.
        if len(marks) > 2:
            times.append(watch.between(marks[-3], marks[-2]))
        steady = len(times) >= STEADY_WINDOWS and variation(times[-STEADY_WINDOWS:]) < cv
        if steady and sum(times) >= least:
            break
    times.append(watch.between(marks[-2], marks[-1]))
    return {"times": times, "each": each, "wall": time.perf_counter() - host, "steady": steady}


def measure(
    name: str, n: int, device: torch.device, args: argparse.Namespace, *, least: float
) -> dict[str, Any]:
    """Measure one format; returns what the line tells of it."""
    product = Product(name, n, device)
    before = product.error()
    warm = args.warm if least >= args.seconds else args.warm / 3
    found = sustained(
        product.once,
        device,
        warm=warm,
        least=least,
        most=max(args.most, least),
        window=args.window,
        cv=args.cv,
    )
    after = product.error()
    worst = max(before, after) if before == before else before  # noqa: PLR0124 - NaN differs from itself
    flop = 2 * n**3
    times: list[float] = found["times"]
    return {
        "n": n,
        "products": found["each"] * len(times),
        "seconds": digits(sum(times)),
        "wall": digits(found["wall"]),
        "windows": len(times),
        "tflops": spread([flop * found["each"] / t / 1e12 for t in times]),
        "cv": digits(variation(times[-STEADY_WINDOWS:])),
        "steady": found["steady"],
        "error": digits(worst),
        "right": worst <= TOLERANCE[name],
    }


def kind_of(error: BaseException) -> str:
    """Return whether memory was short, the device failed, or the program asked for what there is not."""
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError) or "out of memory" in text:
        return "memory"
    wrong = any(part in text for part in ("NOT_SUPPORTED", "no kernel image", "invalid device function"))
    return "device" if not wrong and ("CUDA error" in text or "HIP error" in text) else "program"


def join_world(seconds: float) -> bool:
    """Form a group over gloo with the other ranks; False for a process that runs alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return False
    dist.init_process_group("gloo", timeout=dt.timedelta(seconds=seconds))
    return True


def main() -> int:
    """Measure each format on all ranks at once; returns 0 when every product of this rank was right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--formats", default="", help="formats by commas; default: those of the device")
    parser.add_argument("--size", type=int, default=0, help="side of the matrices; default: by the device")
    parser.add_argument("--seconds", type=float, default=10.0, help="least seconds of the first format")
    parser.add_argument("--others", type=float, default=3.0, help="least seconds of each other format")
    parser.add_argument(
        "--most", type=float, default=30.0, help="most seconds of a format that does not get steady"
    )
    parser.add_argument("--warm", type=float, default=6.0, help="seconds of warm-up of the first format")
    parser.add_argument("--window", type=float, default=0.25, help="seconds of a window")
    parser.add_argument("--cv", type=float, default=0.02, help="variation below which windows are steady")
    parser.add_argument("--within", type=float, default=120.0, help="seconds in which all ranks meet")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    args = parser.parse_args()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    gpus = 0 if args.cpu else torch.cuda.device_count()
    who: dict[str, object] = {"rank": rank, "world": world, "local_rank": local, "host": socket.gethostname()}
    # Said before anything is measured: who says no more after it is found by it.
    say("rank", program="gemm", torch=torch.__version__, gpus=gpus, **who)
    if gpus and local >= gpus:
        say(
            "failed",
            kind="device",
            during="start",
            error=f"local rank {local} has no GPU, {gpus} are visible",
            **who,
        )
        return 1
    device = torch.device("cuda", local) if gpus else torch.device("cpu")
    results: dict[str, Any] = {}
    gauges: dict[str, Any] = {}
    fault = ""
    step, itself = "start", {}
    try:
        if gpus:
            torch.cuda.set_device(device)
        itself = identity(device)
        meter = Gauges(device, str(itself.get("uuid") or ""))
        step = "meeting"
        together = join_world(args.within)
        chosen = [name for name in args.formats.split(",") if name] or formats(device)
        n = args.size or size_for(device)
        for at, name in enumerate(chosen):
            step = "meeting"
            if together:
                dist.monitored_barrier(timeout=dt.timedelta(seconds=args.within))
            if fault:
                continue  # This device is lost; the others still measure, and wait for this rank.
            step = name
            try:
                with meter.sampled():
                    results[name] = measure(name, n, device, args, least=args.others if at else args.seconds)
                if not gauges:
                    gauges = meter.told()
            except (RuntimeError, NotImplementedError, AttributeError) as error:
                text = " ".join(str(error).split())[:300]
                if name == "fp8" and kind_of(error) == "program":
                    results[name] = {"absent": text[:120]}
                    continue
                fault = text
                say("failed", kind=kind_of(error), during=name, error=text, device=itself, **who)
        step = "meeting"
        if together:
            dist.monitored_barrier(timeout=dt.timedelta(seconds=args.within))
            dist.destroy_process_group()
    except Exception as error:  # noqa: BLE001 - whatever it is: one line tells it
        kind = "meeting" if step == "meeting" else kind_of(error)
        say("failed", kind=kind, during=step, error=" ".join(str(error).split())[:300], device=itself, **who)
        return 1
    if fault:
        return 1
    say("gemm", device=itself, gauges=gauges, results=results, torch=torch.__version__, **who)
    return 0 if all(one.get("right", True) for one in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
