"""What the schemas of Volcano's custom resources fill in and refuse (code 422, reason Invalid)."""

import re
from typing import Any

from pytest_gpucluster.embedded.errors import Cause, bad_value, cause, not_supported
from pytest_gpucluster.embedded.kinds.known import prune_fields, prune_pod_spec
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.volcano import names

TASK_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

JOB_SPEC = frozenset({
    "maxRetry", "minAvailable", "minSuccess", "networkTopology", "plugins", "policies",
    "priorityClassName", "queue", "runningEstimate", "schedulerName", "tasks",
    "ttlSecondsAfterFinished", "volumes",
})  # fmt: skip
TASK = frozenset({
    "dependsOn", "maxRetry", "minAvailable", "name", "partitionPolicy", "policies", "replicas",
    "template", "topologyPolicy",
})  # fmt: skip
POLICY = frozenset({"action", "event", "events", "exitCode", "timeout"})
QUEUE_SPEC = frozenset({
    "affinity", "capability", "dequeueStrategy", "deserved", "extendClusters", "guarantee", "parent",
    "priority", "reclaimable", "type", "weight",
})  # fmt: skip


def prune_job(job: Obj) -> list[str]:
    """Remove the fields that a Job does not have, in place, and return their paths."""
    spec = job.get("spec")
    out = prune_fields(spec, JOB_SPEC, "spec")
    if not isinstance(spec, dict):
        return out
    out += _prune_policies(spec, "spec")
    for index, task in enumerate(spec.get("tasks") or []):
        where = f"spec.tasks[{index}]"
        out += prune_fields(task, TASK, where) + _prune_policies(task, where)
        template = task.get("template") if isinstance(task, dict) else None
        if isinstance(template, dict):
            out += prune_pod_spec(template.get("spec"), f"{where}.template.spec")
    return out


def _prune_policies(holder: object, where: str) -> list[str]:
    listed = holder.get("policies") if isinstance(holder, dict) else None
    return [
        found
        for index, policy in enumerate(listed or [])
        for found in prune_fields(policy, POLICY, f"{where}.policies[{index}]")
    ]


def prune_queue(queue: Obj) -> list[str]:
    """Remove the fields that a Queue does not have, in place, and return their paths."""
    return prune_fields(queue.get("spec"), QUEUE_SPEC, "spec")


def default_job(job: Obj) -> None:
    """Fill in the schema's defaults of a Job: maxRetry 3 and queue `default`."""
    spec = job.setdefault("spec", {})
    spec.setdefault("maxRetry", 3)
    spec.setdefault("queue", names.DEFAULT_QUEUE)


def default_queue(queue: Obj) -> None:
    """Fill in the schema's defaults of a Queue."""
    spec = queue.setdefault("spec", {})
    spec.setdefault("weight", 1)
    spec.setdefault("dequeueStrategy", "traverse")


def validate_job(job: Obj, old: Obj | None = None) -> list[Cause]:  # noqa: ARG001
    """Return what the schema refuses in a Job."""
    spec = job.get("spec") or {}
    out = [
        found
        for name in ("minAvailable", "maxRetry", "ttlSecondsAfterFinished")
        for found in _at_least(f"spec.{name}", spec.get(name), 0)
    ]
    out += _at_least("spec.minSuccess", spec.get("minSuccess"), 1)
    tasks = spec.get("tasks")
    if not tasks:
        out.append(bad_value("spec.tasks", 0, "spec.tasks in body should have at least 1 items"))
    out += _policies("spec", spec)
    for index, task in enumerate(tasks or []):
        out += _task(f"spec.tasks[{index}]", task)
    return out


def _task(where: str, task: Obj) -> list[Cause]:
    out = [
        found
        for name in ("replicas", "minAvailable", "maxRetry")
        for found in _at_least(f"{where}.{name}", task.get(name), 0)
    ]
    name = task.get("name")
    if name and not re.match(TASK_NAME, name):
        field = f"{where}.name"
        out.append(bad_value(field, name, f"{field} in body should match '{TASK_NAME}'"))
    pod = (task.get("template") or {}).get("spec") or {}
    if not isinstance(pod.get("containers"), list):
        field = f"{where}.template.spec.containers"
        text = f'Invalid value: "null": {field} in body must be of type array: "null"'
        out.append(cause(field, "FieldValueTypeInvalid", text))
    return out + _policies(where, task)


def _policies(where: str, holder: Obj) -> list[Cause]:
    out: list[Cause] = []
    for index, policy in enumerate(holder.get("policies") or []):
        event = policy.get("event")
        if event is not None and event not in names.SCHEMA_EVENTS:
            field = f"{where}.policies[{index}].event"
            out.append(not_supported(field, event, names.SCHEMA_EVENTS))
    return out


def _at_least(field: str, value: Any, least: int) -> list[Cause]:
    if value is None or value >= least:
        return []
    why = f"{field} in body should be greater than or equal to {least}"
    return [bad_value(field, value, why)]
