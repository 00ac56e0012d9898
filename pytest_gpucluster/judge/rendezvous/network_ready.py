"""RDZV-008: a member's launcher starts once the network is there, and what is never there ends the wait with a reason.

A tunnel or a second interface is brought up beside the pod, and a launcher that looks once takes what it finds: the
wrong interface, or nothing. So the wait stands before it, in a container of its own. What is judged is the order of
three things that each member tells with its own clock: the interface was up and the peers answered, then the launcher
started. The kubelet's word about containers explains.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import ClassVar

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import name_resolution
from pytest_gpucluster.judge.rendezvous import dns_wait
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

REQUIRED = (
    "members wait until their interface is up and their peers answer over it, and only then start the launcher; "
    "if that never happens, they end with a non-zero exit code within the bound, name what is missing, and start "
    "no launcher"
)
NAMES = (name_resolution.NO_SERVER, name_resolution.NOT_READY)
"""Why the name of a peer is not known."""

NOT_GATED = Cause(
    "the launcher does not depend on the wait: it runs in a parallel container, or the wait's exit code is lost",
    "make the wait an init container, or the line before `exec torchrun` in an entrypoint that runs under `set -e`",
)
INTERFACE = Cause(
    "the interface was not brought up in this pod (no network attachment, or a tunnel that does not come up), or "
    "its name differs from the declared one",
    "look at the pod's interfaces (`ip -brief address`), its k8s.v1.cni.cncf.io/networks annotation and the tunnel's "
    "log on this node, and declare the name seen in pods",
)
PEERS = Cause(
    "the peers' names do not resolve before the peers are ready, or they cannot be reached over this interface "
    "(routes, NetworkPolicy, keys of the mesh)",
    "set publishNotReadyAddresses on the headless Service, and try one peer by hand from a pod over the interface",
)
UNBOUNDED = Cause(
    "the wait has no time-out, or one unanswered try outlasts it",
    "try peers in a thread or with `timeout`, and end at the bound",
)
SILENT = Cause(
    "the wait ends without a message, or its log is not kept",
    "make it log the missing interface or peer and the result of the last try before it ends",
)


@dataclasses.dataclass(frozen=True)
class Start(dns_wait.Bounded):
    """What one member told on its way to its launcher; None where it did not."""

    FOR: ClassVar[str] = "the network"
    launched: Word | None = None

    @property
    def error(self) -> str:
        """Return what it says that it lacks."""
        return "" if self.over is None else str(self.over.data.get("error") or "")

    @property
    def interface(self) -> str:
        """Return the interface that it waited for, "" for none."""
        told = fields.text(self.over.data, "interface", "name") if self.over is not None else ""
        return told or ("" if self.began is None else str(self.began.data.get("interface") or ""))

    @property
    def silent(self) -> list[str]:
        """Return the peers without an answer."""
        return [name for name, one in self.peers if not one.get("answer")]

    @property
    def held(self) -> bool:
        """Report whether it had to look or try more than once."""
        if self.over is None:
            return False
        looks = [fields.number(self.over.data, "interface", "tries")]
        looks += [fields.number(one, "tries") for _, one in self.peers]
        return max((tries or 0 for tries in looks), default=0) > 1

    @property
    def peers(self) -> list[tuple[str, fields.Object]]:
        """Return each peer with what became of it."""
        told = fields.sub(self.over.data, "peers") if self.over is not None else {}
        return [(str(name), one) for name, one in told.items() if isinstance(one, dict)]

    @property
    def order(self) -> float | None:
        """Return the seconds from the network being there to the launcher, by the member's clock; None: not known."""
        if self.over is None or self.launched is None:
            return None
        one, other = self.over.data.get("t"), self.launched.data.get("t")
        if isinstance(one, int | float) and isinstance(other, int | float):
            return float(other) - float(one)
        return self.launched.t - self.over.t


def starts(evidence: Evidence, gang: Gang) -> list[Start]:
    """Return what each member of a gang told."""
    words = payload_lines.words(evidence)
    return [
        Start(pod, *(words.last(event, pod.uid) for event in ("gate-began", "gate", "launching")))
        for pod in gang.pods
    ]


