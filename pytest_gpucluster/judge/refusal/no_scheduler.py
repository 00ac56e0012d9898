"""REF-008: that no scheduler looks at a gang is told apart from a refusal."""

import dataclasses

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.evidence.scheduling import gates
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.judge import controls, subjects, wording
from pytest_gpucluster.judge.gang.all_or_nothing import EPSILON
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "a Job that no scheduler handles (its PodGroup has no phase, or its pods are Pending without a message) does "
    "not count as refused: nothing is bound, nothing refuses it, and the cause is named"
)
SPOKEN = frozenset({"FailedScheduling", "Scheduled", "Unschedulable"})
"""Reasons of events by which a scheduler shows that it looked at a pod."""

ANY_NAME = Cause(
    "some scheduler takes pods with any schedulerName",
    "make each scheduler serve its own name only (--scheduler-name of vc-scheduler; profiles of kube-scheduler)",
)


STOPPED = Cause(
    "the scheduler of that name acted on other pods but says nothing about these: it stopped or hangs",
    "check that the scheduler runs and makes progress (kubectl -n volcano-system get pods: restarts; its log)",
)


@dataclasses.dataclass(frozen=True)
class Silence:
    """A span in which no scheduler looked at a gang.

    Attributes:
        text: what was missing, for how long.
        seconds: how long.
        floor: how long it had to be.
        causes: why, likeliest first.
    """

    text: str
    seconds: float
    floor: float
    origin: str
    causes: tuple[Cause, ...]
    evidence: tuple[str, ...]


def nobody_serves(name: str) -> Cause:
    """Return the cause of pods that nobody looks at."""
    return Cause(
        f"no running scheduler serves schedulerName {name!r}",
        "set spec.schedulerName of the Job, and of its task templates if they name one, to the name that the gang "
        "scheduler serves (volcano unless --scheduler-name says otherwise), or start a scheduler of that name",
    )


def silence_of(evidence: Evidence, given: subjects.Given, gang: Gang) -> Silence | None:
    """Return how no scheduler looked at a gang, None where one did or where it cannot be told."""
    gen = gang.generations[-1]
    return _group_unseen(evidence, given, gen) or _pods_unseen(evidence, given, gang, gen)


def _group_unseen(evidence: Evidence, given: subjects.Given, gen: Generation) -> Silence | None:
    """Return how long the PodGroup had no phase; a scheduler of Volcano gives it one in its first session."""
    group = gen.group
    if group is None or group.native:
        return None
    ends = [t for t in (group.deleted, gen.end, told_until(evidence, "PodGroup")) if t is not None]
    end = group.phases[0][0] if group.phases else min(ends)
    if not subjects.silent(evidence, given, group.created, end):
        return None
    if any(evidence.gaps(kind, group.created, end) for kind in ("PodGroup", "Event")):
        return None
    about = owners.said_about(evidence, "PodGroup", group.namespace, group.name, group.uid)
    if any(said.t < end for said in about):
        return None
    seconds = end - group.created
    text = f"its PodGroup had no phase for {seconds:.1f} s and nothing was said about it"
    if group.phases:
        text += f"; then it became {group.phases[0][1]}"
    floor = subjects.of(evidence, given).silent
    return Silence(
        text, seconds, min(floor, seconds), "no phase so far: the scheduler is silent", (wording.SCHEDULER_SILENT,),
        (group.key,)
    )  # fmt: skip


def told_until(evidence: Evidence, kind: str) -> float:
    """Return until when objects of a kind were told of.

    What kubectl printed carries no clock: how long it went on after the last line of a kind nobody knows, and what
    another command printed later says nothing of it.
    """
    if evidence.clock == "receipt":
        return evidence.end
    return max((line.t for line in evidence.of_kind(kind)), default=0.0)


def _pods_unseen(evidence: Evidence, given: subjects.Given, gang: Gang, gen: Generation) -> Silence | None:
    """Return how long all members were there, unbound, without a condition or an event of any scheduler."""
    if gen.made is None or gen.first_bind is not None:
        return None
    gone = [t for pod in gen.members for t in (pod.deleting, pod.deleted) if t is not None]
    end = min([gen.end, told_until(evidence, "Pod"), *gone])
    limits = subjects.of(evidence, given)
    seconds = end - gen.made
    if seconds < limits.window - EPSILON:
        return None
    if any(evidence.gaps(kind, gen.made, end) for kind in ("Pod", "Event")):
        return None
    if any(looked_at(evidence, pod) for pod in gen.members):
        return None
    name = gang.scheduler
    causes = [nobody_serves(name)]
    if _served(evidence, name):
        causes = [STOPPED]
    text = (
        f"its {len(gen.members)} pods (schedulerName {name}) were Pending for {seconds:.1f} s without a condition or "
        "an event of any scheduler"
    )
    return Silence(
        text, seconds, limits.window, "three scheduler periods or the window", tuple(causes),
        tuple(pod.keys["created"] for pod in gen.members[:4]),
    )  # fmt: skip


def looked_at(evidence: Evidence, pod: PodStory) -> bool:
    """Report whether a scheduler was seen to look at a pod: it has a node, or a condition or event of a scheduler."""
    return bool(pod.bound is not None or pod.waiting or _spoken_of(evidence, pod))


def phased_by(evidence: Evidence, gen: Generation) -> str:
    """Return who was heard about the PodGroup of a gang whose pods nobody looked at; "" for nobody."""
    group = gen.group
    if group is None or not group.phases:
        return ""
    about = owners.said_about(evidence, "PodGroup", group.namespace, group.name, group.uid)
    return next((said.reporter for said in about if said.reporter), "")


