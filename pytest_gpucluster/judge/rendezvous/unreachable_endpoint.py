"""RDZV-004: a rendezvous that cannot be reached ends in time, and says why.

Launchers have long defaults: torchrun over c10d gives up after 60 s where nobody hosts the store and after 600 s
where members are missing, the static rendezvous after 900 to 1850 s; a client that connects overshoots its time-out up
to two and a half times (measured with torch 2.13). Whoever waits longer than that without a word hangs.
"""

import dataclasses
import re
from collections.abc import Iterator

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "if a member cannot reach its rendezvous, because nothing hosts it or its name does not exist, it ends with "
    "a non-zero exit code within its bound and names the endpoint"
)
OVERSHOOT = 2.5
LATE = 5.0
"""Seconds for the process to begin and for its end to be seen."""
DEFAULT_BOUND = 600.0
"""Seconds, where none is declared: join_timeout of torchrun's c10d rendezvous."""

HANGS = Cause(
    "the launcher's time-outs are longer than the declared bound, or it has none: the static rendezvous waits 900 s "
    "and more, c10d 600 s for missing members",
    "set --rdzv-conf=join_timeout=..,read_timeout=.. (c10d) or a time-out for init_process_group, shorter than the "
    "bound",
)
DROPPED = Cause(
    "look-ups or connections get no answer at all, so each try lasts until the system's own limit",
    "make DNS answer unknown names at once (NXDOMAIN), and make policies reject rather than drop",
)
HIDDEN = Cause(
    "the exit code is lost: a wrapper swallows it, or the node reports another",
    "make the launcher process 1 of the container (`exec torchrun ...`)",
)
WORDLESS = Cause(
    "the program ends without naming the endpoint",
    "print endpoint, time-out and the last error before the end; torchrun does",
)

EXPLAINED = re.compile(
    r"client socket has (?:timed out|failed to connect)|RendezvousTimeoutError|RendezvousConnectionError|"
    r"Timed out after \d+ seconds waiting for clients|DistStoreError|The IPv[46] network addresses of .* cannot be",
)
"""What torch says of a rendezvous that it could not reach."""
GAVE_UP = re.compile(
    r"timed out|Timeout|Timed out|failed to connect|RendezvousConnectionError|DistStoreError"
)
NOMINAL = re.compile(
    r"(?:timed out after|Timed out after|timeout[=:]?) ?(\d+) ?(ms|s|seconds)?", re.IGNORECASE
)


@dataclasses.dataclass(frozen=True)
class Member:
    """One member that tried: what kept it from its rendezvous, how long it tried, what it said, how it ended."""

    name: str
    pod: PodStory | None
    tried: bool
    seconds: float
    ended: bool
    code: int | None
    said: str
    nominal: float | None
    key: str


