"""RDZV-003: a member waits for the others' names in an init container, for a bounded time, counted by itself.

How long a gang takes to start is the sum of what a scheduler did, what a node did, and what DNS did; a wait for names
that is hidden in a launcher's time-out looks like any of them. So the wait stands in a container of its own, tells
how long it took and why it ended, and is told here beside the time that the scheduler took, never added to it.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import late_names, name_resolution
from pytest_gpucluster.judge.rendezvous.presuppositions import HOSTED
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "members wait in an init container until names resolve, and then go on; if a name never resolves, they end "
    "with a non-zero exit code within the bound and name it; the wait is reported apart from the scheduling time"
)
ENDS_WITHIN = 10.0
"""Seconds in which a process that has given up ends and its kubelet says so; recorded on kubelets: 1 to 3 s."""
LATE = 3.0
"""Seconds from the bound to the end being seen: exit, status."""
CACHED = 5.0
"""Seconds after which a name that is there and still unknown points to a kept denial."""

DENIAL = Cause(
    "a DNS server caches that the name did not exist (30 s in the classic Corefile: `cache 30`)",
    "create the Service before the Job, look up names with a final dot, and disable denial caching for cluster.local",
)
NOT_PUBLISHED = Cause(
    "the Service publishes pods only once they are ready, and a member in an init container is never "
    "ready: all members wait for each other",
    "set publishNotReadyAddresses on the headless Service",
)
NO_SERVICE = Cause(
    "there is no headless Service of that name, or it does not select the pods",
    "compare metadata.name and spec.selector of the Service with spec.subdomain and the labels of the pods",
)
UNBOUNDED = Cause(
    "the wait has no time-out, or one unanswered look-up outlasts it (5 s per server, twice, for each search "
    "domain)",
    "look names up in a thread or with `timeout`, and end at the bound",
)
SILENT = Cause(
    "the wait ends without a message, or its log is not kept",
    "make it log the missing name and the resolver's answer before it ends",
)
IGNORED = Cause(
    "the container went on although the wait failed: its exit code is lost, or it is not an init container",
    "make the wait an init container that ends with a code other than 0 if a name is missing",
)
TOO_EARLY = Cause(
    "the launcher started before the names existed, decided once, and does not look again",
    "wait for DNS before the launcher starts, or set which replica hosts the store (is_host)",
)
_GAVE_UP = re.compile(r"timed out|Timeout|giving up|Connection refused", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Bounded:
    """What one member told of a wait that has a bound; None where it did not."""

    FOR: ClassVar[str] = ""
    pod: PodStory
    began: Word | None
    over: Word | None

    @property
    def within(self) -> float | None:
        """Return the bound that it was given."""
        for word in (self.over, self.began):
            value = None if word is None else word.data.get("within")
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
        return None

    @property
    def seconds(self) -> float | None:
        """Return how long it waited, by its own clock."""
        value = None if self.over is None else self.over.data.get("seconds")
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def overdue(self, evidence: Evidence, grain: float) -> str:
        """Return `still waits for WHAT after 9.0 s, the bound is 5 s` where it outlasted its bound, else ""."""
        if self.began is None or self.within is None:
            return ""
        gone = self.pod.finished if self.pod.finished is not None else self.pod.deleting
        lasted = self.seconds
        if self.over is None:
            lasted = (evidence.end if gone is None else gone) - self.began.t
        if lasted is None or lasted <= self.within + LATE + grain:
            return ""
        state = "still waits" if self.over is None and gone is None else "waited"
        return f"{state} for {self.FOR} after {lasted:.1f} s, the bound is {self.within:g} s"

    def outlived(self, evidence: Evidence, grain: float) -> str:
        """Return how its pod went on after a wait in vain, "" where it ended in time: a word is no end."""
        if self.began is None or self.within is None:
            return ""
        ends = (self.pod.finished, self.pod.deleting, evidence.end)
        lasted = next(t for t in ends if t is not None) - self.began.t
        if lasted <= self.within + LATE + ENDS_WITHIN + grain:
            return ""
        state = "ended" if self.pod.finished is not None else "had not ended"
        return f"{state} {lasted:.1f} s after it began to wait for {self.FOR}, the bound is {self.within:g} s"

    @property
    def found(self) -> bool:
        """Report whether what it waited for came."""
        return self.over is not None and self.over.data.get("ok") is True


@dataclasses.dataclass(frozen=True)
class Wait(Bounded):
    """A wait for names."""

    FOR: ClassVar[str] = "names"

    @property
    def tries(self) -> int:
        """Return how often the name that took longest was looked up."""
        told = fields.sub(self.over.data, "names") if self.over is not None else {}
        return max(
            (fields.number(one, "tries") or 0 for one in told.values() if isinstance(one, dict)), default=0
        )

    @property
    def missing(self) -> list[tuple[str, str]]:
        """Return the names without an answer, each with what the resolver said."""
        told = fields.sub(self.over.data, "names") if self.over is not None else {}
        return [
            (str(name), str(one.get("kind") or ""))
            for name, one in told.items()
            if isinstance(one, dict) and not one.get("addresses")
        ]


@subjects.judge
def bounded(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge RDZV-003."""
    held = subjects.cast(evidence, given, "held")
    vain = subjects.cast(evidence, given, "unanswered")
    if not held and not vain:
        return _foreign(evidence, given)
    findings = [_held(evidence, given, gang) for gang in held or ()]
    findings += [_vain(evidence, given, gang) for gang in vain or ()]
    if not held or not vain:
        what = (
            "that waited for names that resolve" if not held else "that waited for a name that never resolves"
        )
        findings.append(wording.finding(Verdict.INCONCLUSIVE, REQUIRED, f"no gang {what} was seen"))
    return wording.together(findings)


