"""Reading 500 MB of a job's log against `grep -c NCCL` on the same file, and the memory at 50 MB and at 500 MB.

The log is a realistic mix: set-up of ranks, adapters and channels of many communicators, one line a collective, steps
of training behind a launcher's tags, and rows of nccl-tests. Times are processor times of the two programs, so that
what else the machine does counts for neither; each is the best of seven.
"""

import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

from pytest_gpucluster.measure import nccl

TARGET = 0.25
MEGABYTE = 1_000_000
SIZES = (50, 500)
RANKS, NODES, GPUS = 16, 2, 8
CHUNK = 100 * 1024
RUNS = 7
SETUPS = 40
"""Communicators whose set-up stands in the log, spread over it."""


def head(rank: int, what: str) -> str:
    """Return a record of a rank."""
    return f"trainer-{rank // GPUS}:{1000 + rank}:{2000 + rank} [{rank % GPUS}] NCCL INFO {what}\n"


def setup(number: int, draw: random.Random) -> str:
    """Return what all ranks print while a communicator is made and connected."""
    lines = []
    for rank in range(RANKS):
        adapters = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(GPUS))
        lines.append(head(rank, f"NET/IB : Using {adapters} [RO]; OOB eth0:10.0.0.{rank // GPUS}<0>"))
        lines.append(head(rank, "Using network IB"))
        comm = f"comm 0x{draw.getrandbits(40):x} rank {rank} nranks {RANKS} cudaDev {rank % GPUS} nvmlDev 0"
        lines.append(
            head(rank, f"ncclCommInitRank {comm} busId {rank % GPUS}000 commId 0x{number:x} - Init COMPLETE")
        )
        for channel in range(16):
            after = (rank + 1) % RANKS
            away = after // GPUS != rank // GPUS
            path = f"[send] via NET/IB/{channel % GPUS}/GDRDMA" if away else "via P2P/CUMEM"
            lines.append(
                head(
                    rank, f"Channel {channel:02d}/0 : {rank}[{rank % GPUS}] -> {after}[{after % GPUS}] {path}"
                )
            )
            if (rank - 1) % RANKS // GPUS != rank // GPUS:
                before = (rank - 1) % RANKS
                path = f"[receive] via NET/IB/{channel % GPUS}/GDRDMA"
                pair = f"{before}[{before % GPUS}] -> {rank}[{rank % GPUS}]"
                lines.append(head(rank, f"Channel {channel:02d}/0 : {pair} {path}"))
    draw.shuffle(lines)
    return "".join(lines)


def steps(begin: int, draw: random.Random) -> str:
    """Return a stretch of training: collectives as NCCL lists them, and steps as trainers print them."""
    lines = []
    for number in range(begin, begin + 2000):
        rank = number % RANKS
        kind = draw.random()
        if kind < 0.55:
            send, receive = draw.getrandbits(44), draw.getrandbits(44)
            call = f"AllReduce: opCount {number:x} sendbuff 0x{send:x} recvbuff 0x{receive:x}"
            rest = "datatype 7 op 0 root 0 comm 0x55d8c0 [nranks=16] stream 0x7f"
            lines.append(head(rank, f"{call} count {draw.getrandbits(20)} {rest}"))
        elif kind < 0.95:
            loss = f"loss {draw.random():.4f} grad_norm {draw.random():.3f} lr {draw.random() / 1e4:.3e}"
            tag = f"[default{rank % GPUS}]:2026-11-28T10:00:{number % 60:02d}Z"
            lines.append(f"{tag} step {number} {loss} tokens/s {number * 7}\n")
        else:
            lines.append(
                f"INFO:trainer:checkpoint shard {number} written in {draw.random():.2f} s by worker {rank}\n"
            )
    return "".join(lines)


def make(path: pathlib.Path, megabytes: int) -> None:
    """Write a log of a size."""
    draw = random.Random(1)  # noqa: S311 - the same log each time
    stretches = [steps(at * 2000, draw) for at in range(20)]
    size = megabytes * MEGABYTE
    sides = "   4607.6  233.04  436.95      0   4565.6  235.18  440.96      0"
    row = f"  1073741824     268435456     float     sum      -1{sides}\n"
    with path.open("w") as file:
        for number in range(SETUPS):
            file.write(setup(number, draw))
            file.write(row * 20)
            while file.tell() < size * (number + 1) // SETUPS:
                file.write(stretches[draw.randrange(len(stretches))])


def read(path: pathlib.Path) -> nccl.Facts:
    """Read a log as the command does."""
    reader = nccl.Reader()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            reader.feed(chunk)
    reader.end()
    return nccl.draw(reader.seen, nccl.Given(ranks=RANKS, nodes=NODES))


def child(path: pathlib.Path) -> None:
    """Print seconds of processor and peak memory in MiB of reading a log, in a process of its own."""
    began = time.process_time()
    found = read(path)
    seconds = time.process_time() - began
    assert nccl.verdict.decide(found).verdict == "pass"
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def ours(path: pathlib.Path) -> tuple[float, float]:
    """Return seconds of processor and peak memory."""
    told = subprocess.run([sys.executable, __file__, str(path)], check=True, capture_output=True, text=True)
    seconds, memory = told.stdout.split()
    return float(seconds), float(memory)


def grep(path: pathlib.Path) -> float:
    """Return the seconds of processor that grep needs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["grep", "-c", "NCCL", str(path)], check=True, stdout=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Make logs of both sizes, read them, and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        memories = {}
        for size in SIZES:
            path = pathlib.Path(folder) / f"{size}.log"
            make(path, size)
            grep(path)
            runs = [(grep(path), *ours(path)) for _ in range(RUNS)]
            reference, seconds = min(run[0] for run in runs), min(run[1] for run in runs)
            memories[size] = max(run[2] for run in runs)
            print(
                f"{size} MB: grep -c NCCL {reference:.2f} s ({size / reference:.0f} MB/s), reader {seconds:.2f} s "
                f"({size / seconds:.0f} MB/s), {memories[size]:.0f} MiB at most"
            )
        print(f"speed against grep: {reference / seconds:.2f} (target at least {TARGET})")
        print(f"memory at {SIZES[1]} MB against {SIZES[0]} MB: {memories[SIZES[1]] / memories[SIZES[0]]:.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(pathlib.Path(sys.argv[1]))
    else:
        main()
