"""What the mutating webhooks of Volcano fill in when a Job or a Queue is created."""

from typing import Any

from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.volcano import names

DEFAULT_MAX_RETRY = 3
"""`maxRetry` of Jobs and tasks; 0 counts as absent (Volcano v1.14.4)."""
IMPLIED_PLUGINS = {
    "mpi": ("svc", "ssh"), "pytorch": ("svc",), "tensorflow": ("svc",), "ray": ("svc",),
}  # fmt: skip
"""Plugins that the webhook adds for others."""


TASK_NAME = "default"
"""What the name of a task without one begins with; its number follows."""


def mutate_job(
    job: Obj,
    *,
    without_minimum: bool = False,
    one_scheduler: bool = False,
    retries: int = DEFAULT_MAX_RETRY,
    task_name: str = TASK_NAME,
) -> None:
    """Fill in a Job's scheduler, queue, retries, plugins, task names and minimums, in place.

    Args:
        job: The Job, as sent.
        without_minimum: Leave an absent minAvailable absent (a defect).
        one_scheduler: Give every task template the Job's schedulerName (a defect).
        retries: What an absent maxRetry of the Job becomes; another number is a defect.
        task_name: What the name of a task without one begins with; another text is a defect.
    """
    spec = job.setdefault("spec", {})
    spec["schedulerName"] = spec.get("schedulerName") or names.SCHEDULER
    spec["queue"] = spec.get("queue") or names.DEFAULT_QUEUE
    spec["maxRetry"] = spec.get("maxRetry") or retries
    plugins = spec.get("plugins")
    for name in list(plugins or {}):
        for implied in IMPLIED_PLUGINS.get(name, ()):
            plugins.setdefault(implied, [])
    tasks = spec.get("tasks") or []
    for index, task in enumerate(tasks):
        task["name"] = task.get("name") or f"{task_name}{index}"
        _mutate_task(task)
        if one_scheduler:
            task["template"]["spec"]["schedulerName"] = spec["schedulerName"]
    if not spec.get("minAvailable") and not without_minimum:
        spec["minAvailable"] = sum(task_minimum(task) for task in tasks)


def task_minimum(task: Obj) -> int:
    """Return a task's minAvailable, or its replicas where none is stated."""
    stated = task.get("minAvailable")
    return int(task.get("replicas") or 0) if stated is None else int(stated)


def _mutate_task(task: Obj) -> None:
    task["maxRetry"] = task.get("maxRetry") or DEFAULT_MAX_RETRY
    if task.get("minAvailable") is None:
        partition = task.get("partitionPolicy") or {}
        by_partition = int(partition.get("minPartitions") or 0) * int(partition.get("partitionSize") or 0)
        task["minAvailable"] = by_partition or int(task.get("replicas") or 0)
    template: dict[str, Any] = task.setdefault("template", {})
    template.setdefault("metadata", {})
    pod = template.setdefault("spec", {})
    if pod.get("hostNetwork") and not pod.get("dnsPolicy"):
        pod["dnsPolicy"] = "ClusterFirstWithHostNet"
    for container in [*(pod.get("containers") or []), *(pod.get("initContainers") or [])]:
        container.setdefault("resources", {})


def mutate_queue(queue: Obj) -> None:
    """Fill in a Queue's weight and reclaimable, in place."""
    spec = queue.setdefault("spec", {})
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    spec["weight"] = spec.get("weight") or 1
