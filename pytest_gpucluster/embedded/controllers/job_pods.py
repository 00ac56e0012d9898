"""Pods of a batch Job: how they are made, and what their states add up to. Pure functions."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_gpucluster.embedded.kinds.pods import containers_of, pod_from_template
from pytest_gpucluster.embedded.objects import (
    Obj,
    annotations_of,
    get_condition,
    is_deleting,
    name_of,
    namespace_of,
    owner_reference,
)

INDEX = "batch.kubernetes.io/job-completion-index"
TRACKING = "batch.kubernetes.io/job-tracking"
"""Finalizer that keeps an ended pod until the Job has counted it."""


def is_indexed(job: Obj) -> bool:
    """Report whether the pods of a Job have indexes."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Obj) -> int | None:
    """Return the completion index of a pod."""
    text = annotations_of(pod).get(INDEX)
    return int(text) if text is not None and text.isdigit() else None


def make_pod(job: Obj, index: int | None) -> Obj:
    """Return a new pod of a Job; `index` is its completion index in an Indexed one."""
    pod = pod_from_template(job["spec"]["template"])
    meta, spec = pod["metadata"], pod["spec"]
    name = name_of(job)
    meta["namespace"] = namespace_of(job)
    meta["ownerReferences"] = [owner_reference(job)]
    meta.setdefault("finalizers", []).append(TRACKING)
    meta["generateName"] = f"{name}-"
    if index is None:
        return pod
    meta["generateName"] = f"{name}-{index}-"
    meta.setdefault("annotations", {})[INDEX] = str(index)
    meta.setdefault("labels", {})[INDEX] = str(index)
    spec.setdefault("hostname", f"{name}-{index}")
    path = f"metadata.labels['{INDEX}']"
    for container in containers_of(spec):
        env = container.get("env") or []
        if not any(e.get("name") == "JOB_COMPLETION_INDEX" for e in env):
            reference = {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
            container["env"] = [*env, {"name": "JOB_COMPLETION_INDEX", "valueFrom": reference}]
    return pod


def phase_of(pod: Obj) -> str:
    """Return the phase of a pod."""
    return str(pod.get("status", {}).get("phase") or "Pending")


def is_tracked(pod: Obj) -> bool:
    """Report whether a pod has yet to be counted."""
    return TRACKING in (pod["metadata"].get("finalizers") or [])


@dataclass
class Tally:
    """What the pods of a Job add up to.

    Attributes:
        active: Neither ended nor being deleted.
        terminating: Being deleted and not ended.
        ready: Active with a true Ready condition.
        succeeded: Ended well and not yet counted.
        failed: Failed, or deleted before they ended, and not yet counted.
    """

    active: list[Obj] = field(default_factory=list)
    terminating: list[Obj] = field(default_factory=list)
    ready: int = 0
    succeeded: list[Obj] = field(default_factory=list)
    failed: list[Obj] = field(default_factory=list)


def tally(job: Obj, pods: Iterable[Obj]) -> Tally:
    """Sort the pods of a Job into a tally."""
    only_failed = job["spec"].get("podReplacementPolicy") == "Failed"
    out = Tally()
    for pod in pods:
        phase, deleting = phase_of(pod), is_deleting(pod)
        ended = phase in ("Succeeded", "Failed")
        if not ended and deleting:
            out.terminating.append(pod)
        elif not ended:
            out.active.append(pod)
            out.ready += int((get_condition(pod, "Ready") or {}).get("status") == "True")
        if not is_tracked(pod):
            continue
        if phase == "Succeeded":
            out.succeeded.append(pod)
        elif phase == "Failed" or (deleting and (not only_failed or phase == "Pending")):
            out.failed.append(pod)
    return out


def succeeds_early(job: Obj, status: Obj) -> bool:
    """Report whether the first rule of a Job's successPolicy is met by the indexes that have succeeded."""
    rules = (job["spec"].get("successPolicy") or {}).get("rules") or []
    if not rules or not is_indexed(job):
        return False
    done = parse_indexes(status.get("completedIndexes") or "")
    named = rules[0].get("succeededIndexes")
    counted = done & parse_indexes(named) if named else done
    wanted = rules[0].get("succeededCount") or len(parse_indexes(named or ""))
    return bool(wanted) and len(counted) >= int(wanted)


def restarts_of(pods: Iterable[Obj]) -> int:
    """Return how often containers were restarted in place."""
    return sum(
        int(status.get("restartCount") or 0)
        for pod in pods
        for kind in ("initContainerStatuses", "containerStatuses")
        for status in pod.get("status", {}).get(kind) or []
    )


def parse_indexes(text: str) -> set[int]:
    """Return the numbers of a text such as `0-2,5`."""
    out: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        out.update(range(int(first), int(last or first) + 1))
    return out


def format_indexes(indexes: Iterable[int]) -> str:
    """Return numbers as a text such as `0-2,5`; two neighbours are written `0,1`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(str(i) for i in run) for run in runs]
    return ",".join(parts)
