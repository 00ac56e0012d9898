"""The pods of a Job, as Volcano makes them."""

from collections.abc import Iterable, Iterator

from pytest_gpucluster.embedded.objects import (
    Obj,
    annotations_of,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.jobs.podgroup import podgroup_name
from pytest_gpucluster.embedded.volcano.plugins.base import Plugin
from pytest_gpucluster.plain.copies import clone


def pod_name(job: Obj, task: Obj, index: int) -> str:
    """Return the name of a pod: `<job>-<task>-<index>`."""
    return f"{name_of(job)}-{task.get('name', '')}-{index}"


def wanted_pods(job: Obj) -> Iterator[tuple[str, Obj, int]]:
    """Yield name, task and index of every pod that a Job asks for."""
    for task in job["spec"].get("tasks") or []:
        for index in range(int(task.get("replicas") or 0)):
            yield pod_name(job, task, index), task, index


class PodCache:
    """The pods of all Jobs as the controller has been told of them.

    The controller decides on this and not on the store: a pod that is gone already still counts until the
    news of it is handled, or its replacement would come before the policy for its end.
    """

    def __init__(self) -> None:
        """Know no pod yet."""
        self._by_job: dict[str, dict[str, Obj]] = {}

    def note(self, kind: str, pod: Obj, job_uid: str) -> None:
        """Take in a change of a Job's pod."""
        known = self._by_job.setdefault(job_uid, {})
        if kind != "DELETED":
            known[name_of(pod)] = pod
        elif uid_of(known.get(name_of(pod), {})) == uid_of(pod):
            del known[name_of(pod)]
        if not known:
            del self._by_job[job_uid]

    def of(self, job: Obj) -> list[Obj]:
        """Return the pods of a Job by name; they must not be changed."""
        known = self._by_job.get(uid_of(job), {})
        return [known[name] for name in sorted(known)]


def task_of(pod: Obj) -> str:
    """Return the name of the task that a pod belongs to."""
    return annotations_of(pod).get(names.TASK_SPEC, "")


def new_pod(job: Obj, task: Obj, index: int, plugins: Iterable[Plugin]) -> Obj:
    """Return a pod of a Job, ready to be created.

    Args:
        job: The Job, as stored.
        task: The task.
        index: Index of the pod within its task.
        plugins: The Job's plugins, in the order in which they run.
    """
    template = clone(task.get("template") or {})
    meta = template.get("metadata") or {}
    status = job.get("status") or {}
    task_name, queue = str(task.get("name", "")), str(job["spec"].get("queue", ""))
    marks = {
        names.TASK_INDEX: str(index),
        names.TASK_SPEC: task_name,
        names.JOB_NAME: name_of(job),
        names.QUEUE_NAME: queue,
    }
    annotations = {
        **marks,
        names.GROUP_NAME: podgroup_name(job),
        names.JOB_VERSION: str(status.get("version") or 0),
        names.JOB_RETRY: str(status.get("retryCount") or 0),
        names.TEMPLATE_UID: f"{name_of(job)}-{task_name}",
    }
    pod: Obj = {
        "metadata": {
            "name": pod_name(job, task, index),
            "namespace": namespace_of(job),
            "labels": {
                **(meta.get("labels") or {}), **marks, names.JOB_NAMESPACE: namespace_of(job)
            },
            "annotations": {**(meta.get("annotations") or {}), **annotations},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": template.get("spec") or {},
    }  # fmt: skip
    for field in ("schedulerName", "priorityClassName"):
        if not pod["spec"].get(field) and job["spec"].get(field):
            pod["spec"][field] = job["spec"][field]
    for plugin in plugins:
        plugin.on_pod(pod, job, task, index)
    return pod
