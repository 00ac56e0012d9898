"""Trains a model, saves it sharded, once while training waits and once beside it, and measures its storage.

Run by torchrun on every rank, with a folder that all ranks share. What it prints: `rank` at the start; `saved` for each
checkpoint with what this rank wrote and how its memory grew; `paused` for the asynchronous one with the times of the
steps around it; `storage` with raw bytes written and read back, on one node alone and on all at once. Depends on torch
alone. Lines as in `lines.py`.
"""

import argparse
import datetime as dt
import itertools
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

import checkpoint_storage as storage
from checkpoint_model import Size, Trainer, device_of, shown
from gauges import kind_of
from lines import digits, place_in_world, say

STEADY = 10
"""Steps whose median is a step without a save."""


class Run:
    """One rank that saves into a folder."""

    def __init__(self, args: argparse.Namespace, who: dict[str, object]) -> None:
        """Join the world and build the model."""
        self.args, self.who, self.during = args, who, "training"
        self.device = device_of(int(str(who["local_rank"])), cpu=args.cpu)
        cuda = self.device.type == "cuda"
        backend = "cpu:gloo,cuda:nccl" if cuda else "cpu:gloo"
        dist.init_process_group(backend, timeout=dt.timedelta(seconds=args.within))
        self.local = int(str(who["local_rank"]))
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.size = Size(args.layers, args.width, args.format, args.moments)
        self.trainer = Trainer(self.size, self.device, seed=args.seed)
        # The saving thread has a group of its own: its collectives would cross those of training.
        self.saving = dist.new_group(backend="gloo")
        self.memory = storage.Memory()

    def train(self, steps: int) -> list[float]:
        """Take some steps; returns the seconds of each."""
        times = []
        for _ in range(steps):
            began = time.perf_counter()
            self.trainer.train()
            self.settle()
            times.append(time.perf_counter() - began)
        return times

    def settle(self) -> None:
        """Wait until the device has done what it was told."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def most(self, value: float) -> float:
        """Return the largest of a figure over all ranks."""
        told = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(told, dist.ReduceOp.MAX)
        return float(told)

    def save(self, folder: Path) -> None:
        """Save while training waits, and say what this rank wrote, and how its memory grew."""
        path, digests = folder / f"step-{self.trainer.step}", self.trainer.digests()
        state = self.trainer.state()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        device = torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else 0
        before = storage.written()
        self.memory.begin()
        # After it: giving memory back takes ranks differently long, which is none of the save's time.
        dist.barrier()
        began = time.perf_counter()
        dcp.save({"app": state}, checkpoint_id=str(path))
        seconds = time.perf_counter() - began
        grown = self.memory.growth()
        handed = -1 if before < 0 else storage.written() - before
        more = torch.cuda.max_memory_allocated(self.device) - device if self.device.type == "cuda" else 0
        dist.barrier()
        if self.rank == 0:
            storage.move(folder / "latest", path.name)
        self.told(path, "sync", digests, seconds=digits(seconds), handed=handed,
                  memory={"how": self.memory.how, "growth": grown, "device": more})  # fmt: skip
        self.read_back(path, state)

    def read_back(self, path: Path, state: dict[str, Any]) -> None:
        """Load what was saved with a cold cache on the same ranks, and say how long it took."""
        left = storage.drop(sorted(path.glob(f"__{self.rank}_*.distcp")))
        dist.barrier()
        began = time.perf_counter()
        dcp.load({"app": state}, checkpoint_id=str(path))
        self.settle()
        seconds = time.perf_counter() - began
        dist.barrier()
        say("read", step=self.trainer.step, seconds=digits(seconds), cached=left, digests=self.trainer.digests(),
            **self.who)  # fmt: skip

    def told(self, path: Path, how: str, digests: list[str], **more: Any) -> None:
        """Say what a checkpoint holds and what of it this rank wrote."""
        own = sum(
            tensor.to_local().nbytes if hasattr(tensor, "to_local") else 0
            for tensor in parts(self.trainer.state())
        )
        there = sorted(path.iterdir()) if path.is_dir() else []
        files = {file.name: file.stat().st_size for file in there if file.is_file()}
        mine = {name: size for name, size in files.items() if name.startswith(f"__{self.rank}_")}
        say("saved", step=int(path.name.partition("-")[2]), how=how, files=mine, all=len(files),
            complete=".metadata" in files, own=own, model=self.size.bytes, weights=self.size.weights,
            digests=digests, mount=storage.mount(path if path.is_dir() else path.parent),
            torch=torch.__version__, **more, **self.who)  # fmt: skip

    def stager(self) -> Any:
        """Return what copies the state of a GPU to pinned memory, which it has made once; None for torch's default."""
        if self.device.type != "cuda":
            return None
        try:
            from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions  # noqa: PLC0415
        except ImportError:
            return None
        made = DefaultStager(StagingOptions(use_pinned_memory=True, use_shared_memory=False))
        # Pinning takes longer than copying, and is paid by the first save of a run alone.
        made.stage({"app": self.trainer.state()}).result()
        return made

    def save_beside(self, folder: Path) -> None:
        """Save asynchronously while training goes on; say how long training stood still."""
        usual = self.train(STEADY)
        step, digests = self.trainer.step, self.trainer.digests()
        path, stager = folder / f"step-{step}", self.stager()
        more: dict[str, Any] = {"checkpoint_id": str(path), "process_group": self.saving}
        more |= {"async_stager": stager} if stager is not None else {}
        dist.barrier()
        asked = time.perf_counter()
        answer = dcp.async_save({"app": self.trainer.state()}, **more)
        # With a stager of its own the call returns before the copy is made: weights must stay until then.
        copied = getattr(answer, "staging_completion", None)
        future = getattr(answer, "upload_completion", answer)
        returned, early = time.perf_counter(), not future.done()
        ends, finished = [asked], 0.0
        # All ranks take the same steps: whether all have written is asked of all.
        while True:
            self.trainer.train(copied.result if copied is not None else bool)
            self.settle()
            ends.append(time.perf_counter())
            done = self.most(0.0 if future.done() else 1.0) == 0.0
            finished = finished or (ends[-1] if future.done() else 0.0)
            if done:
                break
        future.result()
        dist.barrier()
        if self.rank == 0:
            storage.move(folder / "latest", path.name)
        later = self.trainer.digests()
        during = [b - a for a, b in itertools.pairwise(ends)]
        self.told(path, "async", digests, seconds=digits(finished - asked), handed=-1, later=later,
                  memory={"how": "not measured", "growth": -1, "device": -1})  # fmt: skip
        say("paused", step=step, call=digits(returned - asked), early=early, usual=digits(statistics.median(usual)),
            usual_most=digits(max(usual)), longest=digits(max(during)), steps=len(during),
            took=digits(finished - asked), **self.who)  # fmt: skip

    def save_local(self, folder: Path) -> None:
        """Save to the disk of each node, and leave a manifest of all nodes' files for whoever copies them."""
        self.train(1)
        digests, path = self.trainer.digests(), folder / f"step-{self.trainer.step}"
        # The list of all files is written on each node, also on one that has none of them.
        path.mkdir(parents=True, exist_ok=True)
        dist.barrier()
        began = time.perf_counter()
        dcp.save({"app": self.trainer.state()}, checkpoint_id=str(path))
        seconds = time.perf_counter() - began
        self.told(path, "local", digests, seconds=digits(seconds), handed=-1,
                  memory={"how": "not measured", "growth": -1, "device": -1})  # fmt: skip
        mine = {file.name: file.stat().st_size for file in path.glob(f"__{self.rank}_*.distcp")}
        if self.rank == 0:
            mine[".metadata"] = (path / ".metadata").stat().st_size
        each: list[dict[str, int]] = [{} for _ in range(self.world)]
        dist.all_gather_object(each, mine, group=self.saving)
        if self.local == 0:
            files = {name: size for part in each for name, size in part.items()}
            storage.move(path / "MANIFEST.json", json.dumps({"files": files, "at": time.monotonic()}))

    def measure(self, folder: Path) -> None:
        """Write and read raw bytes, as many as the checkpoint has here: on one node alone, then on all at once."""
        node = int(os.environ.get("GROUP_RANK", "0"))
        size = self.args.raw or self.size.bytes // self.world
        for part in ("alone", "together"):
            found: dict[str, Any] = {"bytes": 0}
            path = folder / f"raw-{self.rank}"
            active = part == "together" or node == 0
            dist.barrier()
            if active:
                times, check = storage.raw_write(path, size, self.args.seed * 1000 + self.rank)
                found = {"bytes": size, "write": sum(times), "write_most": max(times), "crc": check}
            dist.barrier()
            if active:
                found["cached"] = storage.drop([path])
            dist.barrier()
            if active:
                times, check = storage.raw_read(path)
                found |= {"read": sum(times), "read_most": max(times), "same": check == found.pop("crc")}
                path.unlink()
            dist.barrier()
            told = {key: digits(value) if isinstance(value, float) else value for key, value in found.items()}
            say("storage", part=part, node_rank=node, mount=storage.mount(folder), **told, **self.who)

    def go(self) -> None:
        """Do all of it."""
        folder = Path(self.args.folder)
        if self.rank == 0:
            folder.mkdir(parents=True, exist_ok=True)
        dist.barrier()
        self.train(STEADY)
        self.during = "saving"
        self.save(folder)
        if self.args.beside:
            self.during = "saving beside training"
            self.save_beside(folder)
        if self.args.disk:
            self.during = "saving to the node's disk"
            self.save_local(Path(self.args.disk))
        self.during = "measuring storage"
        if not self.args.keep and self.rank == 0:
            shutil.rmtree(folder / f"step-{STEADY}")
        self.measure(folder)


