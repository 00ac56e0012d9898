"""Whether the PodGroup of a gang stated, at all times, the minimum that its Job asked for then."""

import math

from pytest_gpucluster.evidence.objects.owners import GroupStory, JobStory, Stated
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects

WITHIN = 10.0
"""Seconds in which the controllers carry a changed minimum over to the PodGroup; recorded: 0.1 to 0.5 s."""


def departed(gang: Gang, needed: int) -> tuple[GroupStory, Stated] | None:
    """Return a minimum that a PodGroup of a Job has, or had however shortly, and the Job did not ask for then.

    Args:
        gang: the gang, with its Job.
        needed: what the Job asks for, as it stands at the end.
    """
    for group in gang.groups:
        # What the last one says in the end is what the Job says in the end; earlier ones may be of an earlier Job.
        over = math.inf if group is gang.groups[-1] or group.deleted is None else group.deleted
        ends = [*(said.t for said in group.minimums[1:]), over]
        for said, end in reversed(list(zip(group.minimums, ends, strict=True))):
            # Whatever stands, stands rightly if it was right at its beginning and at its end.
            if any(said.value not in _asked(gang.job, needed, t) for t in (end, said.t)):
                return group, said
    return None


def _asked(job: JobStory | None, needed: int, t: float) -> set[int]:
    """Return what a Job asked for at a time or shortly before: whoever changes a Job changes its PodGroup rightly."""
    if job is None or len(job.minimums) < 2 or t == math.inf:
        return {needed}
    begins = [-math.inf, *(said.t for said in job.minimums[1:])]
    spans = zip(job.minimums, begins, [*begins[1:], math.inf], strict=True)
    return {said.value for said, begin, until in spans if begin <= t + subjects.LATE and until >= t - WITHIN}
