"""Loads checkpoints on another number of ranks, and says what they hold, or why they cannot be loaded.

Run by torchrun on every rank, or alone. It looks at every folder `step-N`, at those without a commit mark too, and
prints one line `loaded` of each: `problem` is what loading raised, "" for nothing. Depends on torch alone.
"""

import argparse
import datetime as dt
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from checkpoint_model import Size, Trainer, device_of, shown
from gauges import kind_of
from lines import digits, place_in_world, say


def loaded(trainer: Trainer, path: Path) -> dict[str, Any]:
    """Return what a checkpoint holds, loaded by all ranks; where one fails all say so."""
    began, problem = time.perf_counter(), ""
    state = trainer.state()
    # What is not loaded must not be mistaken for it: the state is made zero before.
    for tensor in tensors(state):
        tensor.zero_()
    try:
        dcp.load({"app": state}, checkpoint_id=str(path))
        # `set_state_dict` is what training resumes by; the step number comes along.
        trainer.take(state)
    except (Exception, CheckpointException) as error:  # noqa: BLE001 - what a broken checkpoint raises is to be said
        problem = shown(error)
    seconds = time.perf_counter() - began
    failed = torch.tensor([1.0 if problem else 0.0])
    dist.all_reduce(failed)
    found: dict[str, Any] = {
        "problem": problem or ("another rank could not load it" if float(failed) else "")
    }
    if found["problem"]:
        return {**found, "step": -1, "digests": [], "seconds": digits(seconds)}
    # No step is taken from it: what a GPU has saved may be loaded on CPUs, where a step takes minutes.
    return {**found, "step": trainer.step, "digests": trainer.digests(), "seconds": digits(seconds)}


def tensors(state: Any) -> list[torch.Tensor]:
    """Return the tensors of a state that are split over ranks, as each has them."""
    if isinstance(state, dict):
        return [tensor for value in state.values() for tensor in tensors(value)]
    return [state] if isinstance(state, torch.Tensor) and state.ndim else []


def main() -> int:
    """Join the world, load, say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--width", type=int, default=8192)
    parser.add_argument("--format", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--moments", action="store_true")
    parser.add_argument("--within", type=float, default=180.0, help="seconds in which all ranks meet")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    args, who = parser.parse_args(), place_in_world()
    say("rank", program="checkpoint_load", torch=torch.__version__, **who)
    try:
        device = device_of(int(str(who["local_rank"])), cpu=args.cpu)
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "cpu:gloo"
        dist.init_process_group(backend, timeout=dt.timedelta(seconds=args.within))
        trainer = Trainer(Size(args.layers, args.width, args.format, args.moments), device, seed=99)
        folder = Path(args.folder)
        latest = folder / "latest"
        points = latest.read_text(encoding="utf-8").strip() if latest.is_file() else ""
        there = sorted((path for path in folder.glob("step-*") if path.is_dir()), key=lambda path: path.name)
        for path in there:
            say("loaded", name=path.name, how="other ranks", latest=points, complete=(path / ".metadata").is_file(),
                node=os.environ.get("GPUCLUSTER_NODE", ""), **loaded(trainer, path), **who)  # fmt: skip
        say("found", names=[path.name for path in there], latest=points, **who)
    except (Exception, CheckpointException) as error:  # noqa: BLE001 - whatever it is: one line tells it
        say("failed", kind=kind_of(error), during="loading", error=shown(error), **who)
        return 1
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
