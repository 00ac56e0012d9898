"""Collectives over the ranks of a torchrun world: right on every element, then timed.

Run by torchrun, on CUDA, ROCm (HIP) and CPUs, over nccl or gloo; depends on torch alone. Lines as in `gang.py`: `who`
before the group forms (who is here, on which device), `measured` with the figures of one rank (several numbered parts
where they are many), `pairs` of the sweep over pairs of members, `stalled` where a collective does not end in its
bound, `failed` where something raised, `done`. With nccl each rank then prints its NCCL log between two lines
`nccl-log`, each of its lines behind `[rankN]: `.

Sizes are bytes of the larger of a rank's two buffers, as nccl-tests counts them; the factors are theirs too.
"""

import argparse
import contextlib
import ctypes
import datetime as dt
import itertools
import math
import os
import pathlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from lines import say

ATOMIC = 4096
"""A write below so many bytes is not mixed with those of other processes (PIPE_BUF)."""
PERIOD = 8191
"""Elements after which a pattern repeats: prime, so that no chunk of a collective is a multiple of it."""
PER_LINE = 8
"""Results that one line holds."""
STALLED = 17
"""Exit code of a rank that waited for longer than its bound."""
PATIENCE = 5.0
"""Seconds that a rank waits for the others to say where they stand."""
ENV_BYTES = 1500
"""How much of NCCL's variables the first line has."""
ENOUGH = 16
LOG_BYTES = 4 << 20
"""How much of an NCCL log is printed: its head and its tail."""
NCCL_SETTINGS = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,GRAPH"}
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text: str) -> int:
    """Return bytes of `8`, `64K`, `1M`, `1G`.

    Raises:
        argparse.ArgumentTypeError: no such size.
    """
    word = text.strip().upper()
    unit = UNITS.get(word[-1:], 1)
    digits = word[:-1] if unit > 1 else word
    if not digits.isdigit() or int(digits) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 8, 64K, 1M or 1G")
    return int(digits) * unit


def sizes_of(text: str) -> list[int]:
    """Return the sizes of a list such as `1K,1M,1G`."""
    return [size_of(word) for word in text.split(",") if word.strip()]


