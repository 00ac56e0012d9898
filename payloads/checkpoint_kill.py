"""Kills ranks while they save, at moments drawn at random, and says what is left on the volume after each kill.

One process that imports torch once; ranks are forked from it, so that a round costs no import. In each round the ranks
save one checkpoint whole and begin the next one; then one of them, or all at once, is killed by SIGKILL. A fork looks
at what is there, as a job that starts again does: it loads what `latest` names, and every folder with a commit mark.
Lines `killed` tell of each round. Depends on torch alone, on CPUs.
"""

import argparse
import datetime as dt
import functools
import json
import os
import random
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # a sharded model imports it: in the parent, else every fork would
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

import checkpoint_storage as storage
from checkpoint_model import Size, Trainer, digests, shown
from lines import digits, say

WITHIN = 60.0
"""Seconds after which ranks of a round that hang are ended."""


def forked(act: Callable[[int], None]) -> tuple[int, int]:
    """Run something in a child, which may write lines to a pipe; returns its pid and the pipe's end to read."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    os.close(reading)
    code = 1
    try:
        act(writing)
        code = 0
    except BaseException as error:  # noqa: BLE001 - a child must never come back into the parent's code
        os.write(writing, f"{json.dumps({'error': f'{type(error).__name__}: {error}'[:500]})}\n".encode())
    finally:
        os._exit(code)


def told(writing: int, **facts: Any) -> None:
    """Write one fact to the parent."""
    os.write(writing, f"{json.dumps(facts)}\n".encode())


def heard(reading: int, until: float) -> dict[str, Any] | None:
    """Return the next fact of a child; None where it ended, or said nothing in time."""
    text = b""
    while not text.endswith(b"\n"):
        left = until - time.monotonic()
        if left <= 0 or not _ready(reading, left):
            return None
        part = os.read(reading, 1)
        if not part:
            return None
        text += part
    found: dict[str, Any] = json.loads(text)
    return found


def _ready(reading: int, seconds: float) -> bool:
    return bool(select.select([reading], [], [], seconds)[0])


class Round:
    """One world of forked ranks that saves into a folder until it is killed."""

    def __init__(self, args: argparse.Namespace, folder: Path, number: int) -> None:
        """Plan a round."""
        self.args, self.folder, self.number = args, folder, number
        self.size = Size(args.layers, args.width, "fp32", moments=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def rank(self, rank: int, writing: int) -> None:
        """Save one checkpoint whole, and begin the next one."""
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(self.args.ranks), LOCAL_RANK=str(rank),
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port))  # fmt: skip
        torch.set_num_threads(1)
        dist.init_process_group("cpu:gloo", timeout=dt.timedelta(seconds=WITHIN))
        trainer = Trainer(self.size, torch.device("cpu"), seed=self.number)
        for _ in range(2):
            trainer.train()
            trainer.step = self.number * 10 + trainer.step % 10
            held, path = trainer.digests(), self.folder / f"step-{trainer.step}"
            dist.barrier()
            began = time.monotonic()
            told(writing, begun=trainer.step, digests=held, at=began)
            dcp.save({"app": trainer.state()}, checkpoint_id=str(path))
            dist.barrier()
            if rank == 0:
                storage.move(self.folder / "latest", path.name)
            dist.barrier()
            told(writing, saved=trainer.step, seconds=time.monotonic() - began, at=time.monotonic())

    def go(self, draw: random.Random, usual: float | None) -> dict[str, Any]:
        """Let the ranks save, and kill in the second save; without a usual length nobody is killed."""
        until = time.monotonic() + WITHIN
        children = [forked(functools.partial(self.rank, rank)) for rank in range(self.args.ranks)]
        first = [heard(end, until) for _, end in children]
        whole = [heard(end, until) for _, end in children]
        begun = [heard(end, until) for _, end in children]
        facts = [*first, *whole, *begun]
        found: dict[str, Any] = {"killed": [], "after": None, "ended": False, "digests": {}, "error": ""}
        silent = [fact or {"error": "a rank said nothing"} for fact in facts if not fact or "error" in fact]
        lost = str(silent[0]["error"]) if silent else ""
        if lost:
            found["error"] = lost
        else:
            found["seconds"] = max(float(fact["seconds"]) for fact in whole if fact)
            found["digests"] = {str(fact["begun"]): fact["digests"] for fact in (first[0], begun[0]) if fact}
        if not lost and usual is None:
            # The second save is what later rounds are killed in; the first also makes connections.
            again = [heard(end, until) for _, end in children]
            found["seconds"] = max(
                (float(fact["seconds"]) for fact in again if fact and "seconds" in fact), default=0.0
            )
        if not lost and usual is not None:
            after = draw.uniform(0.0, usual)
            # All ranks are past the barrier: the last of them to say so began the save.
            start = max(float(fact["at"]) for fact in begun if fact)
            time.sleep(max(0.0, start + after - time.monotonic()))
            victims = [0, 1, None][self.number % 3]
            found["killed"] = list(range(self.args.ranks)) if victims is None else [victims]
            found["after"] = digits(time.monotonic() - start)
            for rank in found["killed"]:
                os.kill(children[rank][0], signal.SIGKILL)
            # Whoever had already said that all is saved was not killed in the save.
            found["ended"] = any(
                (heard(end, time.monotonic() + 0.05) or {}).get("saved") for _, end in children
            )
            # Those that are left hang in a collective, as after a lost node: they are ended.
            for pid, _ in children:
                _end(pid)
        for pid, end in children:
            os.waitpid(pid, 0)
            os.close(end)
        return found


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def look(folder: Path, size: Size, writing: int) -> None:
    """Say what a job that starts again finds: what `latest` names, and what each folder holds."""
    # A torn checkpoint makes torch write its traceback to the log, where it would be read as a fault.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    latest = folder / "latest"
    points = latest.read_text(encoding="utf-8").strip() if latest.is_file() else ""
    found = {}
    for path in sorted(folder.glob("step-*")):
        marked = (path / ".metadata").is_file()
        try:
            state = empty(size)
            dcp.load({"app": state}, checkpoint_id=str(path), no_dist=True)
            found[path.name] = {
                "marked": marked, "problem": "", "step": int(state["step"]), "digests": digests(state, size.layers),
            }  # fmt: skip
        except (Exception, CheckpointException) as error:  # noqa: BLE001 - what a torn one raises is to be said
            found[path.name] = {"marked": marked, "problem": shown(error), "step": -1, "digests": []}
    told(writing, latest=points, found=found)


def empty(size: Size) -> dict[str, Any]:
    """Return a state of zeros of the whole model, under the names that a trainer gives it."""
    names = [f"layers.{number}.weight" for number in range(size.layers)]

    def zero() -> torch.Tensor:
        return torch.zeros(size.width, size.width)

    moments = {name: {"exp_avg": zero(), "exp_avg_sq": zero()} for name in names}
    return {
        "model": {name: zero() for name in names},
        "optimizer": {"state": moments},
        "step": torch.tensor(-1),
    }


def looked(folder: Path, size: Size) -> dict[str, Any]:
    """Return what a fork finds."""
    pid, end = forked(lambda writing: look(folder, size, writing))
    found = heard(end, time.monotonic() + WITHIN) or {"error": "the look said nothing"}
    os.waitpid(pid, 0)
    os.close(end)
    return found


def main() -> int:
    """Measure a save, then kill as often as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    who = {"rank": 0, "world": 1, "local_rank": 0, "host": socket.gethostname()}
    say("rank", program="checkpoint_kill", torch=torch.__version__, **who)
    draw, size = random.Random(args.seed), Size(args.layers, args.width, "fp32", moments=True)  # noqa: S311
    usual: float | None = None
    for number in range(1, args.rounds + 2):
        folder = Path(args.folder) / f"kill-{number}"
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            say("failed", kind="program", during="making a folder", error=f"{error}"[:400], **who)
            return 1
        round_ = Round(args, folder, number).go(draw, usual)
        say("killed", round=number, rounds=args.rounds, usual=usual, seed=args.seed, mount=storage.mount(folder),
            **round_, look=looked(folder, size), **who)  # fmt: skip
        if round_["error"]:
            return 1
        usual = digits(round_["seconds"]) if usual is None else usual
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
