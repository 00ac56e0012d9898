"""What the rows about speed share: who measured, on what GPU, and why a figure cannot be taken for one."""

import dataclasses
from typing import Any

from pytest_gpucluster.evidence.hardware import throughput
from pytest_gpucluster.evidence.hardware.throughput import Rank, Told
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.measure import consistency, peaks, samples
from pytest_gpucluster.requirement import Cause, Finding, Verdict

SLACK = consistency.SLACK
BAD_CLOCKS = ("hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake")
"""Reasons for low clocks that no healthy GPU has under load. A software power cap is normal at full load."""
BAD_SHARE = 0.05
"""Part of the samples from which on such a reason counts."""
LIMIT_SLACK = 0.99
"""A power limit below this part of the board's own is a lowered one."""

NO_LINE = Cause(
    "a rank ended before it reported its figures: it was killed (memory, eviction), or another rank ended first "
    "and torchrun ended all",
    "read the log of the rank that is missing, and the events of its pod",
)
UNKNOWN_GPU = Cause(
    "the GPU's name is not in the list of peaks, or it is a slice or a shared GPU, which has no known peak",
    "declare its dense peak under mfu.peaks with mfu.peaks_origin; never use the peak of another part",
)
WRONG_PEAK = Cause(
    "a figure above the peak is a wrong clock, a missing synchronisation, operands of zeros, or another part's peak",
    "measure again with the shipped payload; check mfu.peaks, and that dense and not sparse figures were declared",
)
THROTTLED = Cause(
    "the GPU lowers its clock because of heat or because its board demands it",
    "check the node's cooling, inlet temperature and power supply: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
)
CAPPED = Cause(
    "the power limit is below the board's default, and peaks and floors assume the default",
    "set it back (nvidia-smi -pl), or declare the intended limit under mfu.power_w",
)
SHORT = Cause(
    "the run was too short: the first second runs at boost, the first steps compile and allocate",
    "make it run longer: mfu.seconds, or --steps of the payload",
)
UNREADABLE = Cause(
    "neither NVML nor nvidia-smi works in the container, so throttling cannot be seen",
    "let the container runtime mount the driver's utilities (NVIDIA_DRIVER_CAPABILITIES=compute,utility), or put "
    "nvidia-ml-py into the image",
)
LOST = Cause(
    "the GPU fell off the bus or its driver gave it up during the run (an Xid in the kernel's log of the node)",
    "look for `NVRM: Xid` in dmesg of the node; drain it, reset or replace the GPU",
)
MEMORY = Cause(
    "GPU memory ran out: another process holds some, or the declared size is too large for this GPU",
    "look for other processes on the GPU (nvidia-smi); declare a smaller mfu.training.batch, or recompute",
)
BLIND = Cause(
    "the container has no GPU although its pod asked for some: no device plugin or runtime class, or a torch for CPUs",
    "look for the devices in the container (nvidia-smi -L) and for torch.version.cuda; see HLT-004",
)
WRONG_PRODUCT = Cause(
    "the GPU computes wrongly: memory or cores are damaged, and no error counter noticed",
    "take the GPU out; run dcgmi diag -r 3 on it",
)


@dataclasses.dataclass(frozen=True)
class Doubt:
    """Why a figure cannot be taken for one.

    Attributes:
        text: what is wrong with it.
        rank: whose figure it is.
        cause: the likeliest cause.
        impossible: it cannot be true, whatever the GPU; otherwise it may be, and nobody knows.
        others: further ranks that it is about.
    """

    text: str
    rank: Rank | None
    cause: Cause
    impossible: bool = False
    others: tuple[Rank, ...] = ()

    @property
    def about(self) -> tuple[Rank, ...]:
        """Return all ranks that it is about."""
        return (*(() if self.rank is None else (self.rank,)), *self.others)


def mfu(given: subjects.Given) -> fields.Object:
    """Return what the profile declares of speed."""
    return fields.sub(given, "mfu")


def subject(evidence: Evidence, given: subjects.Given, role: str) -> Gang | None:
    """Return the gang of a role; None where roles are not known."""
    return subjects.first(evidence, given, role)


def told(evidence: Evidence, given: subjects.Given, event: str, role: str) -> tuple[Told, Gang | None]:
    """Return what the ranks of a role told with an event; of all pods where roles are not known."""
    known = subjects.roles(evidence, given)
    gang = subject(evidence, given, role)
    if role in known and gang is None:
        return Told((), 0, 0), None
    return throughput.read(evidence, event, subjects.uids(gang)), gang


