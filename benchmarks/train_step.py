"""The training payload as it is shipped, against its plain loop in the same run.

Reference in the same run: the same model, batch and GPUs with `--plain`: no compiler, the default way of attention,
weights freed after each forward pass. Where the plain loop does not fit into memory, both take half the batch. Without
a GPU the small form on CPUs runs, which says only that the program works.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

TARGET = 0.52
"""Least model FLOPs utilisation on four H100 or H200."""
ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL = ("--cpu", "--layers=2", "--width=64", "--seq=64", "--vocab=256", "--steps=10", "--most=1", "--cv=1")


def train(ranks: int, *args: str) -> dict[str, Any]:
    """Return what rank 0 told, or how the run failed."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "--max-restarts=0",
        str(ROOT / "payloads" / "train_step.py"), *args,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    told = [
        json.loads(line[len("GPUCONF1 ") :])
        for line in done.stdout.splitlines()
        if line.startswith("GPUCONF1 ")
    ]
    for event in ("train", "failed"):
        found = [one for one in told if one["event"] == event]
        if found:
            return min(found, key=lambda one: int(one["rank"]))
    return {"event": "failed", "kind": "program", "error": done.stderr[-300:]}


def both(ranks: int, args: tuple[str, ...], batch: int) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return the plain loop's line and the shipped form's, with the batch that fits both."""
    while True:
        sized = (*args, f"--batch={batch}")
        plain = train(ranks, *sized, "--plain")
        if plain.get("kind") == "memory" and batch > 1:
            print(f"the plain loop does not fit with a batch of {batch}: half of it")
            batch //= 2
            continue
        return plain, train(ranks, *sized), batch


def share(told: dict[str, Any], peak: float | None) -> str:
    """Return speed, and utilisation where the peak is known."""
    if told["event"] != "train":
        return f"failed: {' '.join(str(told.get('error')).split())[:200]}"
    step = told["step_s"]["median"]
    text = f"{told['tflops']:.4g} TFLOP/s and {told['tokens_per_s']:.0f} tokens/s a rank, step {step * 1e3:.1f} ms"
    if peak:
        causal = told["tflops_causal"] / peak
        text += f", MFU {told['tflops'] / peak:.4f} of {peak:g} TFLOP/s ({causal:.4f} with half of attention)"
    return text


def main() -> int:
    """Print both figures and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=8, help="sequences of one GPU")
    options, more = parser.parse_known_args()
    try:
        import torch
    except ImportError:
        print("train_step: torch is not installed, nothing is measured")
        return 0
    gpus = torch.cuda.device_count()
    if gpus:
        from pytest_gpucluster.measure import peaks

        name = torch.cuda.get_device_name(0)
        peak = peaks.look_up(name).peak("bf16")
        known = "" if peak else ", whose peak is not known"
        print(f"reference: the plain loop on {gpus} x {name}{known}")
        args, batch = tuple(more), options.batch
    else:
        print("no GPU: the small form on CPUs, its ratio is no target; reference: the plain loop")
        peak, args, batch = None, (*SMALL, *more), 2
    plain, shipped, batch = both(gpus or 2, args, batch)
    print(f"plain, batch {batch}: {share(plain, peak)}")
    print(f"shipped, batch {batch}: {share(shipped, peak)}")
    if "failed" in (plain["event"], shipped["event"]):
        return 1
    target = f"; target MFU {TARGET}" if gpus else ""
    print(f"shipped against plain: {shipped['tflops'] / plain['tflops']:.3f}{target}")
    if shipped.get("breakdown_ms"):
        print(f"    kernels, ms a step: {shipped['breakdown_ms']}")
    print(f"    {shipped['how']}; FLOPs a token {shipped['flop_per_token']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
