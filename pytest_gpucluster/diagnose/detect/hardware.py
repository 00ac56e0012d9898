"""Errors of GPUs, and fatal words of NCCL, in the logs: whose came first is the cause, the others only waited."""

import dataclasses
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, POSSIBLE, SURE, fault, note
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log.model import Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import vendors, wording
from pytest_gpucluster.measure.nccl import faults, harmless, remedies
from pytest_gpucluster.measure.nccl.advice import Advice
from pytest_gpucluster.requirement import Cause

GPU: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"(?:CUDA|HIP) error: [^\n]*(?:nvlink|xgmi|hardware error)[^\n]*|Xid[^\n]*: "
                r"7[24]\b[^\n]*", re.IGNORECASE),
     "a link between GPUs, or a GPU", "its {link_errors}"),
    (re.compile(r"(?:GPU is lost|GPU has fallen off the bus|uncorrectable ECC|Xid[^\n]*: \d+|double bit ECC|"
                r"row remapping failure)[^\n]*", re.IGNORECASE),
     "a GPU", "its {errors}"),
    (re.compile(r"(?:CUDA|HIP) error: (?!out of memory|invalid (?:argument|device ordinal)|no kernel image|"
                r"(?:the )?provided PTX|initialization error|device-side assert)[^\n]*|"
                r"Cuda failure [^\n]*(?:launch failure|ECC|illegal)[^\n]*"),
     "a GPU, or the program on it", "its {errors}; if there are none, the program failed"),
)  # fmt: skip
"""(what a program prints, what it says of whom, what to look for on the node)."""

WATCHDOG = re.compile(
    r"Watchdog caught collective operation timeout|[Tt]imeout.*collective|Heartbeat monitor timed out"
)
RANK = re.compile(r"^\[(?:[\w-]+,)?rank(?P<rank>\d+)\]")
GLOG = re.compile(r"(?:^|[\[\s:])[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)")
"""The time that torch puts before its lines: `[E1005 09:33:21.103`."""

FIRST = datetime.min.replace(tzinfo=UTC)

NEAR = 30
"""Lines around an error in which its time may stand."""

