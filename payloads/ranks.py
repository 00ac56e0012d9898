"""What a rank of one of several Jobs does: it says who it is, exchanges a nonce with its world, and trains two steps.

Run by torchrun, or, with `--nodes`, by itself: it then is the launcher, by the library that torchrun is made of, and
its rank is a copy of it, so that torch is imported once a member. The nonce is drawn by each rank and told to all
others by a collective, so that a rank of another Job shows by what it brought, whatever ids and addresses say. With
`--train` the world trains two steps three times from the same start: each rank alone on the whole batch, with DDP and
with `fully_shard` on its part of it; how far the results are apart is told. NCCL where there are GPUs, gloo elsewhere.
Depends on torch alone. Lines as in `lines.py`.
"""

import argparse
import datetime as dt
import math
import os
import pathlib
import re
import socket
import sys
from typing import Any

from lines import say

STEPS = 2
"""The second step shows that what the first one changed is the same everywhere."""
PART = 8
"""Samples of one rank."""
WIDTHS = (16, 32, 8)
RATE = 0.1


def plain(value: float) -> object:
    """Return a number as JSON knows it: what is not finite as text."""
    return value if math.isfinite(value) else str(value)


def store_of(agent: int, port: int) -> list[str]:
    """Return the addresses at which the launcher is connected to the rendezvous: remote ends with that port."""
    mine = set()
    try:
        for path in pathlib.Path(f"/proc/{agent}/fd").iterdir():
            match = re.fullmatch(r"socket:\[(\d+)\]", str(path.readlink()))
            if match:
                mine.add(match[1])
        tables = [pathlib.Path(f"/proc/{agent}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    except OSError:
        return []  # Another container's process, or one that has ended: not seen.
    found = set()
    for row in (line.split() for table in tables for line in table.splitlines()[1:]):
        address, _, remote = row[2].partition(":")
        if row[3] == "01" and row[9] in mine and int(remote, 16) == port:
            found.add(_ipv4(address))
    return sorted(found)


def _ipv4(text: str) -> str:
    """Read an address as the kernel writes it; of an IPv6 one that carries IPv4 its last word."""
    return socket.inet_ntoa(int(text[-8:], 16).to_bytes(4, sys.byteorder))


def exchange(who: dict[str, object], device: Any, endpoint: str) -> None:
    """Draw a nonce, tell it to all ranks of this world, and say which ones came."""
    import torch  # noqa: PLC0415 - said before it is imported who is there
    import torch.distributed as dist  # noqa: PLC0415

    nonce = int.from_bytes(os.urandom(6), "big")
    mine = torch.tensor([dist.get_rank(), nonce], dtype=torch.int64, device=device)
    each = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(each, mine)
    host, _, port = endpoint.rpartition(":")
    addresses: list[str] = []
    if host:
        try:
            addresses = sorted({str(i[4][0]) for i in socket.getaddrinfo(host, None, socket.AF_INET)})
        except OSError as error:
            who = {**who, "unresolved": str(error)}
    say(
        "exchanged",
        nonce=nonce,
        got=[[int(rank), int(value)] for rank, value in each],
        addresses=addresses,
        store=store_of(os.getppid(), int(port)) if port.isdigit() else [],
        **who,
    )


def train(who: dict[str, object], device: Any) -> None:
    """Train from the same start alone, with DDP and with `fully_shard`; say how far each is from alone."""
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415

    rank, world = dist.get_rank(), dist.get_world_size()

    def model() -> Any:
        torch.manual_seed(1)
        layers = [
            torch.nn.Linear(WIDTHS[0], WIDTHS[1]),
            torch.nn.Tanh(),
            torch.nn.Linear(WIDTHS[1], WIDTHS[2]),
        ]
        return torch.nn.Sequential(*layers).to(device)

    torch.manual_seed(2)
    x, y = (torch.randn(PART * world, width).to(device) for width in (WIDTHS[0], WIDTHS[-1]))
    part = slice(PART * rank, PART * (rank + 1))

    def steps(module: Any, x: Any, y: Any, *, shared: bool) -> list[float]:
        losses = []
        for _ in range(STEPS):
            for parameter in module.parameters():
                parameter.grad = None
            loss = torch.nn.functional.mse_loss(module(x), y)
            loss.backward()
            with torch.no_grad():  # By hand: importing the optimizers takes longer than all else here.
                for parameter in module.parameters():
                    parameter.sub_(RATE * parameter.grad)
            value = loss.detach().clone()
            if shared:
                dist.all_reduce(value)
                value /= world
            losses.append(float(value))
        return losses

    begin, alone = [p.detach().clone() for p in model().parameters()], model()
    reference = steps(alone, x, y, shared=False)
    end = [p.detach() for p in alone.parameters()]

    def far(parameters: Any) -> object:
        apart = [(one - other).abs().max() for one, other in zip(parameters, end, strict=True)]
        return plain(float(torch.stack(apart).max()))  # Of torch: what is not a number stays so.

    whole = torch.nn.parallel.DistributedDataParallel(model())
    ddp = steps(whole, x[part], y[part], shared=True)
    sharded = model()
    mesh = init_device_mesh(device.type, (world,))
    for layer in sharded:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    fsdp = steps(sharded, x[part], y[part], shared=True)
    own = sum(p.to_local().numel() for p in sharded.parameters())
    of = sum(p.numel() for p in end)
    full = [p.detach().full_tensor() for p in sharded.parameters()]
    say(
        "stepped",
        reference=[plain(loss) for loss in reference],
        moved=far(begin),
        ddp={"losses": [plain(loss) for loss in ddp], "far": far(p.detach() for p in whole.parameters())},
        fsdp={"losses": [plain(loss) for loss in fsdp], "far": far(full), "own": own, "of": of},
        torch=torch.__version__,
        **who,
    )


def work(endpoint: str, trains: bool) -> None:
    """Join the world as the rank that the launcher says, exchange nonces, train where asked to."""
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    who: dict[str, object] = {"rank": rank, "world": world, "local_rank": local, **me(endpoint)}
    cuda = torch.cuda.is_available()
    backend = "nccl" if cuda else "gloo"
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=dt.timedelta(seconds=60))
    who["backend"] = backend
    exchange(who, device, endpoint)
    if trains:
        train(who, device)
    dist.barrier()


def me(endpoint: str) -> dict[str, object]:
    """Return who this is, as far as it is known before the world forms."""
    run = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return {"host": socket.gethostname(), "id": run, "endpoint": endpoint}


def launch(args: argparse.Namespace) -> None:
    """Be the launcher of one rank on this member, as `torchrun --nproc-per-node=1 --rdzv-backend=c10d` is."""
    import torch  # noqa: PLC0415
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch  # noqa: PLC0415

    config = LaunchConfig(
        min_nodes=args.nodes,
        max_nodes=args.nodes,
        nproc_per_node=1,
        run_id=args.id,
        rdzv_backend="c10d",
        rdzv_endpoint=args.endpoint,
        rdzv_configs={"join_timeout": args.within, "read_timeout": args.within},
        max_restarts=0,
        local_addr=os.environ.get("POD_IP") or None,
        # The launcher opens the driver of GPUs; a rank that is forked from it could not use them.
        start_method="spawn" if torch.cuda.is_available() else "fork",
    )
    elastic_launch(config, work)(args.endpoint, args.train)


def main() -> int:
    """Parse the arguments and act."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--endpoint", default="", metavar="HOST:PORT", help="where the launchers meet")
    parser.add_argument("--train", action="store_true", help="train two steps and compare with one process")
    parser.add_argument("--nodes", type=int, help="be the launcher, one of so many")
    parser.add_argument("--id", default="none", help="rendezvous id, with --nodes")
    parser.add_argument("--within", type=int, default=60, help="seconds to meet the others, with --nodes")
    args = parser.parse_args()
    if args.nodes:
        os.environ["TORCHELASTIC_RUN_ID"] = args.id
    # Said before torch is imported and the world forms: in a hang it is the only evidence of who was there.
    say("began", **me(args.endpoint))
    if args.nodes:
        launch(args)
    else:
        work(args.endpoint, args.train)
    # Without taking down what torch has loaded, which costs seconds and shows nothing.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