def running_for(pid: object) -> float | None:
    """Return the seconds since a process started, None where /proc does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        ticks = int(stat.rpartition(")")[2].split()[19])
        up = float(pathlib.Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
        return round(up - ticks / os.sysconf("SC_CLK_TCK"), 3)
    return None


def handed() -> list[str]:
    """Return the ids of the devices that the kubelet handed to this container, as its device plugin tells them."""
    text = os.environ.get("GPUCLUSTER_DEVICES") or os.environ.get("NVIDIA_VISIBLE_DEVICES") or ""
    words = [word.strip().partition("@")[0] for word in text.split(",")]
    return [word for word in words if word and word not in ("none", "void", "all")]


def nccl_env() -> dict[str, str]:
    """Return the variables of NCCL in this process, NCCL_NET first, as far as they fit into a line."""
    found: dict[str, str] = {}
    room = ENV_BYTES
    for name in sorted(os.environ, key=lambda name: (name != "NCCL_NET", name)):
        room -= len(name) + len(os.environ[name]) if name.startswith("NCCL_") else 0
        if name.startswith("NCCL_") and room > 0:
            found[name] = os.environ[name]
    return found


class World:
    """This process among the others.

    Attributes:
        rank: its rank.
        size: ranks of the world.
        local: its place in its member.
        each: ranks of a member.
        device: what it computes on.
        gpu: whether that is a GPU.
        store: where ranks leave word for each other.
    """

    def __init__(self, wanted: str) -> None:
        """Read what torchrun told, and take the device.

        Raises:
            RuntimeError: a GPU is wanted and torch sees none for this rank.
        """
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.local = int(os.environ.get("LOCAL_RANK", "0"))
        self.each = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.gpu = wanted == "gpu" or (wanted == "auto" and torch.cuda.is_available())
        if self.gpu and self.local >= torch.cuda.device_count():
            raise RuntimeError(
                f"torch sees {torch.cuda.device_count()} GPUs, this is local rank {self.local}: "
                "no device of its own"
            )
        self.device = torch.device("cuda", self.local) if self.gpu else torch.device("cpu")
        if self.gpu:
            torch.cuda.set_device(self.device)
        shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        self.store = self.connect(host=self.rank == 0 and not shared)

    def connect(self, *, host: bool = False) -> Any:
        """Return a connection to the store of all ranks, or host it."""
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        base = dist.TCPStore(address, port, self.size, is_master=host, wait_for_workers=False)
        # A worker group that its agent starts anew finds nothing of the one before.
        run = f"gpucluster/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        return dist.PrefixStore(run, base)

    @property
    def member(self) -> int:
        """Return which member of the gang this rank is in."""
        return self.rank // self.each

    @property
    def members(self) -> int:
        """Return how many members there are."""
        return self.size // self.each

    @property
    def backend(self) -> str:
        """Return what carries the collectives."""
        return "nccl" if self.gpu else "gloo"

    def who(self) -> dict[str, object]:
        """Return who this is."""
        return {
            "rank": self.rank,
            "world": self.size,
            "local_rank": self.local,
            "local_world": self.each,
            "group_rank": int(os.environ.get("GROUP_RANK", "-1")),
            "host": socket.gethostname(),
            "node": os.environ.get("GPUCLUSTER_NODE", ""),
            "backend": self.backend,
        }

    def identity(self) -> dict[str, object]:
        """Return the device: by its driver, or on CPUs the one that the kubelet handed to this rank's place."""
        ids = handed()
        told: dict[str, object] = {
            "env": nccl_env(),
            "handed": ids[:ENOUGH],
            "handed_count": len(ids),
            "torch": torch.__version__,
        }
        if not self.gpu:
            own = ids[self.local] if self.local < len(ids) else ""
            return {**told, "device": "cpu", "device_name": "cpu", "uuid": own, "uuid_by": "device plugin"}
        found = torch.cuda.get_device_properties(self.device)
        uuid = str(getattr(found, "uuid", "") or "")
        return {
            **told,
            "device": "hip" if torch.version.hip else "cuda",
            "device_name": found.name,
            "memory": found.total_memory,
            "uuid": uuid if not uuid or uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}",
            "uuid_by": "driver",
            "visible": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        }

    def settle(self) -> None:
        """Wait until what was asked of the device is done."""
        if self.gpu:
            torch.cuda.synchronize(self.device)


class Guard(threading.Thread):
    """Ends a rank that stands in a collective for longer than its bound, and says where and for whom it waits."""

    def __init__(self, world: World, bound: float, log: pathlib.Path | None) -> None:
        """Take the bound in seconds."""
        super().__init__(daemon=True, name="guard")
        self.world, self.bound, self.log = world, bound, log
        # Of its own: whoever waits on the other connection holds it.
        self.store = world.connect()
        self._lock = threading.Lock()
        self._now: tuple[int, str, int, float] | None = None
        self._times = 1.0
        self._count = 0

    @contextlib.contextmanager
    def inside(self, what: str, size: int, *, entered: bool = True, times: float = 1.0) -> Iterator[None]:
        """Say that a collective is entered, and left; it may take so many times the bound."""
        self._count += 1
        if entered:
            self.store.set(f"in/{self._count}/{self.world.rank}", what)
        with self._lock:
            self._now, self._times = (self._count, what, size, time.monotonic()), times
        try:
            yield
        finally:
            with self._lock:
                self._now = None

    def run(self) -> None:
        """Look every now and then."""
        while True:
            time.sleep(min(0.25, self.bound / 8))
            with self._lock:
                now, bound = self._now, self.bound * self._times
            if now is not None and time.monotonic() - now[3] > bound:
                self._stalled(*now)

    def _stalled(self, count: int, what: str, size: int, since: float) -> None:
        """Say who did not come, and end the process: its main thread cannot."""
        absent = [r for r in range(self.world.size) if not self.store.check([f"in/{count}/{r}"])]
        say(
            "stalled",
            collective=what,
            size=size,
            sequence=count,
            bound=self.bound,
            waited=round(time.monotonic() - since, 3),
            entered=self.world.rank not in absent,
            absent=absent[:ENOUGH],
            absent_count=len(absent),
            transport=transport(self.log) if self.world.gpu else "gloo over TCP",
            **self.world.who(),
        )
        show(self.world.rank, self.log)
        # The agent ends the others as soon as one has ended: first all have their say.
        self.store.set(f"said/{self.world.rank}", "")
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends and not self._all_said():
            time.sleep(0.05)
        os._exit(STALLED)

    def _all_said(self) -> bool:
        """Report whether every rank has said where it stands."""
        return bool(self.store.check([f"said/{rank}" for rank in range(self.world.size)]))


