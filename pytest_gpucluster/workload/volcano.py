"""A gang as a Volcano Job (batch.volcano.sh/v1alpha1)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.plain import names, schedulers, workload_kinds
from pytest_gpucluster.workload.asking import Asking
from pytest_gpucluster.workload.pods import pod_spec
from pytest_gpucluster.workload.spec import GangSpec, Manifest, Role, WorkloadError

FINAL = ("Completed", "Failed", "Terminated", "Aborted")
"""Phases that a Job does not leave by itself."""


@dataclasses.dataclass(frozen=True)
class VolcanoDialect:
    """Gangs of Volcano: roles, plugins, policies and queues."""

    queue: str = "default"
    name: str = schedulers.VOLCANO
    scheduler: str = "volcano"
    workload: str = workload_kinds.JOB
    kind: str = names.VC_JOB
    mixed: tuple[str, ...] = ()
    queues: tuple[str, ...] = ("Queue",)
    own_queues: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    group_kind: str = names.POD_GROUP
    names_members: bool = True
    kinds: tuple[str, ...] = ("Pod", names.VC_JOB, names.POD_GROUP, "Queue", "Event", "Service")
    answers_on: str = names.POD_GROUP
    gates: tuple[str, ...] = (schedulers.ENQUEUE, schedulers.PLACEMENT)
    scarce: str = schedulers.CAPACITY
    index: str = "VC_TASK_INDEX"
    own_api: bool = True
    places: bool = True
    served_by_name: bool = True
    pods_follow: bool = True
    gang_label: str = "volcano.sh/job-name"
    component: str = "volcano"

    def write(self, spec: GangSpec) -> Manifest:
        """Return the Volcano Job; schedulerName is set on the Job and on every task template."""
        if spec.domain:
            raise WorkloadError(
                f"gang {spec.name!r}: domains of Volcano are those of HyperNodes, not of node labels"
            )
        if spec.subdomain:
            raise WorkloadError(f"gang {spec.name!r}: names under a Service are the svc plugin's matter")
        body: dict[str, Any] = {
            "schedulerName": self.scheduler,
            "queue": self.queue,
            "minAvailable": spec.minimum,
            "tasks": [self._task(spec, role) for role in spec.roles],
        }
        if spec.plugins:
            body["plugins"] = {name: list(args) for name, args in spec.plugins.items()}
        if spec.policies:
            body["policies"] = [{"event": event, "action": action} for event, action in spec.policies]
        if spec.max_retry is not None:
            body["maxRetry"] = spec.max_retry
        if spec.time_to_live is not None:
            body["ttlSecondsAfterFinished"] = spec.time_to_live
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": spec.name},
            "spec": body,
        }

    def _task(self, spec: GangSpec, role: Role) -> Manifest:
        task: dict[str, Any] = {
            "name": role.name,
            "replicas": role.replicas,
            "template": {"spec": pod_spec(spec, role, self.scheduler)},
        }
        if role.min_available is not None:
            task["minAvailable"] = role.min_available
        if role.ends_job:
            task["policies"] = [{"event": "TaskCompleted", "action": "CompleteJob"}]
        return task

    def members(self, spec: GangSpec) -> tuple[Manifest, ...]:  # noqa: ARG002 (the controller makes them)
        """Return none: Volcano's controllers make the pods."""
        return ()

    def asking(self, spec: GangSpec) -> Asking:
        """Return the PodGroup, and the annotation by which pods of any owner join it.

        Raises:
            WorkloadError: a minimum of a role, which a PodGroup of ours does not state.
        """
        _no_minimum_of_roles(spec)
        group = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": spec.name},
            "spec": {"minMember": spec.minimum, "queue": self.queue},
        }
        return Asking(annotations={names.ANNOTATION_GROUP: spec.name}, group=group)

    def before(self, spec: GangSpec) -> tuple[Manifest, ...]:  # noqa: ARG002
        """Return nothing: the object says all."""
        return ()

    def member_host(self, gang: str, role: str, index: int) -> str:
        """Return the name that the svc plugin gives to a member."""
        return f"{gang}-{role}-{index}.{gang}"

    def runs(self, obj: Mapping[str, Any]) -> bool:
        """Report whether the phase of a PodGroup is Running."""
        return (obj.get("status") or {}).get("phase") == "Running"

    def looked_at(self, obj: Mapping[str, Any]) -> bool:
        """Report whether a PodGroup has a phase."""
        return bool((obj.get("status") or {}).get("phase"))


def _no_minimum_of_roles(spec: GangSpec) -> None:
    gated = [role.name for role in spec.roles if role.min_available not in (None, role.replicas)]
    if gated:
        raise WorkloadError(f"gang {spec.name!r}: its PodGroup has no minimum of a role ({', '.join(gated)})")


def ended(obj: Mapping[str, Any]) -> bool:
    """Report whether the phase of a Volcano Job is one that it does not leave."""
    return str(((obj.get("status") or {}).get("state") or {}).get("phase", "")) in FINAL


def members(spec: Mapping[str, Any]) -> int:
    """Return the pods of all tasks of a Volcano Job."""
    return sum(int(task.get("replicas", 1)) for task in spec.get("tasks") or [])