def world(given: subjects.Given, ranks: Told, key: str) -> int | None:
    """Return how many ranks there must be."""
    return subjects.count(given, key) or ranks.world


def peak(rank: Rank, number_format: str, given: subjects.Given) -> tuple[float | None, str]:
    """Return the dense TFLOP/s of a rank's GPU, and why there is none; what the profile declares goes first."""
    declared = samples.number(fields.sub(mfu(given), "peaks").get(number_format))
    if declared is not None:
        return declared, ""
    found = part(rank)
    value = found.peak(number_format)
    if value is None and found.part is not None:
        return None, f"{found.part.name} has no known {number_format} path"
    if value is not None and not found.certain:
        return None, f"{rank.device.get('name')!r} stands for more than one part: declare its peak"
    return value, found.why


def part(rank: Rank) -> peaks.Found:
    """Return what is known of a rank's GPU."""
    units = fields.number(rank.device, "sms")
    return peaks.look_up(str(rank.device.get("name") or ""), units)


def nobody(evidence: Evidence, ranks: Told, gang: Gang | None, required: str, what: str) -> Finding | None:
    """Return what an evidence in which no rank told figures makes of a row; None where some did."""
    if ranks.measured:
        return None
    failed = [rank for rank in ranks.ranks if rank.failed is not None]
    keys = tuple(rank.key for rank in ranks.ranks)[:12]
    if failed:
        return of_failed(failed[0], gang, required)
    text = f"no rank reported {what}"
    if ranks.ranks:
        text += f"; {wording.count(len(ranks.ranks), 'rank')} identified themselves"
    if ranks.torn:
        text += f"; {wording.count(ranks.torn, 'line')} cut in the middle"
    expired = subjects.timed_out(evidence)
    if expired is not None:
        text += f"; waited for {expired[0]}"
    return wording.finding(Verdict.INCONCLUSIVE, required, text, gang, causes=(NO_LINE,), evidence=keys)


def without_gpu(
    ranks: Told, given: subjects.Given, gang: Gang | None, required: str, text: str, **more: object
) -> Finding | None:
    """Return what ranks on CPUs make of a row about GPUs; None where GPUs were measured.

    Where the profile says that GPUs are measured, a rank that sees none is a fault and no reason to be silent.
    """
    blind = [rank for rank in ranks.measured if rank.cpu]
    if not blind:
        return None
    if mfu(given).get("device") == "gpu":
        shown = f"{blind[0].place} computed on a CPU: its container sees no GPU"
        return wording.finding(
            Verdict.FAIL, required, shown, gang, violation=True, causes=(BLIND,), where=places(blind), **more
        )
    if len(blind) < len(ranks.measured):
        shown = f"{blind[0].place} computed on a CPU, others on GPUs"
        return wording.finding(Verdict.INCONCLUSIVE, required, shown, gang, causes=(BLIND,), **more)
    shown = f"no GPU was measured; on CPUs, for the record: {text}"
    return wording.finding(Verdict.NOT_APPLICABLE, required, shown, gang, **more)


def lost_gpu(told: Told) -> Rank | None:
    """Return the first rank that gave no figures because its GPU was lost, None where there is none."""
    return next(
        (
            rank
            for rank in told.ranks
            if rank.line is None and rank.failed is not None and rank.failed.data.get("kind") == "device"
        ),
        None,
    )


def of_failed(rank: Rank, gang: Gang | None, required: str) -> Finding:
    """Return what a rank that said what went wrong makes of a row: a lost GPU did not deliver, all else is unknown."""
    data = rank.failed.data if rank.failed is not None else {}
    kind, error = str(data.get("kind") or ""), str(data.get("error") or "")
    during = str(data.get("during") or "")
    text = f"{rank.place} failed in {during or 'its program'}: {error}"
    lost = kind == "device"
    cause = {"device": LOST, "memory": MEMORY}.get(kind, NO_LINE)
    return wording.finding(
        Verdict.FAIL if lost else Verdict.INCONCLUSIVE, required, text, gang, violation=lost,
        where=(rank.place,), causes=(cause,), evidence=(rank.key,),
    )  # fmt: skip


