"""The finding on half placement, which most gang judges ask for first."""

from collections.abc import Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.owners import JobStory
from pytest_gpucluster.evidence.scheduling import half_placement, volcano_jobs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.scheduling.half_placement import Half
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Finding, Number, Verdict


def halves(evidence: Evidence, gangs: Sequence[Gang]) -> tuple[Half, ...]:
    """Return every half placement of these gangs, longest first."""
    found = [half for gang in gangs for half in half_placement.halves(evidence, gang)]
    return tuple(sorted(found, key=lambda half: -half.seconds))


def lasting(evidence: Evidence, given: subjects.Given, found: Sequence[Half]) -> list[Half]:
    """Return the half placements that a healthy bind cannot explain.

    They last longer than the tolerance; or they still stand when a window ends in which our own scarcity kept the
    gang from fitting, after two scheduler periods of it.
    """
    limits = subjects.of(evidence, given)
    grace = subjects.HALF_PERIODS * limits.period + limits.grain
    ends = [end for begin, end in subjects.windows(evidence) if end - begin >= grace]
    return [
        half
        for half in found
        if half.seconds > limits.tolerance
        or (not half.gap and any(half.start + grace < end <= half.end for end in ends))
    ]


def retreats(evidence: Evidence, found: Sequence[Half]) -> list[Half]:
    """Return the half placements that ended in something else than the whole gang, however short.

    A bind on its way ends with the gang whole. One that ends otherwise placed a part and took it back: a flicker is no
    less forbidden. Not so where we, or the Job's own end, took the members in the midst of their bind.
    """
    return [half for half in found if not half.whole and not half.open and not interrupted(evidence, half)]


def interrupted(evidence: Evidence, half: Half) -> bool:
    """Report whether a half placement was ended by us, by the Job's end, or by a member that ended meanwhile."""
    gang = half.gang
    ours = {gang.uid, *(pod.uid for pod in half.generation.members)} - {""}
    acts = ("deleted-by-us", "evicted-by-us", "commanded", "room-made", "rebooted-by-us")
    if any(
        note.data.get("uid") in ours and note.t <= half.end for word in acts for note in evidence.notes(word)
    ):
        return True
    group = half.generation.group
    if gang.job is None:
        # Nobody saw the life of what owns the pods; while its PodGroup stands, they were wanted.
        if group is None or (group.deleted is not None and group.deleted <= half.end):
            return True
    elif any(t <= half.end for t in _over(evidence, gang.job, half.start)):
        return True
    return any(pod.finished is not None and pod.finished <= half.end for pod in half.members)


def _over(evidence: Evidence, job: JobStory, start: float) -> list[float]:
    """Return when a Job came to its end, was being deleted, or was suspended after a time."""
    times = [t for t, phase, _ in job.phases if phase in volcano_jobs.OVER - {"Restarting"}]
    for line in evidence.history(job.uid):
        suspended = line.t >= start and fields.sub(line.object, "spec").get("suspend") is True
        if suspended or _going(line):
            times.append(line.t)
    return times


def _going(line: Line) -> bool:
    return line.type == "DELETED" or bool(fields.sub(line.object, "metadata").get("deletionTimestamp"))


def half_placed(
    evidence: Evidence, given: subjects.Given, gangs: Sequence[Gang], required: str
) -> Finding | None:
    """Return the finding on half placement: a violation, or why it cannot be told; None when there was none."""
    limits = subjects.of(evidence, given)
    found = halves(evidence, gangs)
    shown = [
        half for half in found if half in lasting(evidence, given, found) or half in retreats(evidence, found)
    ]
    if shown:
        worst = shown[0]
        return wording.finding(
            Verdict.FAIL,
            required,
            "; ".join(wording.describe_half(half) for half in shown[:3]),
            worst.gang,
            violation=True,
            where=wording.places_of_half(worst),
            causes=wording.causes_of_half(worst, subjects.of(evidence, given).scheduler),
            evidence=tuple(half.key for half in shown[:8]),
            numbers=(
                Number("members bound", worst.held, "pods", worst.generation.minimum, "minAvailable"),
                Number(
                    "half placed for",
                    worst.seconds,
                    "s",
                    limits.tolerance,
                    "two scheduler periods or bind spread",
                ),
            ),
            repeat=tuple(dict.fromkeys(line for half in shown[:2] for line in wording.repeat(half.gang))),
            currency=subjects.currency(evidence, given, worst.gang),
        )
    unsure = next((half for half in found if half.open or half.gap or not half.whole), None)
    if unsure is None:
        return None
    why = "it was deleted while it was being bound"
    if unsure.gap:
        why = "the watch of pods has a gap there"
    elif unsure.open:
        why = "the evidence ends too early to tell this from a slow bind"
    return wording.finding(
        Verdict.INCONCLUSIVE,
        required,
        f"{wording.describe_half(unsure)}; shorter than {limits.tolerance:.2f} s, and {why}",
        unsure.gang,
        evidence=(unsure.key,),
    )
