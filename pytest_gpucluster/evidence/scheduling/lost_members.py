"""Gangs that were whole and then lacked members: when, why, what their own object said, and when a place came back."""

import dataclasses
import itertools
import math
from collections.abc import Iterator

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation

ENDING = frozenset(
    {
        "Restarting",
        "Completing",
        "Completed",
        "Aborting",
        "Aborted",
        "Terminating",
        "Terminated",
        "Failed",
        "Complete",
    }
)
"""Phases of a Job in which its members are ended on purpose."""

SHORT_PHASES = frozenset({"Unknown", "Pending", "Inqueue"})
"""Phases of a Volcano PodGroup that has too few placed members: Unknown while some of them run."""


@dataclasses.dataclass(frozen=True)
class Shortage:
    """A span in which a gang that had been whole lacked members.

    Attributes:
        start: when the first missing member began to go, or ended.
        end: when the gang was whole again, was ended on purpose, or the evidence ends.
        healed: it was whole again at `end`.
        held: the fewest places held, or members still running, in it.
        missing: the members that went.
        lost: members went away unfinished; else they came to their own end.
        reports: (t, what its own object said, key), one per change, in the span.
        at_end: phase of its own object at `end`, "" where none was seen.
        returned: (t, key) of the first sign that a lost place came back, None where there was none.
    """

    gang: Gang
    generation: Generation
    start: float
    end: float
    healed: bool
    held: int
    missing: tuple[PodStory, ...]
    lost: bool
    reports: tuple[tuple[float, str, str], ...]
    at_end: str
    returned: tuple[float, str] | None

    @property
    def seconds(self) -> float:
        """Return how long it lasted."""
        return self.end - self.start


def shortages(evidence: Evidence, gang: Gang) -> tuple[Shortage, ...]:
    """Return the shortages of a gang after it was whole, in order."""
    found: list[Shortage] = []
    for gen in gang.generations:
        if gen.whole is not None:
            found += [*_lost(evidence, gang, gen), *_ended(evidence, gang, gen)]
        else:
            found += _before_the_evidence(evidence, gang, gen)
    return tuple(found)


def _before_the_evidence(evidence: Evidence, gang: Gang, gen: Generation) -> Iterator[Shortage]:
    """Yield the shortage of a gang that was whole before the evidence began: its own object says both."""
    group = gen.group
    if group is None or group.native or not group.phases or group.phases[-1][1] != "Unknown":
        return
    if any(said.type == "Scheduled=True" for said in group.conditions) and gen.first_bind is not None:
        start, stop = gen.start, _stop(evidence, gang, gen)
        yield _told(evidence, (gang, gen), (start, stop, False), gen.most_held, [], lost=True)


def _lost(evidence: Evidence, gang: Gang, gen: Generation) -> Iterator[Shortage]:
    """Yield the spans in which places were given up by members that had not finished."""
    stop = _stop(evidence, gang, gen)
    begin: float | None = None
    fewest = gen.minimum
    gone = {
        pod.keys["deleted"]: pod for pod in gen.members if pod.deleted is not None and pod.finished is None
    }
    missing: list[PodStory] = []
    first = next(n for n, step in enumerate(gen.steps) if step.held >= gen.minimum)
    for step in gen.steps[first:]:
        if step.t > stop:
            break
        if step.held < gen.minimum:
            pod = gone.get(step.key)
            missing += [pod] if pod is not None else []
            fewest = min(fewest, step.held)
            if begin is None:
                begin = step.t if pod is None or pod.deleting is None else pod.deleting
        elif begin is not None:
            yield _told(evidence, (gang, gen), (begin, step.t, True), fewest, missing, lost=True)
            begin, fewest, missing = None, gen.minimum, []
    if begin is not None and stop > begin:
        yield _told(evidence, (gang, gen), (begin, stop, False), fewest, missing, lost=True)