@subjects.judge
def ready_first(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge RDZV-008."""
    held = subjects.cast(evidence, given, "held")
    vain = subjects.cast(evidence, given, "unanswered")
    if held is None:
        told = [
            gang for gang in subjects.everyone(evidence) if any(one.over for one in starts(evidence, gang))
        ]
        if not told:
            return wording.finding(
                Verdict.INCONCLUSIVE, REQUIRED, "no member reported a wait for the network"
            )
        return _early(evidence, told) or wording.gravest([_held(evidence, given, gang) for gang in told])
    early = _early(evidence, (*held, *(vain or ())))
    if early is not None:
        return early
    findings = [_held(evidence, given, gang) for gang in held]
    findings += [_vain(evidence, given, gang) for gang in vain or ()]
    if not held or not vain:
        what = "for peers that answer" if not held else "for an interface that never comes up"
        findings.append(
            wording.finding(Verdict.INCONCLUSIVE, REQUIRED, f"no gang that waited {what} was seen")
        )
    return wording.together(findings)


def peers_known(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the names of the peers were known at all: what a wait for their answer stands on."""
    name = "the peers' names are known"
    held = subjects.cast(evidence, given, "held")
    found = [one for gang in held or () for one in starts(evidence, gang) if one.over is not None]
    for one in found:
        lost = [peer for peer, told in one.peers if one.over is not None and not told.get("address")]
        if lost:
            keys = (one.over.key,) if one.over is not None else ()
            text = f"{one.pod.name}: {one.error}"
            return wording.presupposed(name, held=False, observed=text, causes=NAMES, evidence=keys)
    known = bool(found) or not subjects.of(evidence, given).arranged
    return wording.presupposed(
        name, held=True if known else None, observed=f"{len(found)} members found all names"
    )


def _too_early(found: Sequence[Start]) -> Iterator[tuple[Start, str]]:
    """Yield launchers that started before the network was there, or without it."""
    for one in found:
        if one.launched is None:
            continue
        who = f"the launcher of {one.pod.where} started"
        if one.over is not None and not one.found:
            yield one, f"{who} although {one.error or 'the wait failed'}"
        elif one.order is not None and one.order < 0:
            yield one, f"{who} {-one.order:.2f} s before the network was ready"
        elif one.over is None and one.began is not None:
            yield one, f"{who} while the wait for the network went on"


def _early(evidence: Evidence, gangs: Sequence[Gang]) -> Finding | None:
    """Judge launchers that started too early: a violation, whatever else was not tried."""
    for gang in gangs:
        for one, text in _too_early(starts(evidence, gang)):
            keys = tuple(word.key for word in (one.over, one.launched) if word is not None)
            return wording.finding(
                Verdict.FAIL, REQUIRED, text, gang, violation=True, causes=(NOT_GATED,), evidence=keys,
                where=wording.places((one.pod,)),
            )  # fmt: skip
    return None


def _endless(
    evidence: Evidence, given: subjects.Given, found: Sequence[Start]
) -> Iterator[tuple[Start, str]]:
    """Yield members whose wait outlasted its bound."""
    grain = subjects.of(evidence, given).grain
    for one in found:
        said = one.overdue(evidence, grain)
        if said:
            yield one, f"{one.pod.where} {said}"


def _held(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding:
    """Judge the members whose peers come late."""
    found = starts(evidence, gang)
    keys = tuple(w.key for one in found for w in (one.over, one.launched) if w is not None)[:8]
    number = Number(
        "wait for the network", max((one.seconds for one in found if one.seconds is not None), default=None), "s",
        max((one.within for one in found if one.within is not None), default=None),
        "time-out of the wait; measured in the container, from its first look",
    )  # fmt: skip
    told = wording.Findings(REQUIRED, gang, evidence=keys, numbers=(number,))

    for one, text in _endless(evidence, given, found):
        return told.fail(text, UNBOUNDED, where=wording.places((one.pod,)))
    for one in found:
        if one.over is not None and not one.found:
            cause = PEERS if one.silent else INTERFACE
            return told.fail(
                f"{one.pod.where}: {one.error or 'the network did not come'}",
                cause,
                where=wording.places((one.pod,)),
            )
    mute = [one.pod.name for one in found if one.over is None]
    if not found or mute:
        torn = [one.pod.name for one in found if payload_lines.words(evidence).torn.get(one.pod.uid)]
        what = f"a line of {wording.listed(torn)} is cut" if torn else "no message about the network was read"
        return told.inconclusive(f"{wording.listed(mute) or gang.title}: {what}")
    waiting = [one.pod for one in found if one.launched is None]
    if waiting:
        text = (
            "the network was ready, but no launcher was seen to start on "
            f"{wording.listed([pod.name for pod in waiting])}"
        )
        return told.inconclusive(text, where=wording.places(waiting))
    if not any(one.held for one in found):
        return told.inconclusive("the network was ready at the first look: no member had to wait")
    over = found[0].interface
    longest = max(found, key=lambda one: one.seconds or 0.0)
    last = min(one.order for one in found if one.order is not None)
    text = (
        f"{len(found)} members waited {longest.seconds or 0:.1f} s at most (bound {longest.within or 0:g} s) until "
        f"{over or 'the network'} was up and all peers answered; each launcher started {last:.2f} s or more after that"
    )
    return told.passed(text)


def _vain(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding:
    """Judge the member that waits for an interface which never comes."""
    found = starts(evidence, gang)
    keys = tuple(w.key for one in found for w in (one.began, one.over) if w is not None)[:8]
    number = Number(
        "wait for a network that never comes",
        max((one.seconds for one in found if one.seconds is not None), default=None), "s",
        max((one.within for one in found if one.within is not None), default=None),
        "time-out of the wait; measured in the container",
    )  # fmt: skip
    told = wording.Findings(REQUIRED, gang, evidence=keys, numbers=(number,))

    for _, text in _endless(evidence, given, found):
        return told.fail(text, UNBOUNDED)
    for one in found:
        if not one.found and (text := one.outlived(evidence, subjects.of(evidence, given).grain)):
            return told.fail(f"{one.pod.name} {text}", UNBOUNDED)
    for one in found:
        ended, code = one.pod.finished is not None, dns_wait.init_code(one.pod)
        if one.found:
            return told.inconclusive(f"{one.pod.name} found {one.interface}, which no pod should have")
        if ended and (code == 0 or (code is None and one.pod.phase == "Succeeded")):
            return told.fail(
                f"{one.pod.where} ended with 0 without the network it waited for",
                NOT_GATED,
            )
        torn = bool(payload_lines.words(evidence).torn.get(one.pod.uid))
        if ended and one.began is not None and not torn and one.interface not in one.error:
            return told.fail(f"{one.pod.where} ended without naming what is missing", SILENT)
    open_ = [one.pod.name for one in found if one.over is None or one.pod.finished is None]
    if not found or open_:
        what = wording.listed(open_) or gang.title
        expired = subjects.timed_out(evidence, gang.created)
        waited = f" (waited for {expired[0]})" if expired else ""
        return told.inconclusive(f"{what}: no end of a failed wait was seen{waited}")
    one = found[0]
    code = dns_wait.init_code(one.pod)
    text = f"{one.pod.name} gave up after {one.seconds or 0:.1f} s with {code} and says: {one.error}"
    return told.passed(text)