def transport(log: pathlib.Path | None) -> str:
    """Return the transports of the connection lines of an NCCL log, "" where there is none."""
    if log is None or not log.is_file():
        return ""
    words = [
        line.rpartition(" via ")[2].split()[0]
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if " via " in line and line.rpartition(" via ")[2].strip()
    ]
    return ", ".join(sorted({word.partition("/GDRDMA")[0] for word in words})[:ENOUGH])


def show(rank: int, log: pathlib.Path | None) -> None:
    """Print a rank's NCCL log, whole lines in writes that do not mix with those of others."""
    if log is None:
        return
    raw = log.read_bytes() if log.is_file() else b""
    cut = max(0, len(raw) - LOG_BYTES)
    if cut:
        half = LOG_BYTES // 2
        raw = raw[:half] + b"\n" + raw[-half:]
    lines = raw.decode(errors="replace").splitlines()
    say("nccl-log", rank=rank, part="begin", lines=len(lines), cut=cut)
    batch = ""
    for line in lines:
        text = f"[rank{rank}]: {line[:2000]}\n"
        if batch and len((batch + text).encode()) >= ATOMIC:
            os.write(1, batch.encode())
            batch = ""
        batch += text
    if batch:
        os.write(1, batch.encode())
    say("nccl-log", rank=rank, part="end", lines=len(lines))


# -- patterns --------------------------------------------------------------------------------------------------------


def row(rank: int, salt: int, device: torch.device) -> torch.Tensor:
    """Return one period of what a rank contributes: whole numbers below 1021, so that sums stay exact in float32."""
    index = torch.arange(PERIOD, device=device, dtype=torch.int64)
    return ((index * 31 + rank * 17 + salt * 7) % 8191 % 1021).to(torch.float32)


def fill(tensor: torch.Tensor, pattern: torch.Tensor) -> None:
    """Repeat a pattern over a flat tensor."""
    whole = tensor.numel() // PERIOD * PERIOD
    if whole:
        tensor[:whole].view(-1, PERIOD).copy_(pattern)
    tensor[whole:] = pattern[: tensor.numel() - whole]


def wrong_in(tensor: torch.Tensor, pattern: torch.Tensor) -> int:
    """Return how many elements differ from a repeated pattern; none is left out, NaN differs."""
    whole = tensor.numel() // PERIOD * PERIOD
    bad = int((tensor[whole:] != pattern[: tensor.numel() - whole]).sum())
    if whole:
        bad += int((tensor[:whole].view(-1, PERIOD) != pattern).sum())
    return bad


