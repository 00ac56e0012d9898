"""The checkpoint payload as it is shipped, against a bare loop of torch.distributed.checkpoint in the same run.

Both save the same state, in turn, on the same ranks, to the same folder; each checkpoint is deleted before the next one
is written, so that a small disk suffices. Beside them: raw writes and reads of as many bytes, and the pause of an
asynchronous save as part of the synchronous one. On GPUs the model has about 3 billion weights; without a GPU a small
one is saved on CPUs.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

TARGET, PAUSE = 0.90, 0.10
"""Least speed of the payload against the bare loop; most pause of an asynchronous save against a synchronous one."""
ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL = ("--cpu", "--layers=8", "--width=1024", "--format=fp32", "--moments")


def bare(run: Any, folder: pathlib.Path) -> float:
    """Return the seconds of the slowest rank in a bare save."""
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    state = run.trainer.state()
    dist.barrier()
    began = time.perf_counter()
    dcp.save({"app": state}, checkpoint_id=str(folder / "bare"))
    return float(run.most(time.perf_counter() - began))


def worker(folder: pathlib.Path, rounds: int, args: list[str]) -> int:
    """Measure on one rank; rank 0 prints."""
    sys.path.insert(0, str(ROOT / "payloads"))
    import torch.distributed as dist

    import checkpoint
    import checkpoint_storage as storage
    from lines import place_in_world

    told: list[tuple[str, dict[str, Any]]] = []
    checkpoint.say = lambda event, **fields: told.append((event, fields))
    sys.argv = ["checkpoint", f"--folder={folder}", *args]
    options, who = checkpoint.arguments(), place_in_world()
    run = checkpoint.Run(options, who)
    run.train(2)
    found: dict[str, list[float]] = {"shipped": [], "bare": [], "load": [], "write": [], "read": []}
    own = run.size.bytes // run.world

    def emptied() -> None:
        dist.barrier()
        if run.rank == 0:
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        dist.barrier()

    for number in range(rounds):
        # Whoever is first writes to a disk that is idle: the two take turns at it.
        for kind in ("shipped", "bare") if number % 2 else ("bare", "shipped"):
            if kind == "bare":
                found["bare"].append(bare(run, folder))
            else:
                run.save(folder)
                found["shipped"].append(run.most([f["seconds"] for e, f in told if e == "saved"][-1]))
                found["load"].append(run.most([f["seconds"] for e, f in told if e == "read"][-1]))
            emptied()
        path = folder / f"raw-{run.rank}"
        found["write"].append(run.most(sum(storage.raw_write(path, own, number)[0])))
        left = storage.drop([path])
        found["read"].append(run.most(sum(storage.raw_read(path)[0])))
        emptied()
    run.save_beside(folder)
    paused = [f for e, f in told if e == "paused"][-1]
    pause = max(0.0, run.most(paused["longest"] - paused["usual"]))
    emptied()
    if run.rank == 0:
        show(run, found, pause, left, storage.mount(folder))
    dist.barrier()
    dist.destroy_process_group()
    return 0


def show(run: Any, found: dict[str, list[float]], pause: float, left: int, mount: dict[str, object]) -> None:
    """Print the figures of the whole machine."""
    size = run.size.bytes
    print(f"{run.size.weights / 1e9:.3g} B weights, {size / 1e9:.3g} GB on {run.world} ranks of {run.device.type}, "
          f"{mount['fs']} ({mount['source']}), {left} bytes cached before reading")  # fmt: skip
    for name, what in (("shipped", "save, payload"), ("bare", "save, bare loop"), ("write", "raw writes"),
                       ("load", "load, cold cache"), ("read", "raw reads, cold cache")):  # fmt: skip
        middle = statistics.median(found[name])
        each = ", ".join(f"{one:.3g}" for one in found[name])
        print(f"  {what}: {size / middle / 1e9:.3g} GB/s, median of {len(found[name])} ({each} s)")
    # The fastest of each: whatever else uses the disk makes single saves slower, never faster.
    ratio = min(found["bare"]) / min(found["shipped"])
    print(f"payload against bare loop, fastest of each: {ratio:.3f}; target {TARGET}")
    part = pause / statistics.median(found["shipped"])
    print(
        f"pause of an asynchronous save: {pause:.3g} s, {part:.0%} of a synchronous one; target {PAUSE:.0%} on GPUs"
    )


def main() -> int:
    """Start the ranks: one of each GPU, or two on CPUs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", type=pathlib.Path, help="where to write; default: a folder for temporary files"
    )
    parser.add_argument("--rounds", type=int, default=5)
    options, more = parser.parse_known_args()
    if "RANK" in os.environ:
        return worker(options.folder, options.rounds, more)
    try:
        import torch
    except ImportError:
        print("checkpoint: torch is not installed, nothing is measured")
        return 0
    gpus = torch.cuda.device_count()
    if not gpus:
        print("no GPU: a small model on CPUs, its pause is no target")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="checkpoint-", dir=options.folder))
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus or 2}",
        "--max-restarts=0", __file__, f"--folder={folder}", f"--rounds={options.rounds}",
        *(() if gpus else SMALL), *more,
    ]  # fmt: skip
    try:
        return subprocess.run(command, check=False, env={"OMP_NUM_THREADS": "1", **os.environ}).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
