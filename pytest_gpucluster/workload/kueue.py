"""A gang behind Kueue: an Indexed Job that names a LocalQueue, suspended until its quota is there.

Kueue admits a Job as a whole, by quota. It does not look at nodes: where quota exceeds capacity a gang is half placed,
and no minimum below all members is known.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.plain import names, schedulers, workload_kinds
from pytest_gpucluster.workload import jobs
from pytest_gpucluster.workload.asking import Asking, whole_only
from pytest_gpucluster.workload.spec import GangSpec, Manifest, WorkloadError


@dataclasses.dataclass(frozen=True)
class KueueDialect:
    """Jobs as users submit them: with the label of a queue, and not suspended, which is Kueue's matter."""

    queue: str = "default"
    name: str = schedulers.KUEUE
    scheduler: str = schedulers.DEFAULT
    workload: str = workload_kinds.JOB
    kind: str = names.BATCH_JOB
    mixed: tuple[str, ...] = ()
    queues: tuple[str, ...] = ("ClusterQueue", "LocalQueue", "ResourceFlavor")
    own_queues: tuple[str, ...] = ("ResourceFlavor", "ClusterQueue", "LocalQueue")
    companions: tuple[str, ...] = ()
    group_kind: str = ""
    names_members: bool = False
    kinds: tuple[str, ...] = (
        "Pod", names.BATCH_JOB, names.KUEUE_WORKLOAD, "ClusterQueue", "LocalQueue", "Event", "Service",
    )  # fmt: skip
    answers_on: str = names.KUEUE_WORKLOAD
    gates: tuple[str, ...] = (schedulers.QUOTA, schedulers.PLACEMENT)
    scarce: str = schedulers.QUOTA
    index: str = jobs.INDEX
    own_api: bool = False
    places: bool = False
    served_by_name: bool = False
    pods_follow: bool = True
    gang_label: str = jobs.JOB_LABEL
    component: str = ""

    def write(self, spec: GangSpec) -> Manifest:
        """Return the Job with the label of its queue.

        Raises:
            WorkloadError: several roles, plugins, policies, or a minimum, which Kueue admits no Job by.
        """
        if spec.minimum != spec.members:
            raise WorkloadError(f"gang {spec.name!r}: Kueue admits a Job with all its members or not at all")
        job = jobs.indexed_job(spec, self.scheduler)
        job["metadata"]["labels"] = {names.LABEL_KUEUE_QUEUE: self.queue}
        if spec.domain:
            annotations = {names.ANNOTATION_KUEUE_TOPOLOGY: spec.domain}
            job["spec"]["template"]["metadata"] = {"annotations": annotations}
        return job

    def members(self, spec: GangSpec) -> tuple[Manifest, ...]:  # noqa: ARG002 (the controller makes them)
        """Return none: the Job controller makes the pods, once the Job is admitted."""
        return ()

    def asking(self, spec: GangSpec) -> Asking:
        """Return the label of the queue.

        Raises:
            WorkloadError: a minimum, which Kueue admits nothing by.
        """
        whole_only(spec, "Kueue")
        return Asking(labels={names.LABEL_KUEUE_QUEUE: self.queue})

    def before(self, spec: GangSpec) -> tuple[Manifest, ...]:  # noqa: ARG002
        """Return nothing: the object says all."""
        return ()

    def member_host(self, gang: str, role: str, index: int) -> str:  # noqa: ARG002 (an Indexed Job has one role)
        """Return the name of a member below the Service of its gang."""
        return jobs.member_host(gang, index)

    def runs(self, obj: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Report True: a Workload says that its quota is there, not that its pods run."""
        return True

    def looked_at(self, obj: Mapping[str, Any]) -> bool:
        """Report whether a Workload says whether its quota is reserved."""
        conditions = (obj.get("status") or {}).get("conditions") or []
        return any(c.get("type") == "QuotaReserved" for c in conditions)
