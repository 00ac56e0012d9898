"""One world: every rank says who it is, and an all-reduce must give the right sum.

Run by torchrun. NCCL where there are GPUs, gloo elsewhere. Depends on torch alone. Lines as in `lines.py`.
"""

import datetime as dt
import os
import socket
import sys

import torch
import torch.distributed as dist

from lines import say


def main() -> int:
    """Join the world, reduce, compare; returns 0 when the sum is right."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local = int(os.environ["LOCAL_RANK"])
    cuda = torch.cuda.is_available()
    backend = "nccl" if cuda else "gloo"
    who = {
        "rank": rank,
        "world": world,
        "local_rank": local,
        "group_rank": int(os.environ.get("GROUP_RANK", "-1")),
        "host": socket.gethostname(),
        "backend": backend,
    }
    # Said before the group forms: in a hang it is the only evidence of who was there.
    say("rank", **who)
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=dt.timedelta(seconds=60))
    # Rank r contributes r + 1, so that a missing or doubled rank changes the sum.
    value = torch.full((1024,), float(rank + 1), device=device)
    dist.all_reduce(value)
    expected = world * (world + 1) / 2
    wrong = value[value != expected]
    got, right = float(wrong[0] if len(wrong) else value[0]), not len(wrong)
    say("sum", expected=expected, got=got, ok=right, **who)
    dist.barrier()
    dist.destroy_process_group()
    say("done", **who)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