class Op:
    """One collective at one size.

    Attributes:
        name: of the collective.
        size: bytes, a multiple of four times the world.
        factor: bus bandwidth over algorithm bandwidth.
    """

    def __init__(self, world: World, name: str, size: int) -> None:
        """Take the buffers."""
        n = world.size
        # Rounded up: a floor from 1 GiB on is for what 24 ranks can divide evenly too.
        count = -(-size // (4 * n)) * n
        self.world, self.name, self.size, self.each = world, name, count * 4, count // n
        self.factor = (2 if name == "all_reduce" else 1) * (n - 1) / n
        into = self.each if name == "reduce_scatter" else count
        out = self.each if name == "all_gather" else count
        self.into = torch.zeros(into, device=world.device)
        # An all-reduce works in place, as training does it.
        self.out = self.into if name == "all_reduce" else torch.zeros(out, device=world.device)

    def start(self) -> None:
        """Do it once."""
        if self.name == "all_reduce":
            dist.all_reduce(self.into)
        elif self.name == "all_gather":
            dist.all_gather_into_tensor(self.into, self.out)
        elif self.name == "reduce_scatter":
            dist.reduce_scatter_tensor(self.into, self.out)
        else:
            dist.all_to_all_single(self.into, self.out)

    def check(self, salt: int) -> int:
        """Do it once with a pattern of each rank; returns how many elements of the result are wrong."""
        device, me, n = self.world.device, self.world.rank, self.world.size
        rows = [row(rank, salt, device) for rank in range(n)]
        if self.out is not self.into:
            self.into.fill_(-1.0)
        parts = self.out.view(n, -1) if self.name in ("reduce_scatter", "all_to_all") else None
        if parts is None:
            fill(self.out, rows[me])
        else:
            # What goes to each rank is told apart, so that a part that goes astray shows.
            for to in range(n):
                fill(parts[to], row(me, salt + to + 1, device))
        self.start()
        if self.name == "all_reduce":
            return wrong_in(self.into, torch.stack(rows).sum(0))
        if self.name == "reduce_scatter":
            mine = [row(rank, salt + me + 1, device) for rank in range(n)]
            return wrong_in(self.into, torch.stack(mine).sum(0))
        got = self.into.view(n, -1)
        if self.name == "all_gather":
            return sum(wrong_in(got[rank], rows[rank]) for rank in range(n))
        return sum(wrong_in(got[rank], row(rank, salt + me + 1, device)) for rank in range(n))


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


# -- timing ----------------------------------------------------------------------------------------------------------


def timed(world: World, act: Callable[[], Any], count: int) -> tuple[list[float], float]:
    """Do something `count` times; returns the seconds of each time, and of one on the average of all."""
    dist.barrier()
    if not world.gpu:
        marks = [time.perf_counter()]
        for _ in range(count):
            act()
            marks.append(time.perf_counter())
        return [b - a for a, b in itertools.pairwise(marks)], (marks[-1] - marks[0]) / count
    world.settle()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        act()
        event.record()
    world.settle()
    each = [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(events)]
    return each, events[0].elapsed_time(events[-1]) / 1e3 / count


def agreed(world: World, value: float) -> float:
    """Return the largest of what all ranks say."""
    told = torch.tensor([value], dtype=torch.float64 if not world.gpu else torch.float32, device=world.device)
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return float(told[0])


def rounds(estimate: float, share: float, least: int, most: int) -> int:
    """Return how often something is timed so that it takes its share of the budget."""
    return max(least, min(most, int(share / max(estimate, 1e-7))))


def at(values: list[float], share: float) -> float:
    """Return a percentile by nearest rank."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def figures(each: list[float], mean: float, size: int, factor: float) -> dict[str, object]:
    """Return times in microseconds and bandwidths in GB/s (1e9 bytes); bandwidth is of the mean, as in nccl-tests."""
    micro = {f"p{int(q * 100)}": round(at(each, q) * 1e6, 2) for q in (0.5, 0.9, 0.99)}
    rate = size / mean / 1e9
    return {
        "size": size,
        "iters": len(each),
        "mean": round(mean * 1e6, 2),
        "min": round(min(each) * 1e6, 2),
        **micro,
        "algbw": round(rate, 4),
        "busbw": round(rate * factor, 4),
        "factor": round(factor, 6),
    }


def fits(world: World, size: int) -> bool:
    """Report whether the buffers of a size fit the device beside what a check takes."""
    if not world.gpu:
        return True
    free, _ = torch.cuda.mem_get_info(world.device)
    return bool(size * 3.5 < free)


def measure(world: World, guard: Guard, args: argparse.Namespace) -> list[dict[str, object]]:
    """Check and time each collective at each size."""
    sizes = args.sizes if world.gpu else args.cpu_sizes
    plan = [(name, size) for name in args.collectives for size in sizes]
    share = args.budget / max(1, len(plan))
    results: list[dict[str, object]] = []
    for salt, (name, size) in enumerate(plan):
        with guard.inside(name, size):
            if agreed(world, 0.0 if fits(world, size) else 1.0):
                results.append(
                    {"collective": name, "size": size, "skipped": "does not fit the device's memory"}
                )
                continue
            op = Op(world, name, size)
            bad = op.check(salt)
            if not results:
                first_done(world)
            # The check leaves figures behind that sums would carry to infinity.
            op.into.zero_()
            op.out.zero_()
            _, estimate = timed(world, op.start, args.warmup)
            count = rounds(agreed(world, estimate), share, args.least, args.most)
        with guard.inside(name, size):
            each, mean = timed(world, op.start, count)
        with guard.inside(name, size):
            bad += op.check(salt + 1000)
            world.settle()
        results.append({"collective": name, **figures(each, mean, op.size, op.factor), "wrong": bad})
    return results


FIRST: dict[str, object] = {}


def first_done(world: World) -> None:
    """Keep when the first collective that is checked was through: what all the beginning takes."""
    world.settle()
    FIRST.update(first_process=running_for("self"), first_pod=running_for(1), first_t=time.time())


# -- pairs -----------------------------------------------------------------------------------------------------------


def matches(count: int) -> list[list[tuple[int, int]]]:
    """Return rounds in which everybody meets one other, until all have met all."""
    players: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    found = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        pairs = zip(players[:half], reversed(players[half:]), strict=True)
        found.append([(a, b) for a, b in pairs if a is not None and b is not None])
        players = [players[0], players[-1], *players[1:-1]]
    return found


def sweep(world: World, guard: Guard, args: argparse.Namespace) -> list[dict[str, object]]:
    """Let members exchange data in pairs, all their ranks at once; with one member its ranks among themselves."""
    between = world.members > 1
    mine, many = (world.member, world.members) if between else (world.rank, world.size)
    wanted = args.pair_size if world.gpu else args.cpu_pair_size
    count = max(1, wanted // 4)
    told: list[dict[str, object]] = []
    if not wanted or many < 2:
        return told
    out, into = torch.zeros(count, device=world.device), torch.zeros(count, device=world.device)
    share = args.budget / 4 / max(1, many - 1)
    for number, pairs in enumerate(matches(many)):
        other = next((b if a == mine else a for a, b in pairs if mine in (a, b)), None)
        peer = None if other is None else other * world.each + world.local if between else other

        def exchange(peer: int | None = peer) -> None:
            if peer is None:
                return
            ops = [dist.P2POp(dist.isend, out, peer), dist.P2POp(dist.irecv, into, peer)]
            for work in dist.batch_isend_irecv(ops):
                work.wait()

        with guard.inside("pairwise", count * 4):
            fill(out, row(world.rank, number, world.device))
            into.fill_(-1.0)
            exchange()
            bad = 0 if peer is None else wrong_in(into, row(peer, number, world.device))
            _, estimate = timed(world, exchange, 2)
            times = rounds(agreed(world, estimate), share, args.least, args.most)
        with guard.inside("pairwise", count * 4):
            each, mean = timed(world, exchange, times)
        if peer is not None:
            told.append({"peer": peer, **figures(each, mean, count * 4, 1.0), "wrong": bad})
    return told


# -- standing still --------------------------------------------------------------------------------------------------


def stall(world: World, guard: Guard, args: argparse.Namespace) -> None:
    """Let all ranks but one enter a collective; the one waits outside until the guard ends it too."""
    op = Op(world, args.stall_in, args.sizes[0] if world.gpu else args.cpu_sizes[0])
    with guard.inside("all_reduce", op.size):
        Op(world, "all_reduce", op.size).check(0)
        world.settle()
        dist.barrier()
    absent = world.rank == args.stall
    with guard.inside(args.stall_in, op.size, entered=not absent):
        if absent:
            time.sleep(args.bound * 4)
        op.start()
        world.settle()


def tell(event: str, world: World, results: list[dict[str, object]], **more: object) -> None:
    """Print results, several on a line, each line with its number."""
    parts = [results[n : n + PER_LINE] for n in range(0, len(results), PER_LINE)]
    for number, part in enumerate(parts, start=1):
        say(event, part=number, parts=len(parts), results=part, **world.who(), **more)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["auto", "gpu", "cpu"], default="auto")
    parser.add_argument(
        "--collectives", default=",".join(COLLECTIVES), help="names, with commas between them"
    )
    parser.add_argument("--sizes", type=sizes_of, default=sizes_of("8,64K,1M,4M,16M,64M,256M,1G"))
    parser.add_argument("--cpu-sizes", type=sizes_of, default=sizes_of("1K,256K"), help="sizes without GPUs")
    parser.add_argument(
        "--pair-size", type=size_of, default=size_of("64M"), help="bytes of the sweep over pairs"
    )
    parser.add_argument("--cpu-pair-size", type=size_of, default=size_of("64K"))
    parser.add_argument("--no-pairs", action="store_true", help="leave the sweep over pairs out")
    parser.add_argument("--budget", type=float, default=30.0, help="seconds for all that is timed")
    parser.add_argument("--warmup", type=int, default=3, help="times before the first that counts")
    parser.add_argument("--least", type=int, default=5, help="times at least")
    parser.add_argument("--most", type=int, default=200, help="times at most")
    parser.add_argument("--bound", type=float, default=60.0, help="seconds that one collective may take")
    parser.add_argument("--stall", type=int, default=-1, metavar="RANK", help="this rank does not enter")
    parser.add_argument("--stall-in", choices=COLLECTIVES, default="all_reduce")
    args = parser.parse_args()
    args.collectives = [name.strip() for name in args.collectives.split(",") if name.strip()]
    unknown = sorted(set(args.collectives) - set(COLLECTIVES))
    if unknown:
        parser.error(f"no collective {unknown[0]!r} (there are: {', '.join(COLLECTIVES)})")
    return args


def nccl_log(rank: str) -> pathlib.Path | None:
    """Ask NCCL, before it is loaded, for a log of its own for this process; returns its path.

    None where nothing can be written at all: the rows of its lines are then undecided, the figures are not.
    """
    # Whatever image or profile say: without these lines nothing is known of the transport.
    os.environ.update(NCCL_SETTINGS)
    try:
        path = pathlib.Path(tempfile.gettempdir()) / f"gpucluster-nccl-{os.getpid()}-{rank}.log"
    except OSError:
        return None
    os.environ["NCCL_DEBUG_FILE"] = str(path)
    return path


def play(world: World, guard: Guard, args: argparse.Namespace) -> int:
    """Form the group and do what was asked for; returns the exit code."""
    # Ranks come here at different times: the slowest import decides.
    with guard.inside("communicator", 0, times=3.0):
        dist.init_process_group(
            world.backend,
            store=dist.PrefixStore("group", world.store),
            rank=world.rank,
            world_size=world.size,
            timeout=dt.timedelta(seconds=args.bound * 4),
            **({"device_id": world.device} if world.gpu else {}),
        )
    if args.stall >= 0:
        stall(world, guard, args)
        return 0
    results = measure(world, guard, args)
    tell("measured", world, results, **FIRST)
    pairs = [] if args.no_pairs else sweep(world, guard, args)
    tell("pairs", world, pairs)
    wrong = any(one.get("wrong") for one in (*results, *pairs))
    with guard.inside("barrier", 0):
        # All end alike: an agent whose ranks were right would wait five minutes for one that has ended.
        wrong = agreed(world, float(wrong)) > 0
        world.settle()
    dist.destroy_process_group()
    return 1 if wrong else 0


def main() -> int:
    """Say who this is, then measure; returns 0 when all data was right."""
    args = arguments()
    rank = os.environ.get("RANK", "0")
    log = nccl_log(rank) if args.device != "cpu" and torch.cuda.device_count() else None
    try:
        world = World(args.device)
        # Said before the group forms: in a hang it is the only evidence of who was there.
        say("who", since_process=running_for("self"), **world.who(), **world.identity())
        guard = Guard(world, args.bound, log)
        guard.start()
        code = play(world, guard, args)
        say("done", code=code, **world.who())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is said and the log is shown
        text = " ".join(f"{type(error).__name__}: {error}".split())[:1500]
        say("failed", rank=int(rank), host=socket.gethostname(), error=text)
        code = 3
    # What NCCL prints of itself past its log is in the buffers of C, which end with the process.
    ctypes.CDLL(None).fflush(None)
    show(int(rank), log)
    return code


if __name__ == "__main__":
    # All is said; torch takes seconds to take itself down.
    os._exit(main())
