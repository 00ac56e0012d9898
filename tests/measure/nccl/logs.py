"""What the tests of the log reader share."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_gpucluster.measure import nccl

FOLDER = Path(__file__).parents[3] / "fixtures" / "recorded" / "nccl"
ONE_NODE = FOLDER / "h200x4-nccl2.28.9" / "p2p.log"
SOCKETS = FOLDER / "h200x4-nccl2.28.9" / "socket.log"
TWO_KUBELETS = tuple(FOLDER / "h200x2-nccl2.28.9-two-kubelets" / f"pod-{n}.log" for n in range(2))
TWO_PODS = tuple(FOLDER / "h100x4-nccl2.28.9-two-pods" / f"pod-{n}.log" for n in range(2))


def read(*texts: str | bytes, chunk: int = 0) -> nccl.Seen:
    """Read texts one after another, in chunks of a size or each at once."""
    streams = [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]
    return nccl.read(
        [s[at : at + chunk] for at in range(0, len(s), chunk)] if chunk else [s] for s in streams
    )


def facts(*texts: str | bytes, **given: Any) -> nccl.Facts:
    """Return the facts of texts."""
    return nccl.draw(read(*texts), nccl.Given(**given))


def of_files(paths: Iterable[Path], **given: Any) -> nccl.Facts:
    """Return the facts of files."""
    return facts(*(path.read_bytes() for path in paths), **given)


def values(*lines: str, **given: Any) -> dict[str, Any]:
    """Return facts and verdicts of lines, by the names that cases use."""
    return nccl.verdict.values(facts("\n".join(lines) + "\n", **given))


def verdict(*lines: str, **given: Any) -> str:
    """Return the verdict on lines."""
    found: str = values(*lines, **given)["rdma_gdr_check"]
    return found


def record(text: str, *, host: str = "a-0", pid: int = 11, device: int = 0, level: str = "INFO") -> str:
    """Return one line as NCCL prints it."""
    return f"{host}:{pid}:{pid} [{device}] NCCL {level} {text}"


def ring(
    hosts: Sequence[str] = ("a-0", "a-1"), rest: str = "NET/IB/0/GDRDMA", channels: int = 2
) -> list[str]:
    """Return the connections of a ring of one rank a host."""
    lines = []
    for rank, host in enumerate(hosts):
        for channel in range(channels):
            after, before = (rank + 1) % len(hosts), (rank - 1) % len(hosts)
            head = f"Channel {channel:02d}/0 :"
            lines.append(
                record(f"{head} {before}[0] -> {rank}[0] [receive] via {rest}", host=host, pid=11 + rank)
            )
            lines.append(
                record(f"{head} {rank}[0] -> {after}[0] [send] via {rest}", host=host, pid=11 + rank)
            )
    return lines
