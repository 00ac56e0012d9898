"""Whether the members of a gang ran together: by the payload's barrier, else by pods seen Running at once."""

import dataclasses
import math

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Verdict

ALONE = Cause(
    "a member started but the others never answered it: names that do not resolve, a blocked port, or a member that "
    "ended early",
    "read the logs of the members named; look at the headless Service and NetworkPolicies of the Job",
)


@dataclasses.dataclass(frozen=True)
class Met:
    """What can be said about running together."""

    verdict: Verdict
    text: str
    keys: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    violation: bool = False


def met(evidence: Evidence, given: subjects.Given, gang: Gang, gen: Generation, *, needed: bool) -> Met:
    """Say whether the members of an attempt ran together.

    With `needed`, a payload of ours ran, so that its barrier lines must be there; else pods seen Running at the same
    time are taken, which recordings of foreign workloads have.
    """
    return _by_barrier(evidence, given, gang, gen) if needed else _by_phase(evidence, gen)


def _by_phase(evidence: Evidence, gen: Generation) -> Met:
    together = gen.together()
    if together is None:
        ran = [pod for pod in gen.members if pod.running is not None or pod.finished is not None]
        return Met(
            Verdict.INCONCLUSIVE,
            f"{wording.part(len(ran), gen.minimum)} members ran, but never enough of them at once",
        )
    start, end = together
    if evidence.gaps("Pod", start, min(end, evidence.end)):
        return Met(Verdict.INCONCLUSIVE, "the watch of pods has a gap while the members ran")
    until = "to the end of the evidence" if math.isinf(end) else f"to t={end:.2f} s"
    keys = tuple(pod.keys["running"] for pod in gen.members if pod.running is not None)
    text = f"{wording.part(gen.minimum, gen.minimum)} were Running at once from t={start:.2f} s {until}"
    return Met(Verdict.PASS, f"{text} (pod states; no barrier line in the evidence)", keys[:8])


def _by_barrier(evidence: Evidence, given: subjects.Given, gang: Gang, gen: Generation) -> Met:
    words = payload_lines.words(evidence)
    expected = subjects.count(given, "world") or gang.size
    lines: dict[str, payload_lines.Word] = {}
    unread: list[str] = []
    silent: list[str] = []
    for pod in gen.members:
        word = words.last("barrier", pod.uid)
        if word is not None:
            lines[pod.name] = word
        elif pod.uid not in words.logged or pod.uid in words.torn or pod.finished is None:
            unread.append(pod.name)
        else:
            silent.append(pod.name)
    keys = tuple(word.key for word in lines.values())[:8]
    bad = {
        name: word.number("world")
        for name, word in lines.items()
        if word.number("world") != expected or word.data.get("ok") is False
    }
    if bad:
        text = ", ".join(f"{name} saw a world of {world}" for name, world in list(bad.items())[:4])
        return Met(Verdict.FAIL, f"the barrier did not gather {expected} members: {text}", keys, (ALONE,))
    if silent:
        text = f"{wording.listed(silent)} ended without passing the barrier ({len(lines)} of {expected} did)"
        return Met(Verdict.FAIL, text, keys, (ALONE,))
    if unread or len(lines) < expected:
        missing = f"; no complete barrier line of {wording.listed(unread)}" if unread else ""
        return Met(
            Verdict.INCONCLUSIVE, f"{len(lines)} of {expected} members passed the barrier{missing}", keys
        )
    last = max(word.t for word in lines.values())
    return Met(Verdict.PASS, f"all {expected} passed one barrier (last line at t={last:.2f} s)", keys)