def waits(evidence: Evidence, gang: Gang) -> list[Wait]:
    """Return what each member of a gang told of its wait."""
    words = payload_lines.words(evidence)
    return [Wait(pod, words.last("waiting", pod.uid), words.last("waited", pod.uid)) for pod in gang.pods]


def _held(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding:
    """Judge the members whose names come late."""
    found = waits(evidence, gang)
    keys = tuple(w.key for one in found for w in (one.began, one.over) if w is not None)[:8]
    told = wording.Findings(REQUIRED, gang, evidence=keys, numbers=_numbers(found))
    for text, causes in (
        *_endless(evidence, given, found),
        *_not_found(evidence, gang, found),
        *_ignored(found),
    ):
        return told.fail(text, *causes)
    logged = payload_lines.words(evidence).logged
    for one in found:
        code = init_code(one.pod)
        if one.over is None and code and one.pod.uid in logged:
            text = f"the wait of {one.pod.name} ended with {code} without reporting a result"
            return told.fail(text, SILENT)
    mute = [one.pod.name for one in found if one.over is None]
    if not found or mute:
        return told.inconclusive(f"{wording.listed(mute) or gang.title}: no message of a wait was read")
    unplaced = [one.pod.name for one in found if one.pod.bound is None]
    if unplaced:
        return told.inconclusive(
            f"the time of placing {wording.listed(unplaced)} was not seen, so the wait cannot be compared with it"
        )
    if all(one.tries < 2 for one in found):
        return told.inconclusive("every name resolved at the first look-up: no member had to wait")
    stuck = [one.pod.name for one in found if one.pod.finished is None and not one.pod.exit_codes]
    if stuck:
        return told.inconclusive(f"{wording.listed(stuck)} found the names but was not seen to end")
    longest = max(found, key=lambda one: one.seconds or 0.0)
    text = (
        f"{len(found)} members waited {longest.seconds:.1f} s at most for names ({longest.tries} look-ups, bound "
        f"{longest.within or 0:g} s) and went on; scheduling took {_scheduling(found):.2f} s apart from that"
    )
    lag = _lag(evidence, gang, found)
    causes = (DENIAL,) if lag is not None and lag > CACHED else ()
    return told.passed(text, *causes)


def _numbers(found: Sequence[Wait]) -> tuple[Number, ...]:
    """Return the longest wait and, apart from it, the longest time that scheduling took."""
    seconds = [one.seconds for one in found if one.seconds is not None]
    bounds = [one.within for one in found if one.within is not None]
    placed = [one.pod for one in found if one.pod.bound is not None]
    wait = Number(
        "wait for names", max(seconds, default=None), "s", max(bounds, default=None),
        "time-out of the wait; measured in the container, from its first look-up",
    )  # fmt: skip
    if not placed:
        return (wait,)
    apart = Number(
        "scheduling",
        round(_scheduling(found), 3),
        "s",
        origin="watch, created to bound; not part of the wait",
    )
    return wait, apart


def _scheduling(found: Sequence[Wait]) -> float:
    return max((one.pod.bound - one.pod.created for one in found if one.pod.bound is not None), default=0.0)


def _lag(evidence: Evidence, gang: Gang, found: Sequence[Wait]) -> float | None:
    """Return the longest time from the Service being there to names being found, None where it cannot be told."""
    services = [line for line in evidence.of_kind("Service") if line.name in _subdomains(gang)]
    over = [one.over.t for one in found if one.over is not None]
    return max(over) - services[0].t if services and over else None


def _subdomains(gang: Gang) -> set[str]:
    return {fields.text(pod.last, "spec", "subdomain") for pod in gang.pods}


def _endless(
    evidence: Evidence, given: subjects.Given, found: Sequence[Wait]
) -> Iterator[tuple[str, tuple[Cause, ...]]]:
    """Yield members whose wait outlasted its bound."""
    grain = subjects.of(evidence, given).grain
    for one in found:
        said = one.overdue(evidence, grain)
        if said:
            yield f"{one.pod.name} {said}", (UNBOUNDED,)


def _not_found(
    evidence: Evidence, gang: Gang, found: Sequence[Wait]
) -> Iterator[tuple[str, tuple[Cause, ...]]]:
    """Yield the members that did not find names which the cluster should have given."""
    for one in found:
        if one.over is None or one.found:
            continue
        names_ = wording.listed([name for name, _ in one.missing], 4) or "a name"
        asked = (
            wording.listed([str(server) for server in one.over.data.get("resolver") or ()], 3)
            or "the resolver"
        )
        silent = all(kind == "no-answer" for _, kind in one.missing)
        said = f"no answer from DNS ({asked})" if silent else f"{asked} answers that the name does not exist"
        text = f"{one.pod.name} did not find {names_} within {one.within or 0:g} s: {said}"
        yield text, (name_resolution.NO_SERVER,) if silent else tuple(_why(evidence, gang))


def _why(evidence: Evidence, gang: Gang) -> Iterator[Cause]:
    """Yield why names of a gang's pods are unknown, likeliest first, by what its Service looks like."""
    services = [line.object for line in evidence.of_kind("Service") if line.name in _subdomains(gang)]
    if not services:
        yield NO_SERVICE
        return
    if not fields.sub(services[-1], "spec").get("publishNotReadyAddresses"):
        yield NOT_PUBLISHED
    yield name_resolution.DNS
    yield DENIAL


def _ignored(found: Sequence[Wait]) -> Iterator[tuple[str, tuple[Cause, ...]]]:
    """Yield the members whose main container ran though the wait had failed."""
    for one in found:
        if one.over is not None and not one.found and (one.pod.exit_codes and _started(one.pod)):
            yield f"{one.pod.name} went on although it had not found every name", (IGNORED,)


def _started(pod: PodStory) -> bool:
    """Report whether a regular container of a pod was started."""
    statuses = fields.items(pod.last, "status", "containerStatuses")
    return any(containers.began(status) for status in statuses)


def _vain(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding:
    """Judge the member that waits for a name which never comes."""
    found = waits(evidence, gang)
    keys = tuple(w.key for one in found for w in (one.began, one.over) if w is not None)[:8]
    bounds = [one.within for one in found if one.within is not None]
    number = Number(
        "wait for a name that never comes", max((one.seconds or 0.0 for one in found if one.over), default=None), "s",
        max(bounds, default=None), "time-out of the wait; measured in the container",
    )  # fmt: skip
    told = wording.Findings(REQUIRED, gang, evidence=keys, numbers=(number,))

    for text, causes in _endless(evidence, given, found):
        return told.fail(text, *causes)
    for one in found:
        if not one.found and (text := one.outlived(evidence, subjects.of(evidence, given).grain)):
            return told.fail(f"{one.pod.name} {text}", UNBOUNDED)
    for one in found:
        if one.found:
            return told.inconclusive(f"{one.pod.name} found the name that must not exist")
        ended, code = one.pod.finished is not None, init_code(one.pod)
        if ended and (code == 0 or (code is None and one.pod.phase == "Succeeded") or _started(one.pod)):
            return told.fail(f"{one.pod.name} went on without the name it waited for", IGNORED)
        if ended and one.began is not None and not _explained(one):
            return told.fail(f"{one.pod.name} ended without naming the missing name", SILENT)
    open_ = [one.pod.name for one in found if one.over is None or one.pod.finished is None]
    if not found or open_:
        what = wording.listed(open_) or gang.title
        expired = subjects.timed_out(evidence, gang.created)
        waited = f" (waited for {expired[0]})" if expired else ""
        return told.inconclusive(f"{what}: no end of a failed wait was seen{waited}")
    one = found[0]
    code = init_code(one.pod)
    text = f"{one.pod.name} gave up after {one.seconds or 0:.1f} s with {code} and says: {_explained(one)}"
    return told.passed(text)


def _explained(one: Wait) -> str:
    """Return how a wait in vain says which name it missed, "" where it does not."""
    if one.over is None:
        return ""
    error = str(one.over.data.get("error") or "")
    return error if any(name in error for name, _ in one.missing) else ""


def init_code(pod: PodStory) -> int | None:
    """Return the exit code of the init container that failed, 0 where all ended well, None where none was seen."""
    codes = [
        code
        for status in fields.items(pod.last, "status", "initContainerStatuses")
        for part in ("state", "lastState")
        if (code := fields.number(containers.end_of(status, part), "exitCode")) is not None
    ]
    return max(codes, default=None)


def _foreign(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge evidence of others, in which logs tell which names were unknown and EndpointSlices when they came."""
    told = late_names.decide(evidence, REQUIRED, name_resolution.DNS)
    if told is not None and told.verdict is not Verdict.INCONCLUSIVE:
        return told
    early = _too_early(evidence)
    if early is not None:
        return early
    if told is not None:
        return told
    jobs = [gang for gang in subjects.everyone(evidence) if any(one.began for one in waits(evidence, gang))]
    if jobs:
        return wording.gravest([_held(evidence, given, gang) for gang in jobs])
    return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, "no wait for names in the evidence")


def _too_early(evidence: Evidence) -> Finding | None:
    """Judge launchers that met an unknown name, went on, and gave up long after the name was there."""
    for one in late_names.unknown_names(evidence):
        since = late_names.published(evidence, one.name)
        if since is None or one.late >= since or one.went_well:
            continue
        after = [
            line for line in evidence.logs()
            if line.t > since and line.data.get("pod") == one.pod and _GAVE_UP.search(str(line.data.get("line") or ""))
        ]  # fmt: skip
        if not after:
            continue
        started = min(line.t for line in evidence.logs() if line.data.get("pod") == one.pod)
        hosted = any(HOSTED.search(str(line.data.get("line") or "")) for line in evidence.logs())
        text = (
            f"{one.name} became resolvable at t={since:.0f} s, {one.pod} started at t={started:.0f} s without waiting "
            f"for it and gave up at t={after[-1].t:.0f} s"
        )
        if not hosted:
            text += f"; no agent reports that it hosts the store, not even {one.name.partition('.')[0]}"
        return wording.finding(
            Verdict.FAIL, REQUIRED, text, causes=(TOO_EARLY,), evidence=(one.key, after[-1].key),
            where=(f"Pod/{one.pod}",), violation=True,
        )  # fmt: skip
    return None
