"""A gang, written once, and how each scheduler wants it written.

The rows of the catalogue speak of a gang. A `GangSpec` says what it is; a `Dialect` writes it for one scheduler and
knows which kinds tell its story. Where a scheduler's refusal appears and what its gates are is read on the other
side, in `pytest_gpucluster.evidence.schedulers`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from pytest_gpucluster.plain import names

Manifest = dict[str, Any]

PAYLOAD_DIR = "/workspace"
"""Where payload files are mounted; the path that the documented manifests use."""


class WorkloadError(Exception):
    """A gang cannot be written as asked; the text says what and why."""


@dataclasses.dataclass(frozen=True)
class Sidecar:
    """A second regular container of a role's pods."""

    name: str
    command: tuple[str, ...]
    image: str = ""


@dataclasses.dataclass(frozen=True)
class Role:
    """One task of a gang.

    Attributes:
        name: task name; the pytorch plugin finds master and worker by it.
        replicas: how many pods.
        command: what the main container runs.
        args: arguments, in which the kubelet expands `$(NAME)`.
        image: image name; empty takes the gang's.
        env: further variables.
        field_env: variables from the downward API (name -> field path, such as `status.podIP`).
        resources: what each member of this role asks for (limits); None takes the gang's.
        ends_job: the gang is complete when this role is (TaskCompleted -> CompleteJob).
        min_available: minimum of this role, None for all.
        restart_policy: of the pods; a role without one of Never and OnFailure never ends.
        sidecars: further containers.
    """

    name: str
    replicas: int
    command: tuple[str, ...]
    args: tuple[str, ...] = ()
    image: str = ""
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    field_env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    resources: Mapping[str, int | str] | None = None
    ends_job: bool = False
    min_available: int | None = None
    restart_policy: str = "Never"
    sidecars: tuple[Sidecar, ...] = ()


@dataclasses.dataclass(frozen=True)
class GangSpec:
    """One gang.

    Attributes:
        name: object name, a DNS-1035 label (the svc plugin makes a Service of it).
        roles: its tasks, first the master where there is one.
        resources: what each member asks for (limits), such as `{"nvidia.com/gpu": 4}`.
        min_available: members that must start together; None for all.
        image: image of roles that name none.
        plugins: job plugins with their arguments, for schedulers that have them.
        policies: job-level policies (event, action).
        payload: name of the ConfigMap with payload files, mounted at `PAYLOAD_DIR`.
        max_retry: attempts in total.
        grace: terminationGracePeriodSeconds of the members, in seconds.
        env: variables of every main and side container.
    """

    name: str
    roles: tuple[Role, ...]
    resources: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    min_available: int | None = None
    image: str = ""
    plugins: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    policies: tuple[tuple[str, str], ...] = ()
    payload: str = ""
    max_retry: int | None = None
    grace: int = 1
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def members(self) -> int:
        """Return N, the pods of all roles."""
        return sum(role.replicas for role in self.roles)

    @property
    def minimum(self) -> int:
        """Return how many must start together."""
        return self.members if self.min_available is None else self.min_available


class Dialect(Protocol):
    """How one scheduler wants a gang written."""

    @property
    def scheduler(self) -> str:
        """Return the schedulerName of its pods."""

    @property
    def kind(self) -> str:
        """Return the kind key of the gang's own object."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds that tell the gang's story, pods and events included."""

    def write(self, spec: GangSpec) -> Manifest:
        """Return the manifest.

        Raises:
            WorkloadError: when this scheduler cannot express the gang.
        """


@dataclasses.dataclass(frozen=True)
class VolcanoDialect:
    """A gang as a Volcano Job (batch.volcano.sh/v1alpha1)."""

    queue: str = "default"
    scheduler: str = "volcano"
    kind: str = names.VC_JOB
    kinds: tuple[str, ...] = ("Pod", names.VC_JOB, "PodGroup", "Event", "Service")

    def write(self, spec: GangSpec) -> Manifest:
        """Return the Volcano Job; schedulerName is set on the Job and on every task template."""
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


