"""What a job plugin can do, and what plugins share."""

from collections.abc import Iterable
from typing import Protocol

from pytest_gpucluster.embedded.objects import Obj, name_of
from pytest_gpucluster.embedded.store import Store


class Plugin(Protocol):
    """One plugin of one Job."""

    name: str

    def on_pod(self, pod: Obj, job: Obj, task: Obj, index: int) -> None:
        """Change a pod before it is created, in place."""

    def on_job(self, job: Obj, store: Store) -> None:
        """Create what belongs beside the pods, where it is missing."""

    def on_end(self, job: Obj, store: Store) -> None:
        """Delete what `on_job` created."""


class Quiet:
    """The hooks of a plugin that keeps no objects of its own."""

    def on_job(self, job: Obj, store: Store) -> None:
        """Create nothing."""

    def on_end(self, job: Obj, store: Store) -> None:
        """Delete nothing."""


def regular(pod: Obj) -> list[Obj]:
    """Return the regular containers of a pod."""
    return list(pod["spec"].get("containers") or [])


def everything(pod: Obj) -> list[Obj]:
    """Return regular and init containers of a pod."""
    return [*regular(pod), *(pod["spec"].get("initContainers") or [])]


def add_env(containers: Iterable[Obj], entries: Iterable[Obj]) -> None:
    """Append environment entries to containers."""
    listed = list(entries)
    for container in containers:
        container.setdefault("env", []).extend(dict(entry) for entry in listed)


def add_mount(containers: Iterable[Obj], mount: Obj) -> None:
    """Append a volume mount to containers."""
    for container in containers:
        container.setdefault("volumeMounts", []).append(dict(mount))


def add_port(containers: Iterable[Obj], name: str, number: int) -> None:
    """Declare a container port unless that number is declared already."""
    for container in containers:
        ports = container.setdefault("ports", [])
        if all(port.get("containerPort") != number for port in ports):
            ports.append({"name": name, "containerPort": number, "protocol": "TCP"})


def literal(name: str, value: str) -> Obj:
    """Return an environment entry with a value."""
    return {"name": name, "value": value}


def find_task(job: Obj, name: str) -> Obj | None:
    """Return the Job's task of that name, or None."""
    for task in job["spec"].get("tasks") or []:
        if task.get("name") == name:
            return dict(task)
    return None


def host(job: Obj, task: Obj, index: int) -> str:
    """Return the name under which other pods of the Job reach a pod, without the namespace."""
    spec = (task.get("template") or {}).get("spec") or {}
    hostname = spec.get("hostname") or f"{name_of(job)}-{task['name']}-{index}"
    return f"{hostname}.{spec.get('subdomain') or name_of(job)}"


def hosts(job: Obj, task: Obj) -> list[str]:
    """Return the hosts of a task; with a host name fixed in the template there is one only."""
    spec = (task.get("template") or {}).get("spec") or {}
    count = 1 if spec.get("hostname") else int(task.get("replicas") or 0)
    return [host(job, task, index) for index in range(count)]
