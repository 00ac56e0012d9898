"""The PodGroup of a Job: the gang as the scheduler sees it."""

from fractions import Fraction

from pytest_gpucluster.embedded.objects import (
    Obj,
    annotations_of,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from pytest_gpucluster.embedded.volcano.admission import task_minimum
from pytest_gpucluster.embedded.volcano.amounts import Amounts, add, pod_limits, show_all, stated_requests
from pytest_gpucluster.plain.copies import clone

QUOTA_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})


def podgroup_name(job: Obj) -> str:
    """Return the name of a Job's PodGroup, which stays the same over restarts."""
    return f"{name_of(job)}-{uid_of(job)}"


def new_podgroup(job: Obj, *, short_by: int = 0) -> Obj:
    """Return the PodGroup of a Job, ready to be created.

    Args:
        job: The Job, as stored.
        short_by: Members that are missing from `minMember` (a defect); 0 otherwise.
    """
    spec = job["spec"]
    tasks = spec.get("tasks") or []
    minimum = int(spec.get("minAvailable") or 0)
    body: Obj = {
        "minMember": max(minimum - short_by, 0),
        "minTaskMember": {str(task.get("name", "")): task_minimum(task) for task in tasks},
        "queue": spec.get("queue", ""),
        "minResources": show_all(minimum_resources(tasks, minimum)),
    }
    for field in ("priorityClassName", "networkTopology"):
        if spec.get(field):
            body[field] = clone(spec[field])
    meta: Obj = {
        "name": podgroup_name(job),
        "namespace": namespace_of(job),
        "ownerReferences": [owner_reference(job)],
    }
    for kind, values in (("labels", labels_of(job)), ("annotations", annotations_of(job))):
        if values:
            meta[kind] = dict(values)
    return {"metadata": meta, "spec": body, "status": {}}


def minimum_resources(tasks: list[Obj], minimum: int) -> Amounts:
    """Return what the first `minimum` pods of a Job use, in the keys of a ResourceQuota.

    Tasks contribute their own minimums first where the Job's minimum covers their sum, then the rest of
    their replicas.
    """
    out: Amounts = {}
    left = minimum
    replicas = [int(task.get("replicas") or 0) for task in tasks]
    first = [min(task_minimum(task), n) for task, n in zip(tasks, replicas, strict=True)]
    rest = [n - m for n, m in zip(replicas, first, strict=True)]
    rounds = [replicas] if minimum < sum(first) else [first, rest]
    for counts in rounds:
        for task, count in zip(tasks, counts, strict=True):
            taken = min(count, left)
            left -= taken
            if taken:
                add(out, _quota_usage((task.get("template") or {}).get("spec") or {}), taken)
    return out


def _quota_usage(pod_spec: Obj) -> Amounts:
    out: Amounts = {"pods": Fraction(1), "count/pods": Fraction(1)}
    # No API server has filled in a Job's template: there a limit does not stand in for a request (recorded, v1.14.4).
    for name, value in stated_requests(pod_spec).items():
        out[name] = value
        out[f"requests.{name}"] = value
    for name, value in pod_limits(pod_spec).items():
        if name in QUOTA_NATIVE:
            out[f"limits.{name}"] = value
    return out
