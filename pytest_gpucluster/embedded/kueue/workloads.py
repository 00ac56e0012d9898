"""The Workload of a Job: its name, what it holds, whether it still fits its Job. Pure functions."""

import hashlib
from fractions import Fraction

from pytest_gpucluster.embedded.kinds.jobs import CONTROLLER_UID, JOB_NAME
from pytest_gpucluster.embedded.kueue import names
from pytest_gpucluster.embedded.kueue.amounts import Amounts, pod_requests
from pytest_gpucluster.embedded.objects import (
    Obj,
    annotations_of,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from pytest_gpucluster.plain.copies import clone

LONGEST_NAME = 253
HASH_LENGTH = 5
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
OWN_LABELS = ("job-name", "controller-uid", JOB_NAME, CONTROLLER_UID)
"""Labels of a Job's template that the Job controller puts there."""


def queue_of(job: Obj) -> str:
    """Return the LocalQueue that a Job names, empty where it names none."""
    return labels_of(job).get(names.QUEUE_LABEL, "")


def is_suspended(job: Obj) -> bool:
    """Report whether a Job is suspended and its stopping is complete."""
    return bool(job["spec"].get("suspend")) and annotations_of(job).get(names.STOPPING_ANNOTATION) != "true"


def is_active(job: Obj) -> bool:
    """Report whether a Job counts running pods."""
    return bool((job.get("status") or {}).get("active"))


def end_of(job: Obj) -> tuple[str, str] | None:
    """Return reason and message with which a Job's Workload finishes, None while the Job goes on."""
    for condition in (job.get("status") or {}).get("conditions") or []:
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return ("Failed" if condition["type"] == "Failed" else "Succeeded", condition.get("message", ""))
    return None


def pod_count(job: Obj) -> int:
    """Return how many pods of a Job run at once."""
    spec = job["spec"]
    count = int(spec.get("parallelism") or 0)
    completions = spec.get("completions")
    return count if completions is None else min(count, int(completions))


def pods_ready(job: Obj) -> bool:
    """Report whether all pods of a Job are ready or have succeeded."""
    status = job.get("status") or {}
    return int(status.get("succeeded") or 0) + int(status.get("ready") or 0) >= pod_count(job)


def reclaimable(job: Obj) -> list[Obj]:
    """Return how many pods of a Job will not be needed again."""
    parallelism = int(job["spec"].get("parallelism") or 0)
    done = int((job.get("status") or {}).get("succeeded") or 0)
    completions = job["spec"].get("completions")
    left = (parallelism if completions is None else int(completions)) - done
    if parallelism == 1 or not done or left >= parallelism:
        return []
    return [{"name": names.POD_SET, "count": parallelism - left}]


def workload_name(job: Obj) -> str:
    """Return the name of a Job's Workload: `job-<name>-<5 hex digits>`."""
    text = f"Job\nbatch\n{name_of(job)}\n{uid_of(job)}"
    digest = hashlib.sha1(text.encode()).hexdigest()[:HASH_LENGTH]  # noqa: S324 - as Kueue makes it
    prefix = f"job-{name_of(job)}"[: LONGEST_NAME - 1 - HASH_LENGTH]
    return f"{prefix}-{digest}"


def new_workload(job: Obj, priority: Obj) -> Obj:
    """Return the Workload of a Job.

    Args:
        job: The Job.
        priority: The fields of the spec that say its priority.
    """
    template = clone(job["spec"]["template"])
    labels = {
        k: v for k, v in labels_of(template).items() if k not in OWN_LABELS or k == JOB_NAME
    }  # fmt: skip
    if template.get("metadata") is not None:
        template["metadata"]["labels"] = labels
    pod_set = {
        "name": names.POD_SET,
        "count": pod_count(job),
        "template": template,
        "topologyRequest": {**_topology(template), "podIndexLabel": INDEX_LABEL},
    }
    return {
        "metadata": {
            "name": workload_name(job),
            "namespace": namespace_of(job),
            "labels": {names.JOB_UID_LABEL: uid_of(job)},
            "finalizers": [names.IN_USE],
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {"active": True, "podSets": [pod_set], "queueName": queue_of(job), **priority},
    }


def _topology(template: Obj) -> Obj:
    """Return what the annotations of a template ask of a topology."""
    said = annotations_of(template)
    if names.REQUIRED_TOPOLOGY in said:
        return {"required": said[names.REQUIRED_TOPOLOGY]}
    if names.PREFERRED_TOPOLOGY in said:
        return {"preferred": said[names.PREFERRED_TOPOLOGY]}
    if names.UNCONSTRAINED_TOPOLOGY in said:
        return {"unconstrained": said[names.UNCONSTRAINED_TOPOLOGY].lower() in ("1", "t", "true")}
    return {}


def fits_job(workload: Obj, job: Obj) -> bool:
    """Report whether a Workload is that of a Job as the Job is now: same number of pods, same containers."""
    (pod_set,) = workload["spec"]["podSets"]
    ours, theirs = pod_set["template"]["spec"], job["spec"]["template"]["spec"]
    count = pod_set["count"]
    for assignment in ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or []:
        if not is_suspended(job):
            count = assignment["count"]
    return bool(count == pod_count(job)) and all(
        (ours.get(field) or []) == (theirs.get(field) or []) for field in ("containers", "initContainers")
    )


def requests_of(workload: Obj) -> dict[str, Amounts]:
    """Return what each pod set of a Workload asks for in all; pods that will not be needed again count no more."""
    gone = {p["name"]: int(p["count"]) for p in (workload.get("status") or {}).get("reclaimablePods") or []}
    out: dict[str, Amounts] = {}
    for pod_set in workload["spec"]["podSets"]:
        count = max(int(pod_set["count"]) - gone.get(pod_set["name"], 0), 0)
        one = pod_requests(pod_set["template"]["spec"])
        out[pod_set["name"]] = {resource: amount * count for resource, amount in one.items()}
    return out


def usage_of(workload: Obj) -> dict[tuple[str, str], Fraction]:
    """Return what an admitted Workload holds, by flavor and resource."""
    admission = (workload.get("status") or {}).get("admission") or {}
    asked = requests_of(workload)
    stated = {p["name"]: int(p["count"]) for p in workload["spec"]["podSets"]}
    out: dict[tuple[str, str], Fraction] = {}
    for assignment in admission.get("podSetAssignments") or []:
        whole = stated[assignment["name"]] or 1
        for resource, flavor in (assignment.get("flavors") or {}).items():
            amount = asked[assignment["name"]].get(resource, Fraction(0))
            share = Fraction(int(assignment.get("count") or whole), whole)
            out[flavor, resource] = out.get((flavor, resource), Fraction(0)) + amount * share
    return out
