"""Rows that several small Jobs decide: who plays which role, and one finding made of the parts."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.pods import FINISHED, PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Finding, Verdict

ACT_WITHIN = 10.0
"""Seconds in which the controllers act where no budget is given; recorded: 0.03 to 0.5 s."""

GONE_SLACK = 10.0
"""Seconds beyond the grace period in which a deleted pod must be gone; recorded on kubelets: 1 to 3 s."""


One = Callable[[Gang], "Finding | str"]
"""Judges one Job; a text says why it was not put to the test."""


def act_within(given: subjects.Given) -> float:
    """Return the seconds in which the controllers must act."""
    return subjects.seconds(given, "finish") or ACT_WITHIN


def _in_vain(evidence: Evidence, gang: Gang, after: float) -> Line | None:
    """Return the note of the first wait about this very Job that ended in vain after a time."""
    notes = (*evidence.notes("timed-out"), *evidence.notes("aborted"))
    mine = [n for n in notes if n.t >= after and gang.name in str(n.data.get("what") or "").split()]
    return min(mine, key=lambda note: note.t, default=None)


def expired(evidence: Evidence, gang: Gang, after: float = 0.0) -> str:
    """Return what the driver waited for in vain about this very Job, "" where it did not."""
    note = _in_vain(evidence, gang, after)
    if note is None:
        return ""
    what = str(note.data.get("what"))
    return (
        f"{what}: {note.data['why']}"
        if "why" in note.data
        else f"{what} after {note.data.get('seconds', '?')} s"
    )


def given_up(evidence: Evidence, gang: Gang, after: float) -> float | None:
    """Return when the driver stopped waiting for something of this Job, None where it did not."""
    note = _in_vain(evidence, gang, after)
    return None if note is None else note.t


def due(evidence: Evidence, given: subjects.Given, gang: Gang, t: float) -> float:
    """Return by when the controllers must have acted on something seen at `t`."""
    limit = t + act_within(given) + subjects.of(evidence, given).grain
    given_up_at = given_up(evidence, gang, t)
    return limit if given_up_at is None else min(limit, given_up_at)


def decide(
    evidence: Evidence,
    given: subjects.Given,
    roles: Sequence[str],
    one: One,
    required: str,
    *,
    kinds: Sequence[str] = (names.VC_JOB,),
) -> Finding:
    """Judge each Job and put the findings together.

    With roles (evidence of our own scenario) each of them must be shown; without, one Job that shows it suffices.
    A violation of any Job decides.
    """
    known = subjects.roles(evidence, given)
    everyone = tuple(gang for gang in subjects.everyone(evidence) if gang.kind in kinds)
    if any(role in known for role in roles):
        parts = []
        for role in roles:
            gang = next((g for g in everyone if subjects.plays(g, known.get(role, ()))), None)
            if gang is None:
                text = subjects.nothing(evidence, f"Job for the case {role}")
                parts.append(wording.finding(Verdict.INCONCLUSIVE, required, text))
            else:
                parts.append(_judged(one, gang, required))
        return together(parts, required, every=True)
    judged = subjects.cast(evidence, given, "subject")
    if judged:
        everyone = tuple(gang for gang in judged if gang.kind in kinds)
    if not everyone:
        return wording.finding(Verdict.INCONCLUSIVE, required, subjects.nothing(evidence, "Job"))
    return together([_judged(one, gang, required) for gang in everyone], required, every=False)


def _judged(one: One, gang: Gang, required: str) -> Finding:
    found = one(gang)
    if isinstance(found, str):
        return wording.finding(Verdict.INCONCLUSIVE, required, found, gang)
    return found


def together(parts: Sequence[Finding], required: str, *, every: bool) -> Finding:
    """Return one finding: a fail decides; then what is missing (`every`) or what was shown; equals are joined."""
    order = [Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS]
    if not every:
        order = [Verdict.FAIL, Verdict.PASS, Verdict.INCONCLUSIVE]
    verdict = min((part.verdict for part in parts), key=order.index)
    chosen = [part for part in parts if part.verdict is verdict]
    if verdict is Verdict.INCONCLUSIVE:
        # What explains itself comes first: a cause with its fix.
        chosen = sorted(chosen, key=lambda part: not part.causes)[: 1 if not every else None]
    return dataclasses.replace(
        chosen[0],
        required=required,
        observed="; ".join(dict.fromkeys(part.observed for part in chosen)),
        where=_joined(part.where for part in chosen),
        causes=tuple(dict.fromkeys(cause for part in chosen for cause in part.causes)),
        evidence=_joined(part.evidence for part in chosen),
        numbers=tuple(number for part in chosen for number in part.numbers),
        violation=any(part.violation for part in chosen),
        repeat=_joined(part.repeat for part in chosen),
    )


def _joined(parts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(text for part in parts for text in part))
    return found[: wording.MANY]


def living(evidence: Evidence, gang: Gang, t: float) -> tuple[PodStory, ...]:
    """Return the pods of a Job that exist at a time and have not ended."""
    found = []
    for pod in gang.pods:
        obj = evidence.at(pod.uid, t)
        if obj is not None and fields.text(obj, "status", "phase") not in FINISHED:
            found.append(pod)
    return tuple(found)


def left_alone(evidence: Evidence, gang: Gang, t: float) -> tuple[PodStory, ...]:
    """Return those of the living pods whose deletion nobody asked for."""
    return tuple(pod for pod in living(evidence, gang, t) if not pod.going(t))


def lingering(evidence: Evidence, gang: Gang, since: float, limit: float) -> tuple[PodStory, ...]:
    """Return the pods that were there at a time and went on beyond a limit with nobody asking for their deletion.

    Who ended by itself later, or was asked to later, had been left running all the same.
    """
    return tuple(
        pod
        for pod in gang.pods
        if pod.created <= since and not pod.going(limit) and ended(evidence, pod) > limit
    )


def overdue(evidence: Evidence, gang: Gang, t: float) -> tuple[PodStory, ...]:
    """Return the pods that outlived their grace period, also those that are gone by then."""
    return tuple(pod for pod, _ in outlived(evidence, gang.pods, t))


def outlived(evidence: Evidence, pods: Iterable[PodStory], t: float) -> list[tuple[PodStory, float]]:
    """Return pods that went on, up to a time, beyond their grace period, with the seconds, the longest first."""
    found = []
    for pod in pods:
        if pod.deleting is None or pod.deleting > t:
            continue
        over = min(ended(evidence, pod), t) - pod.deleting - pod.grace
        if over > GONE_SLACK:
            found.append((pod, over))
    return sorted(found, key=lambda one: -one[1])


def ended(evidence: Evidence, pod: PodStory) -> float:
    """Return when a pod had come to its end, whoever ended it, or was gone; the end of time where it was not."""
    for line in evidence.history(pod.uid):
        if line.type == "DELETED" or fields.text(line.object, "status", "phase") in FINISHED:
            return line.t
    return math.inf


def held(pods: Iterable[PodStory]) -> str:
    """Return what pods hold of extended resources, such as `16 nvidia.com/gpu`; "" for nothing."""
    total: dict[str, Fraction] = {}
    for pod in pods:
        for resource in fields.scarce_resources(pod.last):
            total[resource] = total.get(resource, Fraction(0)) + fields.requested(pod.last, resource)
    return ", ".join(f"{float(count):g} {resource}" for resource, count in total.items() if count)