@dataclasses.dataclass(frozen=True)
class DefaultSchedulerDialect:
    """A gang as Kubernetes alone knows it: an Indexed Job, whose pods are placed one at a time."""

    scheduler: str = "default-scheduler"
    kind: str = names.BATCH_JOB
    kinds: tuple[str, ...] = ("Pod", names.BATCH_JOB, "Event", "Service")

    def write(self, spec: GangSpec) -> Manifest:
        """Return the Indexed Job.

        Raises:
            WorkloadError: several roles, plugins or policies, which a batch Job does not have.
        """
        if len(spec.roles) != 1:
            raise WorkloadError(
                f"gang {spec.name!r}: an Indexed Job has one role, this gang has {len(spec.roles)}"
            )
        if spec.plugins or spec.policies:
            raise WorkloadError(f"gang {spec.name!r}: an Indexed Job has no job plugins and no job policies")
        role = spec.roles[0]
        pod = pod_spec(spec, role, self.scheduler)
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": spec.name},
            "spec": {
                "completionMode": "Indexed",
                "parallelism": role.replicas,
                "completions": role.replicas,
                "backoffLimit": 0,
                "template": {"spec": pod},
            },
        }


def pod_spec(spec: GangSpec, role: Role, scheduler: str) -> Manifest:
    """Return the pod spec of a role's members."""
    env: list[Manifest] = [{"name": key, "value": value} for key, value in {**spec.env, **role.env}.items()]
    for name, path in {"GPUCLUSTER_POD": "metadata.name", **role.field_env}.items():
        env.append({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
    mounts = [{"name": "payload", "mountPath": PAYLOAD_DIR}] if spec.payload else []
    asked = spec.resources if role.resources is None else role.resources
    main: dict[str, Any] = {
        "name": "main",
        "image": role.image or spec.image,
        "command": list(role.command),
        "env": [*env, {"name": "GPUCLUSTER_CONTAINER", "value": "main"}],
        "resources": {
            # Small CPU and memory requests: a member without any request is best-effort, which the gang
            # plugin does not protect.
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {name: str(count) for name, count in asked.items()},
        },
    }
    main["resources"]["requests"].update(main["resources"]["limits"])
    if role.args:
        main["args"] = list(role.args)
    containers = [main, *(_sidecar(spec, role, sidecar, env) for sidecar in role.sidecars)]
    pod: dict[str, Any] = {
        "schedulerName": scheduler,
        "restartPolicy": role.restart_policy,
        "terminationGracePeriodSeconds": spec.grace,
        "containers": containers,
    }
    if mounts:
        for container in containers:
            container["volumeMounts"] = [dict(mount) for mount in mounts]
        pod["volumes"] = [{"name": "payload", "configMap": {"name": spec.payload}}]
    return pod


def _sidecar(spec: GangSpec, role: Role, sidecar: Sidecar, env: list[Manifest]) -> Manifest:
    return {
        "name": sidecar.name,
        "image": sidecar.image or role.image or spec.image,
        "command": list(sidecar.command),
        "env": [*env, {"name": "GPUCLUSTER_CONTAINER", "value": sidecar.name}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }


def filler(name: str, resources: Mapping[str, int | str], image: str, command: tuple[str, ...]) -> Manifest:
    """Return a bare pod of the default scheduler that holds room.

    It is no Volcano pod of the queue under test, so that the queue's quota stays out of the question
    (Volcano counts its own pods at enqueue; recorded: the same shortfall made by a Volcano Job of the same queue is
    refused before the gang gate).
    """
    held = {key: str(value) for key, value in resources.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "command": list(command),
                    "resources": {
                        "requests": {"cpu": "10m", "memory": "16Mi", **held},
                        "limits": held,
                    },
                }
            ],
        },
    }


DIALECTS = ("volcano", "default-scheduler")
"""Schedulers that a gang can be written for today."""


def dialect_for(scheduler: str, queue: str = "default") -> Dialect:
    """Return the dialect of a declared scheduler.

    Raises:
        WorkloadError: a scheduler that no dialect is written for; names those that are.
    """
    if scheduler == "volcano":
        return VolcanoDialect(queue=queue)
    if scheduler == "default-scheduler":
        return DefaultSchedulerDialect()
    raise WorkloadError(
        f"no way to write a gang for scheduler {scheduler!r}{names.did_you_mean(scheduler, DIALECTS)}"
    )
