"""What others do in the same namespace meanwhile, or did before: nothing of it is ours."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from pytest_gpucluster.evidence import Evidence, Line
from tests.judge.variations.base import Variation, copied, first, more, watch_line

NAMESPACE = "team-a"


def _namespace(evidence: Evidence) -> str:
    return str(evidence.given.get("namespace") or NAMESPACE)


def _meta(evidence: Evidence, name: str, **told: Any) -> dict[str, Any]:
    stamp = "2026-11-28T11:00:00Z"
    return {"name": name, "namespace": _namespace(evidence), "uid": f"of-others-{name}", "creationTimestamp": stamp,
            **told}  # fmt: skip


def _owner(kind: str, version: str, name: str) -> list[dict[str, Any]]:
    owner = {
        "kind": kind,
        "apiVersion": version,
        "name": name,
        "uid": f"of-others-{name}",
        "controller": True,
    }
    return [owner]


def _job(evidence: Evidence, name: str, phase: str, pods: tuple[str, ...], members: int) -> Iterator[Line]:
    """Yield a Volcano Job of somebody else as it is when the watch begins: Job, PodGroup, the pods that are left."""
    t = first(evidence)
    api, group_api = "batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1"
    template = {
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {}}], "schedulerName": "volcano"}
    }
    task = {"name": "worker", "replicas": members, "template": template}
    job = {"apiVersion": api, "kind": "Job", "metadata": _meta(evidence, name),
           "spec": {"minAvailable": members, "schedulerName": "volcano", "queue": "default", "tasks": [task]},
           "status": {"state": {"phase": phase}, "succeeded": pods.count("Succeeded")}}  # fmt: skip
    yield watch_line(t, "Job.batch.volcano.sh", job)
    group = f"{name}-of-others"
    told = _meta(evidence, group, ownerReferences=_owner("Job", api, name))
    yield watch_line(t, "PodGroup", {
        "apiVersion": group_api, "kind": "PodGroup", "metadata": told,
        "spec": {"minMember": members, "queue": "default", "minResources": {"cpu": "1"}},
        "status": {"phase": "Completed" if phase == "Completed" else "Inqueue"},
    })  # fmt: skip
    for index, state in enumerate(pods):
        yield watch_line(t, "Pod", _pod(evidence, f"{name}-worker-{index}", state, name, group))


def _pod(evidence: Evidence, name: str, phase: str, job: str, group: str = "") -> dict[str, Any]:
    index = name.rpartition("-")[2]
    told = {"volcano.sh/job-name": job, "volcano.sh/task-spec": "worker", "volcano.sh/task-index": index}
    owner = _owner("Job", "batch.volcano.sh/v1alpha1" if group else "batch/v1", job)
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": _meta(evidence, name, labels=told, annotations={"scheduling.k8s.io/group-name": group, **told},
                          ownerReferences=owner),
        "spec": {"schedulerName": "volcano",
                 "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": phase},
    }  # fmt: skip
    if phase == "Pending":
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
        pod["status"]["conditions"] = [waits]
    else:
        ended = {"terminated": {"exitCode": int(phase == "Failed"), "reason": "Completed"}}
        state = {"running": {}} if phase == "Running" else ended
        pod["spec"]["nodeName"] = "cpu-9"
        pod["status"]["containerStatuses"] = [{"name": "main", "state": state, "restartCount": 0}]
    return pod


def _completed(evidence: Evidence) -> Evidence:
    """A Job of an hour ago is Completed, and three of its four pods were cleared away."""
    return more(evidence, _job(evidence, "yesterday", "Completed", ("Succeeded",), 4))


def _failed(evidence: Evidence) -> Evidence:
    """A Job of somebody else Failed, with two of its pods left."""
    return more(evidence, _job(evidence, "broken", "Failed", ("Failed", "Succeeded"), 4))


def _waiting(evidence: Evidence) -> Evidence:
    """A gang of somebody else waits for room all the while."""
    return more(evidence, _job(evidence, "patient", "Pending", ("Pending",) * 4, 4))


def _strangers(evidence: Evidence) -> Evidence:
    """Pods that belong to nothing: one that crashes over and over, one without an image, an agent on every node."""
    t = first(evidence)
    lines = []
    crash = {
        "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
    }
    image = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    for name, phase, state, restarts in (
        ("crashes", "Running", crash, 412),
        ("imageless", "Pending", image, 0),
    ):
        pod = _pod(evidence, name, phase, "")
        del pod["metadata"]["ownerReferences"], pod["metadata"]["labels"], pod["metadata"]["annotations"]
        pod["spec"].update(schedulerName="default-scheduler", nodeName="gpu-0")
        pod["status"]["containerStatuses"] = [{"name": "main", "state": state, "restartCount": restarts}]
        lines.append(watch_line(t, "Pod", pod))
    for name, text in (
        ("crashes", "Back-off restarting failed container"),
        ("imageless", 'Failed to pull image "x"'),
    ):
        about = {"kind": "Pod", "name": name, "namespace": _namespace(evidence), "uid": f"of-others-{name}"}
        lines.append(watch_line(t, "Event", {
            "kind": "Event", "apiVersion": "v1", "metadata": _meta(evidence, f"{name}.18"), "involvedObject": about,
            "type": "Warning", "reason": "BackOff", "message": text, "count": 100,
        }))  # fmt: skip
    return more(evidence, lines)


def _services(evidence: Evidence) -> Evidence:
    """There are Services, ConfigMaps and Jobs of others, of which nothing is known but that they are there."""
    t = first(evidence)
    things = {
        "Service": "v1",
        "ConfigMap": "v1",
        "Job.batch": "batch/v1",
        "Queue": "scheduling.volcano.sh/v1beta1",
    }
    lines = [
        watch_line(t, kind, {"apiVersion": api, "kind": kind.partition(".")[0], "spec": {}, "status": {},
                             "metadata": _meta(evidence, f"other-{kind.lower()}")})
        for kind, api in things.items()
    ]  # fmt: skip
    return more(evidence, lines)


def _half_placed(evidence: Evidence) -> Evidence:
    """One member of a gang of somebody else has run alone all the while: a violation, and not in what is ours."""
    return more(evidence, _job(evidence, "alone", "Running", ("Running", "Pending", "Pending", "Pending"), 4))


def _batch(evidence: Evidence) -> Evidence:
    """Jobs of others: one that is done, one that its queue holds back, one that failed; each with what is left."""
    t = first(evidence)
    lines = []
    for name, status, suspend in (
        ("done", {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}, False),
        ("held", {"conditions": [{"type": "Suspended", "status": "True"}]}, True),
        ("given-up", {"failed": 7, "conditions": [{"type": "Failed", "status": "True"}]}, False),
    ):
        told = _meta(evidence, name, labels={"kueue.x-k8s.io/queue-name": "of-others"})
        template = {"spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}}
        spec = {"parallelism": 2, "completions": 2, "suspend": suspend, "template": template}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": told, "spec": spec, "status": status}
        lines.append(watch_line(t, "Job.batch", job))
        if name == "done":
            pod = _pod(evidence, f"{name}-0", "Succeeded", name)
            pod["metadata"]["annotations"] = {}
            lines.append(watch_line(t, "Pod", pod))
    return more(evidence, lines)


def _come_and_go(evidence: Evidence) -> Evidence:
    """A Job of somebody else is submitted in the midst, one of its pods is killed, and all of it is deleted."""
    begin, end = first(evidence), evidence.end
    lines = list(_job(evidence, "short", "Running", ("Running",) * 2, 2))
    made = [dataclasses.replace(line, t=begin + (end - begin) * 0.4) for line in lines]
    gone = [dataclasses.replace(line, t=begin + (end - begin) * 0.6, type="DELETED") for line in lines]
    killed = copied(lines[-1].object)
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    killed["status"] = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]}
    between = watch_line(begin + (end - begin) * 0.5, "Pod", killed, "MODIFIED")
    return more(evidence, [*made, between, *gone])


VARIATIONS: dict[str, Variation] = {
    "completed-before": _completed,
    "failed": _failed,
    "waiting": _waiting,
    "half-placed": _half_placed,
    "batch": _batch,
    "come-and-go": _come_and_go,
    "strangers": _strangers,
    "services": _services,
}
"""Name -> variation."""
