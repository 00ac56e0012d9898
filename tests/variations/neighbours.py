"""What others do in the same namespace meanwhile, or did before: nothing of it is ours."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster.evidence import Evidence, Line
from pytest_gpucluster.evidence.objects import owners
from tests.variations.base import Variation, copied, first, more, watch_line

NAMESPACE = "team-a"


def _namespace(evidence: Evidence) -> str:
    return str(evidence.given.get("namespace") or NAMESPACE)


def _meta(evidence: Evidence, name: str, **told: Any) -> dict[str, Any]:
    stamp = "2026-11-28T11:00:00Z"
    return {"name": name, "namespace": _namespace(evidence), "uid": f"of-others-{name}", "creationTimestamp": stamp,
            **told}  # fmt: skip


def _owner(kind: str, version: str, name: str) -> list[dict[str, Any]]:
    owner = {"kind": kind, "apiVersion": version, "name": name, "uid": f"of-others-{name}", "controller": True}
    return [owner]


def _job(evidence: Evidence, name: str, phase: str, pods: tuple[str, ...], members: int) -> Iterator[Line]:
    """Yield a Volcano Job of somebody else as it is when the watch begins: Job, PodGroup, the pods that are left."""
    t = first(evidence)
    api, group_api = "batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1"
    template = {"spec": {"containers": [{"name": "main", "image": "x", "resources": {}}], "schedulerName": "volcano"}}
    task = {"name": "worker", "replicas": members, "template": template}
    job = {"apiVersion": api, "kind": "Job", "metadata": _meta(evidence, name),
           "spec": {"minAvailable": members, "schedulerName": "volcano", "queue": "default", "tasks": [task]},
           "status": {"state": {"phase": phase}, "minAvailable": members, "succeeded": pods.count("Succeeded")}}  # fmt: skip
    yield watch_line(t, "Job.batch.volcano.sh", job)
    group = f"{name}-of-others"
    told = _meta(evidence, group, ownerReferences=_owner("Job", api, name))
    yield watch_line(t, "PodGroup", {
        "apiVersion": group_api, "kind": "PodGroup", "metadata": told,
        "spec": {"minMember": members, "queue": "default", "minResources": {"cpu": "1"}},
        "status": {"phase": "Completed" if phase == "Completed" else "Inqueue"},
    })  # fmt: skip
    for index, state in enumerate(pods):
        yield watch_line(t, "Pod", _pod(evidence, f"{name}-worker-{index}", state, name, group, api))


def _pod(evidence: Evidence, name: str, phase: str, job: str, group: str, api: str) -> dict[str, Any]:
    labels = {"volcano.sh/job-name": job, "volcano.sh/task-spec": "worker", "volcano.sh/queue-name": "default"}
    annotations = {"scheduling.k8s.io/group-name": group, "volcano.sh/job-name": job}
    ended = {"terminated": {"exitCode": int(phase == "Failed"), "reason": "Completed"}}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": _meta(evidence, name, labels=labels, annotations=annotations, ownerReferences=_owner("Job", api, job)),
        "spec": {"schedulerName": "volcano", "nodeName": "cpu-9" if phase != "Pending" else None,
                 "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": ended, "restartCount": 0}]},
    }  # fmt: skip


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
    crash = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
    image = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    for name, phase, state, restarts in (("crashes", "Running", crash, 412), ("imageless", "Pending", image, 0)):
        pod = _pod(evidence, name, phase, "", "", "v1")
        del pod["metadata"]["ownerReferences"], pod["metadata"]["labels"], pod["metadata"]["annotations"]
        pod["spec"].update(schedulerName="default-scheduler", nodeName="gpu-0")
        pod["status"]["containerStatuses"] = [{"name": "main", "state": state, "restartCount": restarts}]
        lines.append(watch_line(t, "Pod", pod))
    for name, text in (("crashes", "Back-off restarting failed container"), ("imageless", 'Failed to pull image "x"')):
        about = {"kind": "Pod", "name": name, "namespace": _namespace(evidence), "uid": f"of-others-{name}"}
        lines.append(watch_line(t, "Event", {
            "kind": "Event", "apiVersion": "v1", "metadata": _meta(evidence, f"{name}.18"), "involvedObject": about,
            "type": "Warning", "reason": "BackOff", "message": text, "count": 100,
        }))  # fmt: skip
    return more(evidence, lines)


def _services(evidence: Evidence) -> Evidence:
    """There are Services, ConfigMaps and Jobs of others, of which nothing is known but that they are there."""
    t = first(evidence)
    things = {"Service": "v1", "ConfigMap": "v1", "Job.batch": "batch/v1", "Queue": "scheduling.volcano.sh/v1beta1"}
    lines = [
        watch_line(t, kind, {"apiVersion": api, "kind": kind.partition(".")[0], "metadata": _meta(evidence, f"other-{kind.lower()}"),
                             "spec": {}, "status": {}})
        for kind, api in things.items()
    ]  # fmt: skip
    return more(evidence, lines)


VARIATIONS: dict[str, Variation] = {
    "completed-before": _completed,
    "failed": _failed,
    "waiting": _waiting,
    "strangers": _strangers,
    "services": _services,
}
"""Name -> variation."""
