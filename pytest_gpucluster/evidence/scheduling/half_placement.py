"""Half placement: the thing that a gang scheduler must never do, measured from binds alone."""

import dataclasses
from collections.abc import Mapping

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation, Step
from pytest_gpucluster.evidence.scheduling.lost_members import ENDING


@dataclasses.dataclass(frozen=True)
class Half:
    """A span in which a gang held some places, but fewer than it needs.

    Attributes:
        seconds: the longest stretch of it in which the watch of pods was in sync.
        held: the most places held in it.
        open: it lasted until the evidence ends.
        whole: it ended because the gang was whole: then it was a bind on its way.
        gap: the watch of pods was not in sync for a part of it.
        members: the members that were bound in it.
        missing: the members that existed and were not bound in it.
    """

    gang: Gang
    generation: Generation
    start: float
    end: float
    seconds: float
    held: int
    open: bool
    whole: bool
    gap: bool
    members: tuple[PodStory, ...]
    missing: tuple[PodStory, ...]
    key: str


def halves(evidence: Evidence, gang: Gang) -> tuple[Half, ...]:
    """Return the spans in which an attempt of a gang was half placed, before it was whole for the first time.

    Of a gang that was over when it was first seen nobody knows how it was placed: `was_over`.

    What happens to a gang after it was whole is another matter: the gang rule admits, it does not keep whole.
    An attempt that starts with bound members left over from the attempt before is not judged for the same reason,
    unless these are on their way out: then what is made anew is.
    """
    found: list[Half] = []
    if was_over(gang):
        return ()
    for gen in map(afresh, gang.generations):
        if gen is None or gen.minimum <= 1:
            continue
        begin: Step | None = None
        most = 0
        for step in gen.steps:
            if step.held >= gen.minimum:
                break
            if step.held > 0:
                begin, most = begin or step, max(most, step.held)
            elif begin is not None:
                found.append(_half(evidence, (gang, gen), (begin, step.t), most))
                begin, most = None, 0
        if begin is not None:
            end = gen.whole if gen.whole is not None else min(gen.end, evidence.end)
            found.append(_half(evidence, (gang, gen), (begin, end), most))
    return tuple(found)


def was_over(gang: Gang) -> bool:
    """Report whether a gang had come to its end before it was first seen: its Job was over, else all that is left is.

    Members that ended were placed some day, and those that were cleared away since are not missing.
    """
    if gang.job is not None:
        phases = gang.job.phases[:1]
        return any(t <= gang.job.created and phase in ENDING - {"Restarting"} for t, phase, _ in phases)
    groups = [group for group in gang.groups if group.phases]
    if groups and all(group.phases[0][1] == "Completed" for group in groups):
        return True
    ended = [pod.finished is not None and pod.finished <= pod.created for pod in gang.pods]
    return bool(ended) and all(ended)


def afresh(gen: Generation) -> Generation | None:
    """Return an attempt without the members of the one before that were going; None where some of these stayed.

    Volcano's RestartPod and RestartTask keep members that are bound, so that the gang does not begin with none.
    """
    old = [p for p in gen.members if gen.number > 1 and p.bound is not None and p.bound < gen.start]
    if any(p.deleting is None and p.deleted is None for p in old):
        return None
    gone = {p.uid for p in old}
    return (
        dataclasses.replace(gen, members=tuple(p for p in gen.members if p.uid not in gone)) if gone else gen
    )


def _half(evidence: Evidence, whose: tuple[Gang, Generation], span: tuple[Step, float], held: int) -> Half:
    (gang, gen), (begin, end) = whose, span
    gaps = evidence.gaps("Pod", begin.t, end) if end > begin.t else ()
    edges = [begin.t, *(edge for gap in gaps for edge in gap), end]
    stretches = [b - a for a, b in zip(edges[::2], edges[1::2], strict=True)]
    bound = tuple(p for p in gen.members if p.bound is not None and p.bound < end)
    missing = tuple(p for p in gen.members if p.created <= end and (p.bound is None or p.bound >= end))
    return Half(
        gang=gang, generation=gen, start=begin.t, end=end, seconds=max(stretches), held=held,
        open=gen.whole is None and end >= evidence.end, whole=gen.whole is not None and end >= gen.whole,
        gap=bool(gaps), members=bound, missing=missing, key=begin.key,
    )  # fmt: skip


def short_role(evidence: Evidence, gang: Gang, minimums: Mapping[str, int]) -> tuple[Half, ...]:
    """Return, for each attempt, the span in which members were bound while some role lacked its minimum.

    It ends when every role had its minimum for the first time. What happens afterwards, and an attempt that starts
    with members of the one before, is another matter, as in `halves`.
    """
    found: list[Half] = []
    if was_over(gang):
        return ()
    for gen in map(afresh, gang.generations):
        if gen is None or not gen.steps:
            continue
        roles = [
            dataclasses.replace(gen, minimum=least, members=tuple(p for p in gen.members if p.task == role))
            for role, least in minimums.items()
            if least > 0
        ]
        wholes = [role.whole for role in roles]
        done = [t for t in wholes if t is not None]
        whole = len(done) == len(wholes)
        first = gen.steps[0]
        end = max(done, default=first.t) if whole else min(gen.end, evidence.end)
        if end > first.t:
            held = max(step.held for step in gen.steps if step.t < end)
            half = _half(evidence, (gang, gen), (first, end), held)
            short = {p.uid for role in roles if role.whole is None or role.whole >= end for p in role.members}
            missing = tuple(p for p in half.missing if p.uid in short)
            found.append(
                dataclasses.replace(
                    half, open=not whole and end >= evidence.end, whole=whole, missing=missing or half.missing
                )
            )
    return tuple(found)