WARN = re.compile(r"NCCL WARN (?P<said>.*)")
UNEXPLAINED = Advice(
    "an operation of NCCL failed", "read the first warning of any rank: it causes the later ones"
)
PROGRESS = re.compile(r"\b(?:step|iter(?:ation)?|epoch|loss|it/s|samples/s|tokens/s|busbw)\b", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Error:
    """An error of a GPU in a log."""

    pod: str
    said: str
    whose: str
    look: str
    rank: str
    at: datetime | None
    key: str


def _time(lines: tuple[Line, ...], number: int) -> datetime | None:
    """Return the time that the log tells of a line, from the nearest line that has one."""
    for n in sorted(
        range(max(0, number - NEAR), min(len(lines), number + NEAR)), key=lambda one: abs(one - number)
    ):
        found = GLOG.search(str(lines[n].data.get("line") or ""))
        if found:
            try:
                return datetime.strptime(
                    f"2000-{found['month']}-{found['day']} {found['clock']}", "%Y-%m-%d %H:%M:%S"
                ).replace(tzinfo=UTC)
            except ValueError:
                continue
    return None


def gpu_errors(s: Situation) -> list[Error]:
    """Return the errors of GPUs that members printed, one a pod, the earliest first as far as they tell the time."""
    found = []
    for pod, lines in s.logs.items():
        for number, line in enumerate(lines):
            text = str(line.data.get("line") or "")
            hit = next(((p.search(text), w, k) for p, w, k in GPU if p.search(text)), None)
            if hit is not None and hit[0] is not None and "Watchdog" not in text:
                rank = RANK.search(text.strip())
                said = hit[0].group(0).strip()
                found.append(
                    Error(
                        pod,
                        said,
                        hit[1],
                        hit[2],
                        rank["rank"] if rank else "",
                        _time(lines, number),
                        line.key,
                    )
                )
                break
    return sorted(found, key=lambda e: (e.at is None, e.at or FIRST))


def first_watchdog(s: Situation) -> tuple[str, datetime | None] | None:
    """Return (pod, when) of the earliest watchdog of a collective."""
    found = []
    for pod, lines in s.logs.items():
        for number, line in enumerate(lines):
            if WATCHDOG.search(str(line.data.get("line") or "")):
                found.append((pod, _time(lines, number)))
                break
    return min(found, key=lambda one: (one[1] is None, one[1] or FIRST), default=None)


def gpu_failed(s: Situation) -> Iterator[Suspect]:
    """A member printed an error of its GPU: it came before the others' time-outs, which only waited for it."""
    errors = gpu_errors(s)
    if not errors or s.phase == "Completed" or _went_on(s, errors[0]):
        return
    one = errors[0]
    pod = next((p for p in s.pods if p.name == one.pod), None)
    node = pod.node if pod is not None and pod.node else "its node"
    resource = vendors.resource_of(pod.last) if pod is not None else ""
    vendor = vendors.of(resource, one.said)
    look = one.look.format(errors=vendor.errors, link_errors=vendor.link_errors)
    who = f"rank {one.rank} on {node} ({one.pod})" if one.rank else f"{one.pod} on {node}"
    waited = first_watchdog(s)
    late = ""
    if waited is not None and waited[0] != one.pod:
        seconds = (waited[1] - one.at).total_seconds() if waited[1] and one.at else None
        late = f"; the watchdog of {waited[0]} came {_beside(seconds)}"
    cause = Cause(
        f"{who}: {words.short(one.said)}: {one.whose} failed{late}",
        f"look at {node}: {look} ({vendors.check(resource, node, one.said)}); if there are any, drain it (kubectl "
        f"cordon {node}) and start the gang elsewhere",
    )
    others = [e.pod for e in errors[1:]]
    seen = f"{one.pod} printed {words.short(one.said)!r}" + (
        f"; later also {wording.listed(others, 4)}" if others else ""
    )
    sure = len(errors) == 1 or (one.at is not None and all(e.at is not None for e in errors))
    yield fault(
        "gpu-error", Stage.RUN, cause, seen, SURE if sure else LIKELY, evidence=tuple(e.key for e in errors[:4]),
        where=(pod.where,) if pod is not None else (f"Pod/{one.pod}",), rows=("HLT-004",
        "FAB-011") if late else ("HLT-004",),
        look=(f"kubectl logs{s.space} {one.pod}", *((f"kubectl describe node {node}",) if pod and pod.node else ())),
    )  # fmt: skip


def _beside(seconds: float | None) -> str:
    """Say when a watchdog came, by the seconds from an error to it, and which of both may follow from the other."""
    if seconds is None:
        return "beside it"
    if seconds < 0:
        return f"{_lasted(-seconds)} earlier: this may follow from what stalled there"
    return f"{_lasted(seconds)} later, and only waited for this rank"


def _lasted(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _went_on(s: Situation, one: Error) -> bool:
    """Report whether that pod succeeded, or a later one did its work."""
    pod = next((p for p in s.pods if p.name == one.pod), None)
    return pod is not None and pod.phase == "Succeeded"


def nccl_warned(s: Situation) -> Iterator[Suspect]:
    """NCCL warned of what no collective survives; a warning of unknown meaning is told, and never good news."""
    if s.phase == "Completed":
        return
    fatal: dict[str, list[tuple[str, str, str, str]]] = {}
    unknown: list[tuple[str, str, str, bool]] = []
    for pod, lines in s.logs.items():
        story = next((p for p in s.pods if p.name == pod), None)
        if story is not None and story.phase == "Succeeded":
            continue
        told = [(n, m["said"].strip()) for n, line in enumerate(lines) if (m := WARN.search(_text(line)))]
        for number, said in told[:8]:
            after = any(
                PROGRESS.search(_text(line)) and "NCCL" not in _text(line) for line in lines[number + 1 :]
            )
            known = faults.of(said, "WARN")
            if known is not None and known.kind in faults.FATAL and not after:
                advice = next(iter(remedies.of(known, amd=_amd(s, story))), UNEXPLAINED)
                fatal.setdefault(advice.cause, []).append((pod, said, lines[number].key, advice.fix))
                break
            if known.kind in faults.FATAL if known is not None else not harmless.why(said):
                unknown.append((pod, said, lines[number].key, after))
                break
    for meaning, found in fatal.items():
        pods = list(dict.fromkeys(pod for pod, *_ in found))
        pod, said, _, fix = found[0]
        cause = Cause(f"{meaning} in {wording.listed(pods, 4)}: NCCL warns {words.short(said)!r}", fix)
        yield fault(
            "nccl-fatal", Stage.FABRIC, cause,
            f"{pod}: {words.short(said)!r}, but nothing shows that it went on", LIKELY,
            evidence=tuple(key for _, _, key, _ in found[:4]), rows=("FAB-001",), where=_places(s, pods),
            look=(f"kubectl logs{s.space} {pod}",),
        )  # fmt: skip
    if unknown and not fatal:
        yield _unknown(s, unknown)


def _amd(s: Situation, pod: PodStory | None) -> bool:
    """Report whether a pod's collectives are those of AMD's RCCL: by its devices, else by what the logs say."""
    if pod is not None and (resource := vendors.resource_of(pod.last)):
        return vendors.of(resource) is vendors.AMD
    return any("RCCL version" in _text(line) for lines in s.logs.values() for line in lines)


def _unknown(s: Situation, unknown: list[tuple[str, str, str, bool]]) -> Suspect:
    pods = list(dict.fromkeys(pod for pod, *_ in unknown))
    pod, said, _, _ = unknown[0]
    known = faults.of(said, "WARN")
    cause = Cause(
        f"NCCL warned in {wording.listed(pods, 4)}; this program does not know the warning: {words.short(said)!r}",
        "read the log around it; `gpucluster judge nccl` judges the logs of all ranks",
    )
    if known is not None and known.kind in faults.FATAL:
        story = next((p for p in s.pods if p.name == pod), None)
        advice = next(iter(remedies.of(known, amd=_amd(s, story))), UNEXPLAINED)
        cause = Cause(
            f"{advice.cause} in {wording.listed(pods, 4)}: NCCL warned {words.short(said)!r}", advice.fix
        )
    went_on = all(after for *_, after in unknown)
    seen = f"{pod}: {words.short(said)!r}, " + (
        "and it went on" if went_on else "and nothing shows that it went on"
    )
    more = {"evidence": tuple(key for _, _, key, _ in unknown[:4]), "where": _places(s, pods)}
    if went_on:
        return note("nccl-warning", Stage.FABRIC, cause, seen, **more)
    return fault("nccl-warning", Stage.FABRIC, cause, seen, POSSIBLE, **more)


def _text(line: Line) -> str:
    return str(line.data.get("line") or "")


def _places(s: Situation, pods: list[str]) -> tuple[str, ...]:
    known = {p.name: p for p in s.pods}
    return tuple(known[pod].where if pod in known else f"Pod/{pod}" for pod in pods[:8])
