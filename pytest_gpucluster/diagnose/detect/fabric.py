"""What NCCL says in the logs: a fall back to sockets, a stalled collective and what came before it."""

import re
from collections.abc import Iterator

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect.hardware import gpu_failed
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, fault, note
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.judge import wording
from pytest_gpucluster.measure import nccl as nccl_logs
from pytest_gpucluster.requirement import Cause

SOCKET = re.compile(r"NCCL INFO .{0,2000}(?:via NET/Socket|Using network Socket)")
RDMA = re.compile(
    r"NCCL INFO .{0,2000}(?:via NET/(?:IB|OFI|gIB|AWS)|Using network (?:IB|AWS|OFI|gIB))", re.IGNORECASE
)
STALL = re.compile(
    r"Watchdog caught collective operation timeout|ProcessGroupNCCL.*[Tt]imeout|NCCL WARN "
    r".{0,2000}(?:timeout|unhandled)|"
    r"NCCL error|ncclSystemError|ncclRemoteError|ncclInternalError"
)


def _asks_rdma(s: Situation) -> list[str]:
    found = {r for spec in s.specs.values() for r in fields.scarce_resources(spec)}
    return sorted(r for r in found if re.search(r"rdma|hca|roce|mlnx|efa|infiniband|sriov", r, re.IGNORECASE))


FORCED = re.compile(r"(NCCL_NET=\"?Socket|NCCL_IB_DISABLE=\"?[1-9])", re.IGNORECASE)
SET = re.compile(
    r"(?P<name>NCCL_NET|NCCL_IB_DISABLE|NCCL_IB_HCA) set (?:by environment )?to (?P<value>[^\s.]+)"
)


def _filters(s: Situation) -> list[str]:
    """Return the settings of the network, as templates and logs have them."""
    found = {
        f"{e.get('name')}={e.get('value')}"
        for spec in s.specs.values() for c in fields.containers(spec) for e in fields.items(c, "env")
        if str(e.get("name")) in ("NCCL_IB_HCA", "NCCL_NET", "NCCL_IB_DISABLE")
    }  # fmt: skip
    for lines in s.logs.values():
        for line in lines:
            if told := SET.search(str(line.data.get("line") or "")):
                found.add(f"{told['name']}={told['value']}")
    return sorted(found)


def _sockets(s: Situation, only: list[str], asked: list[str], filters: list[str]) -> Cause:
    """Return why NCCL uses sockets: it was told to, or else one of several."""
    who = wording.listed(only, 4)
    forced = [one for one in filters if FORCED.search(one)]
    if forced:
        return Cause(
            f"NCCL was told to use sockets (NET/Socket) on {who}: {', '.join(forced)}",
            "unset it in the pod, the image and /etc/nccl.conf; NCCL_NET=IB (or the plugin's name) makes a fallback an "
            "error",
        )
    claims = any(fields.items(spec, "spec", "resourceClaims") for spec in s.specs.values())
    why = f"its pods ask for {wording.listed(asked, 2)}" if asked else "no pod asks for an RDMA resource"
    why = "its pods ask for devices by claims" if claims and not asked else why
    return Cause(
        f"NCCL fell back to sockets (NET/Socket) on {who}: {why}"
        + (f"; {', '.join(filters)}" if filters else ""),
        f"to tell why: kubectl exec{s.space} {only[0]} -- ibv_devices (no device: request the RDMA resource in "
        "every pod "
        "template; a device that NCCL_IB_HCA does not match: correct it; not found: the image lacks libibverbs or the "
        "plugin); then test the fabric alone (nccl-tests)",
    )


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
        filters = _filters(s)
        cause = _sockets(s, only, asked, filters)
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
        yield _stall(s, stalled)


def _stall(s: Situation, stalled: dict[str, tuple[str, str]]) -> Suspect:
    """Return that a collective stalled, with what went wrong before it where the logs have that."""
    pod, (text, _) = next(iter(stalled.items()))
    keys = tuple(key for _, key in stalled.values())[:4]
    first = _first_error(s)
    who = wording.listed(sorted(stalled), 4)
    if first is not None:
        cause = Cause(f"a collective stalled or failed in {who}; look first at this: {first[0]}", first[1])
    else:
        cause = Cause(
            f"a collective stalled or failed in {who}",
            "find the rank that is missing in it (its log ends earlier or shows an error first); test the fabric "
            "alone",
        )
    return fault(
        "nccl-stall", Stage.FABRIC, cause, f"{pod}: {text!r}", LIKELY, evidence=keys, rows=("FAB-011",)
    )


def _first_error(s: Situation) -> tuple[str, str] | None:
    """Return (what went wrong before anybody only waited, what to do) by all logs together; None where nothing did."""
    reader = nccl_logs.Reader()
    for pod, lines in s.logs.items():
        for line in lines:
            tag = f"[pod/{pod}/{line.data.get('container') or 'main'}] "
            reader.feed(f"{tag}{line.data.get('line') or ''}\n".encode("utf-8", "surrogatepass"))
        reader.end()
    facts = nccl_logs.draw(reader.seen, nccl_logs.Given())
    reason = next(iter(nccl_logs.failing.violations(facts)), None)
    waited = [one for one in facts.troubles if one.fatal]
    alone = bool(waited) and all(one.follows for one in waited)
    if reason is None or (alone and "sign of trouble" not in reason.text):
        return None
    fix = reason.advice[0].fix if reason.advice else "read that line, and those around it, first"
    return reason.text, fix