def incomplete(ranks: Told, number: int | None) -> list[Doubt]:
    """Return what is missing or there twice among the lines of a world."""
    doubts = []
    twice = [rank for rank in ranks.ranks if rank.twice]
    doubts += [Doubt(f"{rank.place} reported two different figures", rank, NO_LINE) for rank in twice]
    if number is None:
        doubts.append(Doubt("no rank reports the number of ranks", None, NO_LINE))
        return doubts
    absent = ranks.missing(number)
    if absent:
        text = f"rank {wording.listed([str(one) for one in absent])} of {number} reported no figures"
        if ranks.torn:
            text += f"; {wording.count(ranks.torn, 'line')} cut in the middle"
        doubts.append(Doubt(text, None, NO_LINE))
    worlds = {
        one
        for rank in ranks.ranks
        if rank.line is not None and (one := rank.line.number("world")) is not None
    }
    if worlds - {number}:
        text = f"ranks report worlds of {wording.listed([str(one) for one in sorted(worlds)])}, there must be {number}"
        doubts.append(Doubt(text, None, NO_LINE))
    beyond = [rank for rank in ranks.ranks if rank.rank >= number]
    if beyond:
        doubts.append(Doubt(f"{beyond[0].place} does not belong to a world of {number}", beyond[0], NO_LINE))
    return doubts


def of_clocks(rank: Rank, given: subjects.Given, *, readable: bool) -> list[Doubt]:
    """Return what speaks against a figure in the gauges that were read beside it.

    Args:
        rank: whose.
        given: what is declared.
        readable: whether gauges that could not be read speak against it.
    """
    gauges = fields.sub(rank.told, "gauges")
    if rank.cpu:
        return []
    if gauges.get("how") in (None, "not readable") or not fields.number(gauges, "samples"):
        text = f"{rank.place}: clocks are not readable ({gauges.get('why') or 'nothing was reported'})"
        return [Doubt(text, rank, UNREADABLE)] if readable else []
    doubts = [
        Doubt(f"{rank.place}: impossible gauge values: {text}", rank, UNREADABLE, impossible=True)
        for text in consistency.gauges(gauges)[:1]
    ]
    if readable and not isinstance(gauges.get("reasons"), dict):
        text = f"{rank.place}: {gauges['how']} does not report why clocks were held back"
        doubts.append(Doubt(text, rank, UNREADABLE))
    reasons = fields.sub(gauges, "reasons")
    bad = {
        name: share for name in BAD_CLOCKS if (share := samples.number(reasons.get(name)) or 0) > BAD_SHARE
    }
    if bad:
        listed = ", ".join(f"{name} in {share:.0%} of the samples" for name, share in bad.items())
        doubts.append(Doubt(f"{rank.place}: clocks were held back: {listed}", rank, THROTTLED))
    limit, own = samples.number(gauges.get("limit_w")), samples.number(gauges.get("default_limit_w"))
    meant = samples.number(mfu(given).get("power_w")) or own
    if limit is not None and meant is not None and limit < LIMIT_SLACK * meant:
        text = f"{rank.place}: the power limit is {limit:g} W, that of the board {own or meant:g} W"
        doubts.append(Doubt(text, rank, CAPPED))
    return doubts


def shape(ranks: Told) -> dict[str, Any]:
    """Return the shape of a run: GPU, nodes, GPUs of a node, power limit."""
    by_node: dict[str, int] = {}
    for rank in ranks.measured:
        by_node[rank.node] = by_node.get(rank.node, 0) + 1
    devices = sorted({str(rank.device.get("name") or "") for rank in ranks.measured})
    limits = {samples.number(fields.sub(rank.told, "gauges").get("limit_w")) for rank in ranks.measured}
    return {
        "device": ", ".join(devices),
        "nodes": len(by_node),
        "per_node": sorted(set(by_node.values())),
        "limit_w": max((limit for limit in limits if limit is not None), default=None),
    }


def keys(ranks: Told) -> tuple[str, ...]:
    """Return the keys of the lines with figures."""
    return tuple(rank.key for rank in ranks.measured)[:12]


def places(found: list[Rank]) -> tuple[str, ...]:
    """Return ranks with GPU, pod and node for `where`."""
    return wording.shown([rank.place for rank in found])


def undecided(doubts: list[Doubt], required: str, gang: Gang | None, **more: object) -> Finding:
    """Return the finding of a row whose figures cannot be taken for such."""
    text = "; ".join(doubt.text for doubt in doubts[:4])
    left = f" and {len(doubts) - 4} more" if len(doubts) > 4 else ""
    about = {rank.rank: rank for doubt in doubts for rank in doubt.about}
    if about:
        more.setdefault("where", places(list(about.values())))
    causes = tuple(dict.fromkeys(doubt.cause for doubt in doubts))[:3]
    return wording.finding(Verdict.INCONCLUSIVE, required, text + left, gang, causes=causes, **more)


def plain(value: Any) -> Any:
    """Return facts of a line for the report: what is no finite number becomes None, there as in lists and mappings."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return samples.number(value) if isinstance(value, float) else value