def _spoken_of(evidence: Evidence, pod: PodStory) -> tuple[Said, ...]:
    about = owners.said_about(evidence, "Pod", pod.namespace, pod.name, pod.uid)
    return tuple(said for said in about if said.reason in SPOKEN)


def _served(evidence: Evidence, name: str) -> bool:
    """Report whether a scheduler of this name was seen to look at any pod."""
    return any(pod.scheduler == name and looked_at(evidence, pod) for pod in pods(evidence))


@subjects.judge
def not_served_is_no_refusal(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge REF-008."""
    named = subjects.cast(evidence, given, "subject")
    gangs = named if named is not None else subjects.everyone(evidence)
    if not gangs:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, subjects.nothing(evidence))
    if named is not None:
        wrong = next((found for gang in gangs if (found := _looked_at(evidence, gang)) is not None), None)
        if wrong is not None:
            return wrong
    for gang in gangs:
        silence = silence_of(evidence, given, gang)
        if silence is not None:
            finding = _told_apart(evidence, given, gang, silence, arranged=named is not None)
            told = {"refused": False, "cause": finding.causes[0].text}
            return dataclasses.replace(finding, facts=told)
    return _not_shown(evidence, gangs[0], arranged=named is not None)


def _looked_at(evidence: Evidence, gang: Gang) -> Finding | None:
    """Return the violation: a gang that names no running scheduler was bound, or refused at placement."""
    found = (_looked_at_in(evidence, gang, gen) for gen in gang.generations)
    return next((finding for finding in found if finding is not None), None)


def _looked_at_in(evidence: Evidence, gang: Gang, gen: Generation) -> Finding | None:
    """Return the violation in one attempt of a gang."""
    name = gang.scheduler
    spoken = [(pod, said) for pod in gen.members for said in _spoken_of(evidence, pod)]
    keys = tuple(said.key for _, said in spoken[:4])
    if gen.most_held:
        by = sorted({said.reporter for _, said in spoken if said.reporter})
        text = (
            f"{gang.title} names schedulerName {name}, which no scheduler serves, but "
            f"{wording.part(gen.most_held, gang.minimum)} members were bound"
            + (f" by {wording.listed(by)}" if by else "")
        )
        keys = (gen.steps[0].key, *keys)
    elif spoken or any(pod.waiting for pod in gen.members):
        said = spoken[0][1] if spoken else None
        waiting = next((pod.waiting[0] for pod in gen.members if pod.waiting), None)
        reason = said.reason if said else waiting.reason if waiting else ""
        text = (
            f"{gang.title} names schedulerName {name}, which no scheduler serves, but it is reported as refused "
            f"({reason})"
        )
        keys = keys or ((waiting.key,) if waiting else ())
    else:
        return None
    return wording.finding(
        Verdict.FAIL, REQUIRED, text, gang, violation=True, causes=(ANY_NAME,), evidence=keys
    )


def _told_apart(
    evidence: Evidence, given: subjects.Given, gang: Gang, silence: Silence, *, arranged: bool
) -> Finding:
    text = f"{gang.title} was not refused: {silence.text}"
    number = Number("nothing said for", silence.seconds, "s", silence.floor, silence.origin)
    found = wording.Findings(REQUIRED, gang, start=text, evidence=silence.evidence, numbers=(number,))

    if not arranged:
        return found.passed(f"; {silence.causes[0].text}", causes=silence.causes)
    others = subjects.cast(evidence, given, "control") or ()
    whole = next((one for one in others if controls.ran(evidence, given, one)[0]), None)
    if whole is not None:
        more = f"; {silence.causes[0].text}, while {whole.scheduler} placed {whole.name} meanwhile"
        return found.passed(more, causes=silence.causes)
    mute = next((one for one in others if silence_of(evidence, given, one) is not None), None)
    last = mute.generations[-1] if mute is not None else None
    if mute is not None and last is not None and last.group is not None and last.group.phases:
        by = phased_by(evidence, last)
        more = (
            f"; no scheduler handled the pods of {mute.name} either, which name {mute.scheduler}, although its "
            f"PodGroup got a phase{f': {by} reports about it' if by else ''}"
        )
        return found.inconclusive(more, nobody_serves(mute.scheduler))
    if mute is not None:
        more = (
            f"; the scheduler did not handle {mute.name} either, which names {mute.scheduler}: "
            f"{wording.SCHEDULER_SILENT.text}"
        )
        return found.passed(more, wording.SCHEDULER_SILENT)
    more = "; no control was placed that shows whether the gang scheduler runs"
    return found.inconclusive(more, causes=silence.causes)


def _not_shown(evidence: Evidence, gang: Gang, *, arranged: bool) -> Finding:
    gen = gang.generations[-1]
    reading = gates.read(evidence, gang, gen)
    if arranged and reading.enqueue:
        said = reading.enqueue[0]
        text = f"{gang.title} was refused at enqueue before it had pods ({said.message}): that is a refusal"
    elif arranged and gen.group is None and not gen.members:
        text = (
            f"{gang.title} got neither a PodGroup nor pods: the controllers did not act, so no scheduler had "
            "anything to place"
        )
    elif arranged:
        text = f"{gang.title}: it was not watched for the whole window, so a scheduler may have handled it"
    else:
        text = "every gang was handled by a scheduler, or was not watched for long enough"
    return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang)
