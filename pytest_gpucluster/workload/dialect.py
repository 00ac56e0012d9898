"""How a gang is written for a scheduler: what each of them tells of itself, and which there are.

A dialect says which object asks for the gang, which kinds tell its story, which gates hold it back and in which order,
what is scarce at the one that holds gangs whole, and how an object shows that the scheduler has looked at it. How a
scheduler's refusals are *read* is on the other side, in `pytest_gpucluster.evidence.scheduling.schedulers`.

A new one (KAI, coscheduling) is a module beside `volcano`, a row of `_DIALECTS`, and its rules of reading. A workload
kind (JobSet, LeaderWorkerSet) that is composed with any of them is a subclass of `over.Over` and a row of `_WORKLOADS`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.plain import names, schedulers, workload_kinds
from pytest_gpucluster.workload import jobs, jobset, kueue, native, plain, volcano
from pytest_gpucluster.workload.protocol import Dialect
from pytest_gpucluster.workload.spec import WorkloadError

_DIALECTS: Mapping[str, Callable[[str], Dialect]] = {
    schedulers.VOLCANO: lambda queue: volcano.VolcanoDialect(queue=queue),
    schedulers.NATIVE: lambda _: native.NativeDialect(),
    schedulers.KUEUE: lambda queue: kueue.KueueDialect(queue=queue),
    schedulers.DEFAULT: lambda _: plain.DefaultSchedulerDialect(),
}

_WORKLOADS: Mapping[str, Callable[[Dialect], Dialect]] = {
    workload_kinds.JOBSET: jobset.over,
}

_ENDED: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    names.VC_JOB: volcano.ended,
    names.BATCH_JOB: jobs.ended,
    names.JOBSET: jobset.ended,
}

DIALECTS = tuple(_DIALECTS)
"""Schedulers that a gang can be written for."""

WORKLOADS = (workload_kinds.JOB, *_WORKLOADS)
"""Workload kinds that a gang can be written as."""

_MEMBERS: Mapping[str, Callable[[Mapping[str, Any]], int]] = {
    "Pod": lambda _: 1,
    names.VC_JOB: volcano.members,
    names.BATCH_JOB: jobs.members,
    names.JOBSET: jobset.members,
}


def dialect_for(scheduler: str, queue: str = "default", workload: str = workload_kinds.JOB) -> Dialect:
    """Return the dialect of a declared scheduler, composed with a workload kind.

    Args:
        scheduler: as a profile declares it.
        queue: queue that its gangs go to.
        workload: as what kind of object gangs are written; `job` for the scheduler's own.

    Raises:
        WorkloadError: a scheduler that no dialect is written for, or a workload kind that is not written for this
            scheduler; names those that are.
    """
    if scheduler not in _DIALECTS:
        raise WorkloadError(
            f"no way to write a gang for scheduler {scheduler!r}{names.did_you_mean(scheduler, DIALECTS)}"
        )
    base = _DIALECTS[scheduler](queue)
    if workload == workload_kinds.JOB:
        return base
    if workload not in WORKLOADS:
        raise WorkloadError(f"no workload kind {workload!r}{names.did_you_mean(workload, WORKLOADS)}")
    if not workload_kinds.exists(scheduler, workload):
        known = ", ".join(workload_kinds.SCHEDULERS[workload])
        raise WorkloadError(
            f"no way to write a gang as {workload} for scheduler {scheduler!r} (written for: {known})"
        )
    return _WORKLOADS[workload](base)


def has_ended(kind: str, obj: Mapping[str, Any]) -> bool:
    """Report whether an object that asks for a gang has come to an end that it does not leave; a PodGroup has none."""
    return kind in _ENDED and _ENDED[kind](obj)


def members_of(kind: str, obj: Mapping[str, Any]) -> int:
    """Return how many pods an object asks for.

    Raises:
        WorkloadError: an object of a kind that does not say it.
    """
    if kind not in _MEMBERS:
        raise WorkloadError(f"how many pods a {kind} asks for is not known (known: {', '.join(_MEMBERS)})")
    return _MEMBERS[kind](obj.get("spec") or {})