@subjects.judge
def ends_explained(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge RDZV-004."""
    known = subjects.roles(evidence, given)
    roles = [role for role in ("endpoint", "subdomain") if role in known]
    if not roles:
        return _decide(evidence, given, None, list(_loggers(evidence)), "")
    findings = []
    for role in roles:
        played = subjects.cast(evidence, given, role) or ()
        gang = played[0] if played else None
        members = list(_members(evidence, gang)) if gang is not None else []
        findings.append(_decide(evidence, given, gang, members, f"{role}: "))
    worst = wording.gravest(findings)
    if worst.verdict is not Verdict.PASS:
        return worst
    text = "; ".join(finding.observed for finding in findings)
    return wording.finding(
        Verdict.PASS, REQUIRED, text, numbers=tuple(n for f in findings for n in f.numbers),
        where=tuple(w for f in findings for w in f.where), evidence=tuple(k for f in findings for k in f.evidence),
        repeat=worst.repeat,
    )  # fmt: skip


def _members(evidence: Evidence, gang: Gang) -> Iterator[Member]:
    """Yield the members of a gang of ours."""
    words = payload_lines.words(evidence)
    for pod in gang.pods:
        met = words.last("barrier", pod.uid)
        tries = [*words.of("resolved", pod.uid), *words.of("connected", pod.uid)]
        end = pod.finished if pod.finished is not None else min(pod.deleting or evidence.end, evidence.end)
        start = pod.running if pod.running is not None else pod.bound
        codes = [code for _, code in pod.exit_codes]
        yield Member(
            name=pod.name,
            pod=pod,
            tried=any(word.data.get("ok") is False for word in tries),
            seconds=end - start if start is not None else 0.0,
            ended=pod.finished is not None,
            code=max(codes, default=None) if pod.finished is not None else None,
            said=str((met.data.get("error") if met is not None else "") or ""),
            nominal=None,
            key=met.key if met is not None else pod.keys["created"],
        )


def _loggers(evidence: Evidence) -> Iterator[Member]:
    """Yield the pods whose logs show a launcher that could not reach its rendezvous."""
    by_name = {pod.name: pod for pod in pods(evidence)}
    lines: dict[str, list[tuple[float, str, str]]] = {}
    for line in evidence.logs():
        name = str(line.data.get("pod") or "")
        lines.setdefault(name, []).append((line.t, str(line.data.get("line") or ""), line.key))
    for name, said in lines.items():
        telling = [one for one in said if EXPLAINED.search(one[1])]
        if not telling:
            continue
        last = next((one for one in reversed(telling) if GAVE_UP.search(one[1])), telling[-1])
        pod = by_name.get(name)
        codes = [code for _, code in pod.exit_codes] if pod is not None else []
        yield Member(
            name=name,
            pod=pod,
            tried=True,
            seconds=last[0] - said[0][0],
            ended=bool(GAVE_UP.search(last[1])),
            code=max(codes, default=None),
            said=last[1].strip(),
            nominal=_nominal(last[1]),
            key=last[2],
        )


def _nominal(text: str) -> float | None:
    """Return the time-out that a message names, in seconds."""
    match = NOMINAL.search(text)
    if match is None:
        return None
    value = float(match.group(1))
    return value / 1000 if match.group(2) == "ms" else value


def _decide(
    evidence: Evidence, given: subjects.Given, gang: Gang | None, members: list[Member], prefix: str
) -> Finding:
    tried = [member for member in members if member.tried]
    if not tried:
        text = f"{prefix}no member failed to reach its rendezvous"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang)
    declared = subjects.seconds(given, "within", "join_timeout", "rendezvous")
    keys = tuple(member.key for member in tried)[:8]
    where = tuple(m.pod.where if m.pod is not None else f"Pod/{m.name}" for m in tried)[: wording.MANY]
    slowest = max(member.seconds for member in tried)
    number = Number(
        "time until a member gave up", round(slowest, 3), "s", bound=declared,
        origin="declared bound of one step" if declared else "no bound declared",
    )  # fmt: skip
    for member in tried:
        fault = _fault(evidence, given, member, declared)
        if fault is not None:
            text, causes = fault
            return wording.finding(
                Verdict.FAIL, REQUIRED, f"{prefix}{text}", gang, where=where, causes=causes, evidence=(member.key,),
                numbers=(number,),
            )  # fmt: skip
    going = [m.name for m in tried if not m.ended]
    still = [m.name for m in members if not m.tried]
    if going or (still and gang is not None):
        text = (
            f"{prefix}{wording.listed(going or still)} {'had not ended' if going else 'was not seen to try'}"
        )
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text, gang, where=where, evidence=keys, numbers=(number,)
        )
    text = f"{prefix}{len(tried)} members gave up after {slowest:.1f} s at most: {wording.short(tried[0].said)!r}"
    return wording.finding(Verdict.PASS, REQUIRED, text, gang, where=where, evidence=keys, numbers=(number,))


def _fault(
    evidence: Evidence, given: subjects.Given, member: Member, declared: float | None
) -> tuple[str, tuple[Cause, ...]] | None:
    """Return how a member did not end as required, and why."""
    limits = subjects.of(evidence, given)
    bound = member.nominal or declared or DEFAULT_BOUND
    # A member of ours looks the name up, then connects: two steps with a bound each.
    allowed = OVERSHOOT * bound * (2 if limits.arranged else 1) + LATE + limits.grain
    if member.seconds > allowed:
        state = "ended" if member.ended else "had not ended"
        return f"{member.name} {state} after {member.seconds:.1f} s, its bound is {bound:g} s", (
            HANGS,
            DROPPED,
        )
    if not member.ended:
        expired = subjects.timed_out(evidence) if limits.arranged else None
        if expired is None:
            return None
        return f"{member.name} had not ended (waited for {expired[0]})", (HANGS, DROPPED)
    if member.code == 0:
        return f"{member.name} could not reach its rendezvous but ended with 0", (HIDDEN,)
    if not member.said:
        return f"{member.name} ended with {member.code} without naming the endpoint", (WORDLESS,)
    return None
