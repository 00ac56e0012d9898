"""What the payload `gemm` measures, against a bare loop of the vendor's library in the same process.

Reference in the same run: the same product into the same memory, called in a loop with nothing else around it, timed by
the host between two synchronisations. Payload and loop take turns, so that both see a warm device. Without a GPU the
small form on a CPU runs, which says only that the program works.
"""

import argparse
import pathlib
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = 0.97
"""Least ratio of the payload's figure to the bare loop's, on a GPU."""
TURNS = 3


def bare(gemm: Any, name: str, n: int, device: Any, seconds: float) -> float:
    """Return TFLOP/s of a loop with nothing around it."""
    import torch

    once = gemm.Product(name, n, device).once

    def timed(count: int) -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        for _ in range(count):
            once()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - start

    each = timed(5) / 5
    count = max(1, round(seconds / 3 / each))
    timed(count)
    count = max(1, round(seconds / (timed(count) / count)))
    return float(count * 2 * n**3 / timed(count) / 1e12)


def main() -> int:
    """Print both figures of each format and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of each turn on a GPU")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("gemm: torch is not installed, nothing is measured")
        return 0
    sys.path.insert(0, str(ROOT))
    from payloads import gemm

    gpu = torch.cuda.is_available()
    device = torch.device("cuda", 0) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
        print(f"reference: a bare loop of the same product on {torch.cuda.get_device_name(device)}")
    else:
        print("no GPU: the small form on a CPU, its ratio is no target; reference: a bare loop")
    seconds = options.seconds if gpu else 0.4
    args = argparse.Namespace(
        seconds=seconds,
        warm=seconds / 2,
        most=4 * seconds,
        window=0.25 if gpu else 0.04,
        cv=0.02 if gpu else 0.5,
    )
    n = gemm.size_for(device)
    for name in gemm.formats(device):
        ratios, loops, figures = [], [], []
        for _ in range(TURNS if gpu else 1):
            loop = bare(gemm, name, n, device, seconds)
            found = gemm.measure(name, n, device, args, least=seconds)
            loops.append(loop)
            figures.append(found["tflops"]["median"])
            ratios.append(figures[-1] / loop)
        middle = sorted(ratios)[len(ratios) // 2]
        target = f"target at least {TARGET}" if gpu else "no target on a CPU"
        print(
            f"{name} {n}^3: payload {max(figures):.4g} TFLOP/s, bare loop {max(loops):.4g}, ratio {middle:.3f} "
            f"({target}; turns {', '.join(f'{ratio:.3f}' for ratio in ratios)})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
