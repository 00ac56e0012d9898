"""Names of the workload kinds that a gang can be written as: what a profile may declare beside its scheduler."""

from collections.abc import Mapping

from pytest_gpucluster.plain import schedulers

JOB = "job"
"""The scheduler's own: a Volcano Job, or a batch Job."""
JOBSET = "jobset"

NAMES = (JOB, JOBSET)

SCHEDULERS: Mapping[str, tuple[str, ...]] = {
    JOB: schedulers.NAMES,
    # Not yet for Kueue: its rows read Workloads of batch Jobs alone, and the embedded Kueue admits no JobSet.
    JOBSET: (schedulers.VOLCANO, schedulers.NATIVE, schedulers.DEFAULT),
}
"""Workload kind -> the schedulers that it can be written for."""

CONTROLLERS: Mapping[str, str] = {JOBSET: "jobset"}
"""Workload kind -> the component that must be installed for it."""


def exists(scheduler: str, kind: str) -> bool:
    """Report whether gangs of a workload kind can be written for a scheduler."""
    return scheduler in SCHEDULERS.get(kind, ())