def parts(state: Any) -> list[torch.Tensor]:
    """Return the tensors of a state that are split over ranks."""
    if isinstance(state, dict):
        return [tensor for value in state.values() for tensor in parts(value)]
    return [state] if isinstance(state, torch.Tensor) and state.ndim else []


def arguments() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True, help="folder that all ranks share")
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--width", type=int, default=8192)
    parser.add_argument("--format", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--moments", action="store_true", help="two moments of AdamW for each weight")
    parser.add_argument(
        "--raw", type=int, default=0, help="raw bytes of each rank; 0: as many as its shard has"
    )
    parser.add_argument("--beside", action="store_true", help="save asynchronously too")
    parser.add_argument(
        "--disk", default="", help="folder on the disk of each node, to which a save goes as well"
    )
    parser.add_argument("--keep", action="store_true", help="keep the first checkpoint")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, default=180.0, help="seconds in which all ranks meet")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    return parser.parse_args()


def main() -> int:
    """Join the world, train, save, measure, say."""
    args, who = arguments(), place_in_world()
    say("rank", program="checkpoint", torch=torch.__version__, **who)
    running = None
    try:
        running = Run(args, who)
        running.go()
    except (Exception, CheckpointException) as error:  # noqa: BLE001 - whatever it is: one line tells it
        say(
            "failed",
            kind=kind_of(error),
            during=running.during if running else "meeting",
            error=shown(error),
            **who,
        )
        return 1
    say("done", **who)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
