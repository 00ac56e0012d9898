"""Batch Jobs behind Kueue: what each asked for, when it was suspended, and the quota that was held for it."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from pytest_gpucluster.evidence.log import fields, order
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.scheduling.kueue_workloads import Reserved, Workload, workloads
from pytest_gpucluster.plain import names

QUEUE_LABEL = names.LABEL_KUEUE_QUEUE
"""Label of a Job that names its LocalQueue."""


class Suspension(NamedTuple):
    """A change of a Job's `spec.suspend`.

    Attributes:
        t: when it was seen.
        suspended: what the Job then said.
        key: of the line that shows it.
        version: of that line, None if it tells none.
    """

    t: float
    suspended: bool
    key: str
    version: int | None


@dataclasses.dataclass(frozen=True)
class Held:
    """A batch Job and what Kueue made of it.

    Attributes:
        gang: the Job with its pods.
        queue: the LocalQueue that its label names, "" without the label.
        workloads: its Workloads, in order; several where Kueue made a new one.
        suspended: what `spec.suspend` said, one per change.
        asks: resource -> what all its pods ask for together; the most that it ever asked for.
        fresh: its first line is that of a Job which was just made, so that what it shows is how it was stored.
        versions: key of a line -> its versions, by which lines of different kinds are put in order.
    """

    gang: Gang
    queue: str
    workloads: tuple[Workload, ...]
    suspended: tuple[Suspension, ...]
    asks: Mapping[str, Fraction]
    fresh: bool
    versions: Mapping[str, order.Versions] = dataclasses.field(default_factory=dict)

    @property
    def created(self) -> float:
        """Return when the Job was first seen."""
        return self.suspended[0][0]

    @property
    def gone(self) -> float:
        """Return when the Job went away, infinite where it did not."""
        job = self.gang.job
        return math.inf if job is None or job.deleted is None else job.deleted

    @property
    def reserved(self) -> tuple[Reserved, ...]:
        """Return when any of its Workloads held quota."""
        return tuple(one for workload in self.workloads for one in workload.reserved)

    def holding(self, t: float) -> Reserved | None:
        """Return the quota held for it at a time."""
        return next((one for w in self.workloads if (one := w.holding(t)) is not None), None)

    @property
    def admitted(self) -> float | None:
        """Return when it was first admitted: quota reserved and every check passed."""
        return min((one.admitted for one in self.reserved if one.admitted is not None), default=None)

    def covered(self, t: float, mine: order.Versions | None) -> bool | None:
        """Report whether quota was held for it when something of it happened; None where it cannot be told.

        Args:
            t: when that was seen.
            mine: the versions of what shows it, None if they order nothing.
        """
        answers = [self._covers(one, t, mine) for one in self.reserved]
        return True if True in answers else None if None in answers else False

    def _covers(self, one: Reserved, t: float, mine: order.Versions | None) -> bool | None:
        """Versions decide, however late a watch of one kind was read; times only if versions order nothing."""
        begins, ends = (order.exact(of, self.versions) for of in (one.version, one.ended_version))
        early = order.before(mine, begins) if one.seen else None
        if early is None:
            if t < one.start - SKEW:
                return False
            if t < one.start or (one.seen and mine is not None and begins is not None):
                return None
        elif early:
            return False
        if order.before(mine, ends):
            return True
        if t >= one.end + SKEW:
            return False
        # Whoever makes pods may be at work still while the quota is given back.
        sure = mine is None or ends is None or t < one.end - SKEW
        return True if t < one.end and sure else None

    @property
    def loose(self) -> Suspension | None:
        """Return when it was first seen unsuspended although no quota was held for it.

        A Job that was just made cannot have any; later Kueue lifts the suspension after the reservation.
        """
        for number, one in enumerate(self.suspended):
            if one.suspended or (number == 0 and not self.fresh):
                continue
            if number == 0 or self.covered(one.t, order.exact(one.version, self.versions)) is False:
                return one
        return None

    @property
    def undecided(self) -> str:
        """Return what was seen close to the beginning or the end of a reservation, on which side is not known."""
        lifted = [
            (one.t, one.key, order.exact(one.version, self.versions))
            for one in self.suspended[1:]
            if not one.suspended
        ]
        made = [
            (pod.created, key := pod.keys["created"], order.first(key, self.versions))
            for pod in self.gang.pods
        ]
        open_ = [key for t, key, mine in (*lifted, *made) if self.covered(t, mine) is None]
        return open_[0] if open_ else ""

    @property
    def finished(self) -> float | None:
        """Return when the Job came to its end, None if not seen."""
        job = self.gang.job
        return None if job is None or not job.phases else job.phases[-1][0]


SKEW = 0.25
"""Seconds by which watches of two kinds may be out of step on a busy machine."""


def held(evidence: Evidence) -> tuple[Held, ...]:
    """Return every batch Job with what Kueue made of it, in order of first appearance."""
    return evidence.derived(_held)


def job_of(evidence: Evidence, gang: Gang) -> Held | None:
    """Return what Kueue made of a gang that is a batch Job, None for other gangs."""
    if gang.kind != names.BATCH_JOB:
        return None
    return evidence.derived(_by_uid).get(gang.uid)


def _by_uid(evidence: Evidence) -> Mapping[str, Held]:
    return {one.gang.uid: one for one in held(evidence)}


def _held(evidence: Evidence) -> tuple[Held, ...]:
    mine: dict[str, list[Workload]] = {}
    for one in workloads(evidence):
        mine.setdefault(one.job_uid, []).append(one)
    found = []
    for gang in gangs.gangs(evidence):
        if gang.job is None or gang.job.kind != names.BATCH_JOB:
            continue
        lines = evidence.history(gang.uid)
        labels = fields.sub(lines[-1].object, "metadata", "labels")
        suspended = _suspended(lines)
        if not suspended:
            # Only its deletion was seen: what it asked for and when is not known.
            continue
        first = lines[0]
        generation = fields.number(first.object, "metadata", "generation")
        found.append(
            Held(
                gang=gang,
                queue=str(labels.get(QUEUE_LABEL) or ""),
                workloads=tuple(mine.get(gang.uid, ())),
                suspended=suspended,
                asks=_asks(lines),
                fresh=first.type == "ADDED" and generation in (None, 1),
                versions=order.versions(evidence),
            )
        )
    return tuple(found)


def size_of(job: fields.Object) -> int:
    """Return how many pods a batch Job asks for at a time."""
    stated = fields.number(job, "spec", "parallelism")
    parallelism = 1 if stated is None else stated
    completions = fields.number(job, "spec", "completions")
    return parallelism if completions is None else min(parallelism, completions)


def _asks(lines: Iterable[Line]) -> dict[str, Fraction]:
    """Return what a Job asks for while it asks for most pods: whoever admits it in part lowers its parallelism."""
    job = max((line.object for line in lines), key=size_of)
    template = fields.sub(job, "spec", "template")
    resources = {
        str(key)
        for container in fields.containers(template)
        for part in ("limits", "requests")
        for key in fields.sub(container, "resources", part)
    }
    return {one: fields.requested(template, one) * size_of(job) for one in sorted(resources)}


def _suspended(lines: Iterable[Line]) -> tuple[Suspension, ...]:
    found: list[Suspension] = []
    for line in lines:
        now = fields.sub(line.object, "spec").get("suspend") is True
        if line.type != "DELETED" and (not found or found[-1].suspended != now):
            found.append(Suspension(line.t, now, line.key, order.version(line)))
    return tuple(found)
