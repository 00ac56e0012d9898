"""A gang as Kubernetes alone knows it: an Indexed Job whose pods are placed one at a time."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.plain import names, schedulers
from pytest_gpucluster.workload import jobs
from pytest_gpucluster.workload.spec import GangSpec, Manifest, WorkloadError


@dataclasses.dataclass(frozen=True)
class DefaultSchedulerDialect:
    """No gangs: what the contrasts are written in."""

    name: str = schedulers.DEFAULT
    scheduler: str = "default-scheduler"
    queue: str = ""
    kind: str = names.BATCH_JOB
    mixed: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    own_queues: tuple[str, ...] = ()
    names_members: bool = False
    kinds: tuple[str, ...] = ("Pod", names.BATCH_JOB, "Event", "Service")
    answers_on: str = "Pod"
    gates: tuple[str, ...] = (schedulers.PLACEMENT,)
    scarce: str = schedulers.CAPACITY
    index: str = jobs.INDEX

    def write(self, spec: GangSpec) -> Manifest:
        """Return the Indexed Job.

        Raises:
            WorkloadError: several roles, plugins or policies, or a minimum, which a batch Job does not have.
        """
        if spec.minimum != spec.members:
            raise WorkloadError(f"gang {spec.name!r}: an Indexed Job has no minimum of members")
        return jobs.indexed_job(spec, self.scheduler)

    def members(self, spec: GangSpec) -> tuple[Manifest, ...]:  # noqa: ARG002 (the controller makes them)
        """Return none: the Job controller makes the pods."""
        return ()

    def looked_at(self, obj: Mapping[str, Any]) -> bool:
        """Report whether a pod has the condition PodScheduled."""
        conditions = (obj.get("status") or {}).get("conditions") or []
        return any(c.get("type") == "PodScheduled" for c in conditions)
