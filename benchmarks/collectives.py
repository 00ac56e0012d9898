"""What the payload's way of timing costs: its all-reduce against a bare loop of torch.distributed in the same run.

Both are measured in turn in one world of ranks on this machine. The reference is the plainest loop there is: settle,
start, all-reduce again and again, settle, stop. The payload times each round by events of its own. Beside the ratio
stands how long a rank takes from its start to its first checked collective.

    python benchmarks/collectives.py [--ranks 4] [--size 1G] [--rounds 5] [--device cpu]

Needs two GPUs or more, and torch that sees them; `--device cpu` runs over gloo with 4 MiB, where the ratio says little.
The ratio to keep, for 1 GiB, is 0.98.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = 0.98
WORKER = "BENCH_COLLECTIVES"


def bare(world: Any, tensor: Any, count: int) -> float:
    """Return the seconds of one all-reduce in a plain loop."""
    import torch.distributed as dist

    dist.barrier()
    world.settle()
    begun = time.perf_counter()
    for _ in range(count):
        dist.all_reduce(tensor)
    world.settle()
    return (time.perf_counter() - begun) / count


def work(args: argparse.Namespace) -> int:
    """Measure both in one rank; rank 0 prints."""
    sys.path.insert(0, str(ROOT))
    import torch
    import torch.distributed as dist

    from payloads import collectives as payload

    world = payload.World(args.device)
    dist.init_process_group(world.backend, **({"device_id": world.device} if world.gpu else {}))
    op = payload.Op(world, "all_reduce", payload.size_of(args.size))
    wrong = op.check(0)
    world.settle()
    first = payload.running_for("self")
    op.into.zero_()
    for _ in range(3):
        op.start()
    world.settle()
    ours, plain = [], []
    for _ in range(args.rounds):
        plain.append(bare(world, op.into, args.count))
        ours.append(payload.timed(world, op.start, args.count)[1])
    if world.rank == 0:
        told = {
            "ranks": world.size, "bytes": op.size, "factor": op.factor, "ours": ours, "bare": plain, "first": first,
            "device": torch.cuda.get_device_name() if world.gpu else "cpu", "torch": torch.__version__, "wrong": wrong,
        }  # fmt: skip
        print(json.dumps(told), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0


def missing(device: str) -> tuple[str, int]:
    """Return what is missing here, "" for nothing, and how many GPUs there are."""
    try:
        import torch
    except ImportError:
        return "torch is not installed: pip install pytest-gpucluster[torch]", 0
    count = torch.cuda.device_count()
    if device == "gpu" and count < 2:
        return f"torch sees {count} GPUs here, two or more are needed (--device cpu tries it without)", count
    return "", count


def main() -> int:
    """Start the ranks and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["gpu", "cpu"], default="gpu")
    parser.add_argument(
        "--ranks", type=int, default=0, help="ranks; all GPUs, or two on CPUs, where it is left out"
    )
    parser.add_argument("--size", default="", help="bytes such as 1G")
    parser.add_argument("--count", type=int, default=20, help="all-reduces a round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    args.size = args.size or ("1G" if args.device == "gpu" else "4M")
    if os.environ.get(WORKER):
        return work(args)
    lacks, gpus = missing(args.device)
    if lacks:
        print(f"collectives: not measured: {lacks}")
        return 0
    ranks = args.ranks or (gpus if args.device == "gpu" else 2)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", __file__,
        f"--device={args.device}", f"--size={args.size}", f"--count={args.count}", f"--rounds={args.rounds}",
    ]  # fmt: skip
    env = {**os.environ, WORKER: "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
    line = next((one for one in done.stdout.splitlines() if one.startswith("{")), "")
    if done.returncode or not line:
        print(f"collectives: the ranks ended with {done.returncode}\n{done.stdout}")
        return 1
    told = json.loads(line)
    ours, plain = statistics.median(told["ours"]), statistics.median(told["bare"])
    rates = [told["bytes"] / one * told["factor"] / 1e9 for one in (ours, plain)]
    print(
        f"all_reduce of {args.size} over {told['ranks']} ranks, {told['device']}, torch {told['torch']}: "
        f"payload {rates[0]:.2f} GB/s, bare loop {rates[1]:.2f} GB/s (bus bandwidth), "
        f"ratio {plain / ours:.3f} (to keep on GPUs, 1 GiB: {TARGET})"
    )
    print(f"first checked collective {told['first']} s after a rank's start; {told['wrong']} wrong elements")
    return 0


if __name__ == "__main__":
    sys.exit(main())
