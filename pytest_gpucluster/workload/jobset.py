"""A gang as a JobSet (jobset.x-k8s.io/v1alpha2): one replicated Job per role, each an Indexed Job.

Its controller makes the headless Service and gives each member a name, so that none of ours is needed.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_gpucluster.plain import names, workload_kinds
from pytest_gpucluster.workload import jobs
from pytest_gpucluster.workload.asking import Asking
from pytest_gpucluster.workload.over import Over
from pytest_gpucluster.workload.pods import pod_spec
from pytest_gpucluster.workload.spec import GangSpec, Manifest, Role, WorkloadError

if TYPE_CHECKING:
    from pytest_gpucluster.workload.protocol import Dialect

NAMED_BY_ITSELF = "svc"
"""The only job plugin that a gang may ask for: a JobSet does by itself what that one does."""


@dataclasses.dataclass(frozen=True)
class JobSetDialect(Over):
    """Gangs as JobSets, over any scheduler."""

    workload: ClassVar[str] = workload_kinds.JOBSET
    kind: ClassVar[str] = names.JOBSET
    parts: ClassVar[tuple[str, ...]] = (names.BATCH_JOB, "Service")
    gang_label: ClassVar[str] = "jobset.sigs.k8s.io/jobset-name"

    def write(self, spec: GangSpec) -> Manifest:
        """Return the JobSet; a role that ends the gang is the only target of its success policy.

        Raises:
            WorkloadError: plugins or policies of Volcano, or minimums of roles, which a JobSet does not have.
        """
        if spec.domain:
            raise WorkloadError(f"gang {spec.name!r}: a JobSet is not written for one domain of the network")
        foreign = sorted(set(spec.plugins) - {NAMED_BY_ITSELF})
        if foreign or spec.policies:
            raise WorkloadError(f"gang {spec.name!r}: a JobSet has no job plugins and no job policies")
        asking = self.asking(spec)
        body: dict[str, Any] = {
            "network": {
                "enableDNSHostnames": True,
                "publishNotReadyAddresses": True,
                **({"subdomain": spec.subdomain} if spec.subdomain else {}),
            },
            "replicatedJobs": [self._replicated(spec, role, asking) for role in spec.roles],
        }
        ends = [role.name for role in spec.roles if role.ends_job] or (
            [spec.roles[0].name] if spec.leads else []
        )
        if ends:
            body["successPolicy"] = {"operator": "Any", "targetReplicatedJobs": ends}
        if spec.time_to_live is not None:
            body["ttlSecondsAfterFinished"] = spec.time_to_live
        metadata: Manifest = {"name": spec.name}
        if asking.labels:
            metadata["labels"] = dict(asking.labels)
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": metadata,
            "spec": body,
        }

    def _replicated(self, spec: GangSpec, role: Role, asking: Asking) -> Manifest:
        # Its controller gives pods their subdomain; one of ours would be the name of another Service.
        pod = {**pod_spec(dataclasses.replace(spec, subdomain=""), role, self.scheduler), **asking.pod}
        template: Manifest = {"spec": pod}
        if asking.annotations:
            template["metadata"] = {"annotations": dict(asking.annotations)}
        job: Manifest = {
            "completionMode": "Indexed",
            "parallelism": role.replicas,
            "completions": role.replicas,
            "backoffLimit": spec.max_retry or 0,
            "template": template,
        }
        if role.ends_job or (spec.leads and role is spec.roles[0]):
            job["successPolicy"] = jobs.LEADS
        return {"name": role.name, "replicas": 1, "template": {"spec": job}}

    def member_host(self, gang: str, role: str, index: int) -> str:
        """Return the name of a member: of the JobSet, the replicated Job, the Job's index and its own."""
        return f"{gang}-{role}-0-{index}.{gang}"


def over(base: "Dialect") -> JobSetDialect:
    """Return how gangs are written as JobSets for a scheduler."""
    return JobSetDialect(base, base.queue, base.scheduler)


def ended(obj: Mapping[str, Any]) -> bool:
    """Report whether a JobSet has completed or failed."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(c.get("type") in ("Completed", "Failed") and c.get("status") == "True" for c in conditions)


def members(spec: Mapping[str, Any]) -> int:
    """Return the pods of all replicated Jobs of a JobSet."""
    return sum(
        int(one.get("replicas", 1)) * jobs.members(one["template"].get("spec") or {})
        for one in spec.get("replicatedJobs") or []
    )
