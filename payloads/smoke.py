"""The documented smoke loop, product and all-reduce, with the right count of FLOPs: per rank, 2 N^3 a product.

Run by torchrun, or alone. The formula in the documents counts each product twice and divides by the number of ranks,
although every rank does the whole product: it tells 2/world of the truth. Both figures are told. The products are also
timed without the all-reduce, since a loop that waits for the wires says little of the GPU. The sum is compared with
the sum of what each rank should have. NCCL where there are GPUs, gloo elsewhere, where the loop is small and in fp32.
Depends on torch alone. Lines as in `lines.py`.
"""

import argparse
import datetime as dt
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from lines import digits, place_in_world, say

TILE = 64
"""Side of the corner of the sum that is compared."""
TOLERANCE = {"bf16": 1 / 32, "fp32": 1e-4}
"""Largest error of the sum, as part of its largest element; bf16 is rounded at each addition."""


def operands(n: int, rank: int, device: torch.device, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the two matrices of a rank: normal random numbers, others on each rank, the same in each run."""
    maker = torch.Generator().manual_seed(1 + rank)
    w, x = (torch.randn(n, n, generator=maker).to(device, kind) for _ in range(2))
    return w, x


def timed(once: Callable[[], object], steps: int, device: torch.device) -> float:
    """Return the seconds of some steps, all ranks beginning and ending together."""

    def settle() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        dist.barrier()

    settle()
    start = time.perf_counter()
    for _ in range(steps):
        once()
    settle()
    return time.perf_counter() - start


def error_of(total: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> float:
    """Return by how much a corner of the sum is wrong, as part of its largest element."""
    right = x[:TILE].float() @ w[:, :TILE].float()
    dist.all_reduce(right)
    got = total[:TILE, :TILE].float()
    return float((got - right).abs().max() / right.abs().max())


def loop(args: argparse.Namespace, rank: int, device: torch.device) -> dict[str, Any]:
    """Do the documented loop, and the products alone; returns what the line tells."""
    n, steps, world = args.size, args.steps, dist.get_world_size()
    name = "bf16" if device.type == "cuda" else "fp32"
    w, x = operands(n, rank, device, torch.bfloat16 if name == "bf16" else torch.float32)
    y = torch.empty_like(w)

    def once() -> None:
        torch.mm(x, w, out=y)
        dist.all_reduce(y)

    # First uses make handles, buffers and connections, which the documented loop counts as its own time.
    for _ in range(args.warm):
        once()
    seconds = timed(once, steps, device)
    error = error_of(y, w, x)
    alone = timed(lambda: torch.mm(x, w, out=y), steps, device)
    flop = steps * 2 * n**3
    return {
        "n": n,
        "steps": steps,
        "format": name,
        "flop_per_product": 2 * n**3,
        "seconds": digits(seconds),
        "tflops": digits(flop / seconds / 1e12),
        "tflops_documented": digits(2 * flop / seconds / world / 1e12),
        "documented_by_right": digits(2 / world),
        "product_seconds": digits(alone),
        "product_tflops": digits(flop / alone / 1e12),
        "error": digits(error),
        "right": error <= TOLERANCE[name],
    }


def main() -> int:
    """Join the world, do the loop, tell; returns 0 when the sum was right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--size", type=int, default=0, help="side of the matrices; default 8192, without a GPU 512"
    )
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warm", type=int, default=5, help="steps before the clock starts")
    parser.add_argument("--within", type=float, default=120.0, help="seconds in which all ranks meet")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    args = parser.parse_args()
    who = place_in_world()
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    gpus = 0 if args.cpu else torch.cuda.device_count()
    args.size = args.size or (8192 if gpus else 512)
    backend = "nccl" if gpus else "gloo"
    # Said before the group forms: in a hang it is the only evidence of who was there.
    say("rank", program="smoke", torch=torch.__version__, gpus=gpus, backend=backend, **who)
    if gpus and local >= gpus:
        error = f"local rank {local} has no GPU, {gpus} are visible"
        say("failed", kind="device", during="start", error=error, **who)
        return 1
    device = torch.device("cuda", local) if gpus else torch.device("cpu")
    during = "meeting"
    try:
        if gpus:
            torch.cuda.set_device(device)
        dist.init_process_group(backend, timeout=dt.timedelta(seconds=args.within))
        dist.barrier()
        during = "loop"
        told = loop(args, rank, device)
    except Exception as error:  # noqa: BLE001 - whatever it is: one line tells it
        kind = (
            "memory"
            if isinstance(error, torch.OutOfMemoryError)
            else "meeting"
            if during == "meeting"
            else "program"
        )
        say("failed", kind=kind, during=during, error=" ".join(str(error).split())[:300], **who)
        return 1
    name = torch.cuda.get_device_name(device) if gpus else "CPU"
    kind = "cpu" if not gpus else "hip" if torch.version.hip else "cuda"
    say("smoke", device={"kind": kind, "name": name}, backend=backend, **told, **who)
    dist.barrier()
    dist.destroy_process_group()
    return 0 if told["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
