"""A gang as Kubernetes alone knows it: an Indexed Job whose pods are placed one at a time."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.plain import names, schedulers, workload_kinds
from pytest_gpucluster.workload import jobs
from pytest_gpucluster.workload.asking import Asking, whole_only
from pytest_gpucluster.workload.spec import GangSpec, Manifest, WorkloadError


@dataclasses.dataclass(frozen=True)
class DefaultSchedulerDialect:
    """No gangs: what the contrasts are written in."""

    name: str = schedulers.DEFAULT
    scheduler: str = "default-scheduler"
    queue: str = ""
    workload: str = workload_kinds.JOB
    kind: str = names.BATCH_JOB
    mixed: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    own_queues: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    group_kind: str = ""
    names_members: bool = False
    kinds: tuple[str, ...] = ("Pod", names.BATCH_JOB, "Event", "Service")
    answers_on: str = "Pod"
    gates: tuple[str, ...] = (schedulers.PLACEMENT,)
    scarce: str = schedulers.CAPACITY
    index: str = jobs.INDEX
    own_api: bool = False
    places: bool = True
    served_by_name: bool = False
    pods_follow: bool = False
    gang_label: str = jobs.JOB_LABEL
    component: str = ""

    def write(self, spec: GangSpec) -> Manifest:
        """Return the Indexed Job.

        Raises:
            WorkloadError: several roles, plugins or policies, or a minimum, which a batch Job does not have.
        """
        if spec.domain:
            raise WorkloadError(f"gang {spec.name!r}: the default scheduler keeps no gang inside one domain")
        if spec.minimum != spec.members:
            raise WorkloadError(f"gang {spec.name!r}: an Indexed Job has no minimum of members")
        return jobs.indexed_job(spec, self.scheduler)

    def members(self, spec: GangSpec) -> tuple[Manifest, ...]:  # noqa: ARG002 (the controller makes them)
        """Return none: the Job controller makes the pods."""
        return ()

    def asking(self, spec: GangSpec) -> Asking:
        """Return nothing: the default scheduler knows no gangs.

        Raises:
            WorkloadError: a minimum of members.
        """
        whole_only(spec, "the default scheduler")
        return Asking()

    def before(self, spec: GangSpec) -> tuple[Manifest, ...]:  # noqa: ARG002
        """Return nothing: the object says all."""
        return ()

    def member_host(self, gang: str, role: str, index: int) -> str:  # noqa: ARG002 (an Indexed Job has one role)
        """Return the name of a member below the Service of its gang."""
        return jobs.member_host(gang, index)

    def runs(self, obj: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Report True: nothing speaks of a gang as a whole."""
        return True

    def looked_at(self, obj: Mapping[str, Any]) -> bool:
        """Report whether a pod has the condition PodScheduled."""
        conditions = (obj.get("status") or {}).get("conditions") or []
        return any(c.get("type") == "PodScheduled" for c in conditions)
