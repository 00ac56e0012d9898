"""Training that survives a change of its world: what a rank of it sees, does and notices.

Run by torchrun. The ranks fit a small linear model to a fixed batch of which each takes its part, so that the loss of
step N is the same whatever the size of the world; every rank also trains alone, from the beginning, to say what an
unbroken run has at the same step. After every few steps rank 0 writes a checkpoint under another name and renames it,
and a world that forms goes on where the newest one ends. With `--crash INDEX` the member of that index fails in its
first step, each time. NCCL where there are GPUs, gloo elsewhere. Depends on torch alone. Lines as in `lines.py`.
"""

import argparse
import datetime as dt
import os
import pathlib
import random
import sys
import time
from typing import Any

from lines import say

INPUTS, OUTPUTS, SAMPLES = 16, 8, 60
"""Of the model, and of the batch; worlds of 1 to 6 ranks take equal parts of it."""
RATE = 0.01
UNKNOWN = -1


def index() -> int:
    """Return which member this is: its completion index."""
    return int(os.environ.get("JOB_COMPLETION_INDEX", "0"))


class Model:
    """A linear model, its batch and its step; in double precision, so that worlds of any size agree."""

    def __init__(self, torch: Any) -> None:
        """Begin as every rank of every world does."""
        self._torch = torch
        torch.manual_seed(7)
        self.inputs = torch.randn(SAMPLES, INPUTS, dtype=torch.float64)
        wanted = torch.randn(INPUTS, OUTPUTS, dtype=torch.float64)
        noise = torch.randn(SAMPLES, OUTPUTS, dtype=torch.float64)
        self.targets = self.inputs @ wanted + 0.1 * noise
        self.weights = torch.zeros(INPUTS, OUTPUTS, dtype=torch.float64)

    def part(self, rank: int, world: int) -> Any:
        """Return gradient and loss that one rank adds, as one vector; the sum over ranks is that of the whole batch."""
        inputs, targets = self.inputs[rank::world], self.targets[rank::world]
        apart = inputs @ self.weights - targets
        gradient = 2 * inputs.T @ apart / (SAMPLES * OUTPUTS)
        loss = (apart**2).sum() / (SAMPLES * OUTPUTS)
        return self._torch.cat([gradient.flatten(), loss.reshape(1)])

    def step(self, summed: Any) -> float:
        """Take the step that a summed vector leads to; returns the loss before it."""
        self.weights = self.weights - RATE * summed[:-1].reshape(INPUTS, OUTPUTS)
        return float(summed[-1])


class Checkpoint:
    """The newest checkpoint of a job, in a folder that all workers share; without a folder there is none."""

    def __init__(self, torch: Any, folder: str, job: str) -> None:
        """Say where it is kept."""
        self._torch = torch
        self._path = pathlib.Path(folder, job, "newest.pt") if folder else None

    def save(self, steps: int, weights: Any) -> bool:
        """Write it whole, then give it its name: what is found under that name is never cut."""
        if self._path is None:
            return False
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            self._torch.save({"steps": steps, "weights": weights}, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path)
        return True

    def load(self) -> tuple[int, Any]:
        """Return how many steps it holds, and the weights after them; (0, None) where there is none."""
        if self._path is None or not self._path.exists():
            return 0, None
        found = self._torch.load(self._path, weights_only=True)
        return int(found["steps"]), found["weights"]


def form(torch: Any, dist: Any, device: Any, model: Model, kept: Checkpoint) -> tuple[int, dict[str, object]]:
    """Let a new world agree on where it goes on; returns the steps done, and what is said of the world.

    Rank 0 says what it loaded. What each rank finds on the volume is told too: where they differ it is not shared.
    """
    own, weights = kept.load()
    begin = torch.tensor([own, random.SystemRandom().getrandbits(40)], dtype=torch.int64, device=device)
    dist.broadcast(begin, 0)
    steps, name = (int(one) for one in begin)
    if weights is not None:
        model.weights = weights
    shared = model.weights.to(device)
    dist.broadcast(shared, 0)
    model.weights = shared.cpu()
    mine = torch.tensor([index(), own], dtype=torch.int64, device=device)
    each = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(each, mine)
    told: dict[str, object] = {
        "name": f"{name:010x}",
        "members": [int(one[0]) for one in each],
        "found": [int(one[1]) for one in each],
    }
    return steps, told


def train(args: argparse.Namespace, who: dict[str, object]) -> None:
    """Join the world, go on from the checkpoint, and take steps until the process is ended."""
    import torch  # noqa: PLC0415 - said before it is imported who is there
    import torch.distributed as dist  # noqa: PLC0415

    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo", timeout=dt.timedelta(seconds=args.patience))
    rank, world = dist.get_rank(), dist.get_world_size()
    model, alone = Model(torch), Model(torch)
    kept = Checkpoint(torch, args.checkpoints, str(who["id"]))
    steps, told = form(torch, dist, device, model, kept)
    who = {**who, "name": told["name"]}
    say(
        "elastic-formed",
        resumed=steps,
        members=told["members"],
        found=told["found"],
        torch=torch.__version__,
        **who,
    )
    for _ in range(steps):
        alone.step(alone.part(0, 1))
    first = True
    while True:
        due = time.monotonic() + args.pace
        if index() == args.crash:
            say("elastic-crash", step=steps, **who)
            raise RuntimeError(f"member {index()} fails in step {steps}, as it was told to")
        try:
            summed = model.part(rank, world).to(device)
            dist.all_reduce(summed)
            summed = summed.cpu()
        except RuntimeError as error:
            say("elastic-broken", step=steps, error=" ".join(str(error).split())[:300], **who)
            raise
        loss, unbroken = model.step(summed), alone.step(alone.part(0, 1))
        steps += 1
        saved = rank == 0 and steps % args.every == 0 and kept.save(steps, model.weights)
        if first or rank == 0:
            say("elastic-step", step=steps, loss=loss, unbroken=unbroken, saved=saved, first=first, **who)
        first = False
        # A step takes at least so long, as a step of a real model does.
        time.sleep(max(due - time.monotonic(), 0.0))


def main() -> int:
    """Parse the arguments and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--checkpoints", default="", metavar="FOLDER", help="shared by all workers; none: no checkpoint"
    )
    parser.add_argument("--every", type=int, default=4, metavar="STEPS", help="steps between two checkpoints")
    parser.add_argument("--pace", type=float, default=0.25, metavar="SECONDS", help="least time of a step")
    parser.add_argument(
        "--patience", type=float, default=60.0, metavar="SECONDS", help="bound of a collective"
    )
    parser.add_argument(
        "--crash", type=int, default=UNKNOWN, metavar="INDEX", help="member that fails in its first step"
    )
    args = parser.parse_args()
    who: dict[str, object] = {
        "rank": int(os.environ["RANK"]),
        "world": int(os.environ["WORLD_SIZE"]),
        "index": index(),
        "id": os.environ.get("TORCHELASTIC_RUN_ID", ""),
        "restarts": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        "most": int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")),
    }
    # Said before torch is imported and the world forms: in a hang it is the only evidence of who was there.
    say(
        "elastic-rank",
        master=f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}",
        **who,
    )
    train(args, who)
    return 0


if __name__ == "__main__":
    sys.exit(main())
