"""A gang of Kubernetes itself: a batch Job that asks for a PodGroup of scheduling.k8s.io, or pods in one of ours.

The Job controller makes a PodGroup for a Job that asks for a gang (`spec.scheduling`, feature WorkloadWithJob). A Job
that does not ask gets one too, of the basic policy, which promises nothing: the policy decides, not the object. Where
an Indexed Job cannot express the gang, since its members differ, we make the PodGroup and its pods ourselves.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster.plain import names, schedulers, workload_kinds
from pytest_gpucluster.workload import jobs
from pytest_gpucluster.workload.asking import Asking
from pytest_gpucluster.workload.pods import pod_spec
from pytest_gpucluster.workload.spec import GangSpec, Manifest, WorkloadError

SCHEDULED = "PodGroupInitiallyScheduled"
"""The condition by which the scheduler answers; True says that the group *was* placed once, and never goes back."""


def policy(minimum: int) -> Manifest:
    """Return the scheduling policy of a gang."""
    return {"schedulingPolicy": {"gang": {"minCount": minimum}}}


def domain(label: str) -> Manifest:
    """Return the constraint by which a gang stays inside one domain of a level, nothing for no level."""
    return {"schedulingConstraints": {"topology": [{"key": label}]}} if label else {}


@dataclasses.dataclass(frozen=True)
class NativeDialect:
    """Gangs of Kubernetes 1.37 (scheduling.k8s.io/v1beta1)."""

    name: str = schedulers.NATIVE
    scheduler: str = schedulers.DEFAULT
    queue: str = ""
    workload: str = workload_kinds.JOB
    kind: str = names.BATCH_JOB
    mixed: tuple[str, ...] = (names.NATIVE_POD_GROUP, "Pod")
    queues: tuple[str, ...] = ()
    own_queues: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    group_kind: str = names.NATIVE_POD_GROUP
    names_members: bool = False
    kinds: tuple[str, ...] = ("Pod", names.BATCH_JOB, names.NATIVE_POD_GROUP, "Event", "Service")
    answers_on: str = names.NATIVE_POD_GROUP
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
        """Return the Job that asks for a gang; for a gang of several roles its PodGroup.

        Raises:
            WorkloadError: plugins, policies, or minimums of roles, which Kubernetes does not have.
        """
        asked = {**policy(spec.minimum), **domain(spec.domain)}
        if len(spec.roles) == 1:
            return jobs.indexed_job(spec, self.scheduler, scheduling=asked)
        if spec.plugins or spec.policies:
            raise WorkloadError(f"gang {spec.name!r}: Kubernetes has no job plugins and no job policies")
        ends = [role.name for role in spec.roles if role.ends_job]
        gated = [role.name for role in spec.roles if role.min_available not in (None, role.replicas)]
        for what, roles in (("end of one role that ends the gang", ends), ("minimum of a role", gated)):
            if roles:
                raise WorkloadError(f"gang {spec.name!r}: a PodGroup knows no {what} ({', '.join(roles)})")
        if spec.leads or spec.max_retry is not None or spec.time_to_live is not None:
            raise WorkloadError(f"gang {spec.name!r}: pods without a Job are not ended, repeated or removed")
        return {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": spec.name},
            "spec": asked,
        }

    def members(self, spec: GangSpec) -> tuple[Manifest, ...]:
        """Return the pods of a gang of several roles, each in its PodGroup; () where the Job controller makes them."""
        return tuple(self._pods(spec)) if len(spec.roles) > 1 else ()

    def _pods(self, spec: GangSpec) -> Iterator[Manifest]:
        for role in spec.roles:
            for index in range(role.replicas):
                pod = pod_spec(spec, role, self.scheduler)
                pod["schedulingGroup"] = {"podGroupName": spec.name}
                if spec.subdomain:
                    pod["hostname"] = f"{role.name}-{index}"
                name = f"{spec.name}-{role.name}-{index}"
                metadata = {"name": name, "labels": {names.LABEL_GANG: spec.name}}
                yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}

    def asking(self, spec: GangSpec) -> Asking:
        """Return the PodGroup, and the field by which pods of any owner join it."""
        group = {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": spec.name},
            "spec": policy(spec.minimum),
        }
        return Asking(pod={"schedulingGroup": {"podGroupName": spec.name}}, group=group)

    def before(self, spec: GangSpec) -> tuple[Manifest, ...]:  # noqa: ARG002
        """Return nothing: the object says all."""
        return ()

    def member_host(self, gang: str, role: str, index: int) -> str:  # noqa: ARG002 (an Indexed Job has one role)
        """Return the name of a member below the Service of its gang."""
        return jobs.member_host(gang, index)

    def runs(self, obj: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Report True: a PodGroup of Kubernetes says only that its gang was once placed."""
        return True

    def looked_at(self, obj: Mapping[str, Any]) -> bool:
        """Report whether a PodGroup has its condition."""
        conditions = (obj.get("status") or {}).get("conditions") or []
        return any(c.get("type") == SCHEDULED for c in conditions)