def _ended(evidence: Evidence, gang: Gang, gen: Generation) -> Iterator[Shortage]:
    """Yield the span in which fewer members run because some came to their own end."""
    stop = _stop(evidence, gang, gen)
    ends = sorted(
        (pod.finished, number, pod)
        for number, pod in enumerate(gen.members)
        if pod.bound is not None and pod.finished is not None and pod.finished < stop
    )
    running = len({pod.slot for pod in gen.members if pod.bound is not None})
    missing: list[PodStory] = []
    for t, _, pod in ends:
        running -= 1
        missing.append(pod)
        if 0 < running < gen.minimum:
            yield _told(evidence, (gang, gen), (t, stop, False), running, missing, lost=False)
            return


def _stop(evidence: Evidence, gang: Gang, gen: Generation) -> float:
    """Return when an attempt was ended on purpose: by its Job's phase, or with its Job or PodGroup."""
    times = [gen.end, evidence.end]
    for story in (gang.job, gen.group):
        if story is not None:
            times += [_going(line) for line in evidence.history(story.uid)]
    if gang.job is not None:
        times += [t for t, phase, _ in gang.job.phases if phase in ENDING and t > gen.start]
        times += [note.t for note in evidence.notes("deleted-by-us") if note.data.get("uid") == gang.job.uid]
    return min(times)


def _going(line: Line) -> float:
    leaves = line.type == "DELETED" or bool(fields.text(line.object, "metadata", "deletionTimestamp"))
    return line.t if leaves else math.inf


def _told(
    evidence: Evidence,
    whose: tuple[Gang, Generation],
    span: tuple[float, float, bool],
    held: int,
    missing: list[PodStory],
    *,
    lost: bool,
) -> Shortage:
    (gang, gen), (start, end, healed) = whose, span
    group = gen.group
    reports: list[tuple[float, str, str]] = []
    at_end = ""
    if group is not None and not group.native:
        in_force = [(t, phase, key) for t, phase, key in group.phases if t <= end]
        at_end = in_force[-1][1] if in_force else ""
        reports = [
            (t, f"phase {phase}", key) for t, phase, key in in_force if t >= start and phase in SHORT_PHASES
        ]
        before = [one for one in in_force if one[0] < start]
        if before and before[-1][1] == "Unknown":
            reports.insert(0, (start, "phase Unknown, still", before[-1][2]))
        reports += [
            (said.t, f"condition {said.type.partition('=')[0]}: {said.message}", said.key)
            for said in group.conditions
            if start <= said.t <= end and said.type == "Unschedulable=True"
        ]
        reports.sort(key=lambda report: (report[0], not report[1].startswith("phase")))
    return Shortage(
        gang, gen, start, end, healed, held, tuple(missing), lost, tuple(reports), at_end,
        _returned(evidence, gang, start, end),
    )  # fmt: skip


def _returned(evidence: Evidence, gang: Gang, start: float, end: float) -> tuple[float, str] | None:
    """Return the first sign in a span that a place came back: our own note, or a node that offers more."""
    signs = [
        (note.t, note.key)
        for note in evidence.notes("slots-set")
        if (fields.number(note.data, "slots") or 0) > (fields.number(note.data, "was") or 0)
    ]
    signs += [(note.t, note.key) for note in evidence.notes("room-made")]
    asked = {resource for pod in gang.pods[:1] for resource in fields.scarce_resources(pod.last)}
    for uid in evidence.uids("Node"):
        lines = evidence.history(uid)
        signs += [(new.t, new.key) for old, new in itertools.pairwise(lines) if _offers_more(old, new, asked)]
    return min((sign for sign in signs if start <= sign[0] <= end), default=None)


def _offers_more(old: Line, new: Line, asked: set[str]) -> bool:
    """Report whether a node takes pods again, or has more of what the gang asks for."""

    def closed(line: Line) -> bool:
        ready = fields.condition(line.object, "Ready").get("status", "True")
        return bool(fields.sub(line.object, "spec").get("unschedulable")) or ready != "True"

    if closed(old) and not closed(new):
        return True
    before, after = (fields.sub(line.object, "status", "allocatable") for line in (old, new))
    return any(fields.quantity(after.get(one, 0)) > fields.quantity(before.get(one, 0)) for one in asked)
