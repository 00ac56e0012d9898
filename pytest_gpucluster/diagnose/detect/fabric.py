"""What NCCL says in the logs: a fall back to sockets, a stalled collective."""

import re
from collections.abc import Iterator

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect.hardware import gpu_failed
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, fault, note
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

SOCKET = re.compile(r"NCCL INFO .*(?:via NET/Socket|Using network Socket|NET/Socket : Using)")
RDMA = re.compile(
    r"NCCL INFO .*(?:via NET/(?:IB|OFI|gIB|AWS)|Using network (?:IB|AWS|OFI|gIB))", re.IGNORECASE
)
STALL = re.compile(
    r"Watchdog caught collective operation timeout|ProcessGroupNCCL.*[Tt]imeout|NCCL WARN .*(?:timeout|unhandled)|"
    r"NCCL error|ncclSystemError|ncclRemoteError|ncclInternalError"
)


def _asks_rdma(s: Situation) -> list[str]:
    found = {r for spec in s.specs.values() for r in fields.scarce_resources(spec)}
    return sorted(r for r in found if re.search(r"rdma|hca|roce|mlnx|efa|infiniband|sriov", r, re.IGNORECASE))


def nccl(s: Situation) -> Iterator[Suspect]:
    """NCCL uses sockets between nodes, or a collective stalled."""
    sockets: dict[str, str] = {}
    good: set[str] = set()
    stalled: dict[str, tuple[str, str]] = {}
    for pod, lines in s.logs.items():
        for line in lines:
            text = str(line.data.get("line") or "")
            if SOCKET.search(text):
                sockets.setdefault(pod, line.key)
            if RDMA.search(text):
                good.add(pod)
            if STALL.search(text):
                stalled.setdefault(pod, (words.short(text), line.key))
    only = [pod for pod in sockets if pod not in good]
    asked = _asks_rdma(s)
    if only:
        filters = sorted(
            {
                f"{e.get('name')}={e.get('value')}"
                for spec in s.specs.values() for c in fields.containers(spec) for e in fields.items(c, "env")
                if str(e.get("name")) in ("NCCL_IB_HCA", "NCCL_NET", "NCCL_IB_DISABLE")
            }
        )  # fmt: skip
        why = f"its pods ask for {wording.listed(asked, 2)}" if asked else "no task asks for an RDMA resource"
        cause = Cause(
            f"NCCL fell back to sockets (NET/Socket) on {wording.listed(only, 4)}: {why}"
            + (f"; {', '.join(filters)}" if filters else ""),
            "request the RDMA resource in every pod template, and make NCCL_IB_HCA name adapters that the pods "
            "have; then test the fabric alone (nccl-tests)",
        )
        seen = f"{len(only)} of {len(s.logs)} logs show NET/Socket" + (
            f"; NET/IB on {wording.listed(sorted(good), 4)}" if good else ""
        )
        where = tuple(p.where for p in s.pods if p.name in only)
        more = {
            "where": where,
            "evidence": tuple(sockets[p] for p in only[:4]),
            "rows": ("FAB-001", "FAB-003"),
        }
        if asked or good or filters or stalled:
            yield fault("nccl-sockets", Stage.FABRIC, cause, seen, LIKELY, **more)
        else:
            yield note("nccl-sockets", Stage.FABRIC, cause, seen, **more)
    if stalled and s.phase != "Completed" and not any(gpu_failed(s)):  # they only waited for that rank
        pod, (text, _) = next(iter(stalled.items()))
        cause = Cause(
            f"a collective stalled or failed in {wording.listed(sorted(stalled), 4)}",
            "find the rank that is missing in it (its log ends earlier or shows an error first); test the fabric "
            "alone",
        )
        keys = tuple(key for _, key in stalled.values())[:4]
        yield fault(
            "nccl-stall", Stage.FABRIC, cause, f"{pod}: {text!r}", LIKELY, evidence=keys, rows=("FAB-011",),
        )  # fmt: skip
