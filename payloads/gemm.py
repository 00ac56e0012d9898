"""How fast each GPU multiplies matrices for as long as it must: one line a rank, measured on all ranks at once.

Run by torchrun, or alone. Each number format that the device has is measured by itself: warm-up, then windows of
products timed by device events until they are steady. Operands are normal random numbers, since zeros draw less power
and run faster than training does. Beside it clock, power, temperature and the reasons why clocks are held back are
read. Ranks meet over gloo before each format, so that a fault of the fabric is none of this program. Without a GPU
the same is done small, in fp32. Depends on torch alone. Lines as in `lines.py`.
"""

import argparse
import datetime as dt
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from gauges import Gauges, identity, kind_of, spread, variation
from lines import digits, say

STEADY_WINDOWS = 10
"""So many last windows decide whether the speed is steady."""
TOLERANCE = {"fp32": 1e-4, "tf32": 1 / 256, "fp16": 1 / 256, "bf16": 1 / 128, "fp8": 1 / 32}
"""Largest error of a product, as part of its largest element."""


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
