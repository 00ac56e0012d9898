"""A gang, written once: what it is, whoever schedules it.

The rows of the catalogue speak of a gang. A `GangSpec` says what it is; a dialect (`workload.dialect`) writes it for
one scheduler.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]

PAYLOAD_DIR = "/workspace"
"""Where payload files are mounted; the path that the documented manifests use."""


class WorkloadError(Exception):
    """A gang cannot be written as asked; the text says what and why."""


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume that every container of a gang's pods mounts.

    Attributes:
        name: of the volume in the pod, a DNS-1035 label.
        source: where it comes from, as a pod spec has it: `{"persistentVolumeClaim": {"claimName": ..}}`.
        path: where it is mounted.
    """

    name: str
    source: Mapping[str, Any]
    path: str


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
        max_retry: attempts in total; of a batch Job: lost members that are made again. None for the scheduler's own
            number, which for a batch Job of ours is no member at all.
        leads: the first member's end completes the whole gang; for gangs of one role, see `Role.ends_job`.
        time_to_live: seconds after its end at which the gang's object is removed; None for never.
        subdomain: name of the Service under which members have names, "" for none; with plugins that is their matter.
        grace: terminationGracePeriodSeconds of the members, in seconds.
        env: variables of every main and side container.
        apart: label by which members know each other, so that no two of them share a node; "" where they may. It is
            one that the object's controller puts onto its pods with the object's name.
        nodes: names of the nodes that members may be placed on, () for all; the scheduler decides all the same.
        volumes: further volumes of its pods.
        domain: node label of the level within one domain of which all members must be placed, "" where they may be
            anywhere.
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
    leads: bool = False
    time_to_live: int | None = None
    subdomain: str = ""
    grace: int = 1
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    apart: str = ""
    nodes: tuple[str, ...] = ()
    volumes: tuple[Volume, ...] = ()
    domain: str = ""

    @property
    def members(self) -> int:
        """Return N, the pods of all roles."""
        return sum(role.replicas for role in self.roles)

    @property
    def minimum(self) -> int:
        """Return how many must start together."""
        return self.members if self.min_available is None else self.min_available
