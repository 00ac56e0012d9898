"""What is done to a Job: making and counting its pods, ending them, writing its status."""

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.objects import Obj, is_deleting, name_of, namespace_of, uid_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.jobs import status as rules
from pytest_gpucluster.embedded.volcano.jobs.podgroup import new_podgroup, podgroup_name
from pytest_gpucluster.embedded.volcano.jobs.pods import PodCache, new_pod, task_of, wanted_pods
from pytest_gpucluster.embedded.volcano.plugins.base import Plugin
from pytest_gpucluster.embedded.volcano.plugins.registry import UnknownPluginError, plugins_of
from pytest_gpucluster.plain.copies import clone


class JobWork:
    """The steps of the Job controller."""

    def __init__(self, runtime: Runtime, recorder: Recorder, pods: PodCache) -> None:
        """Work on the runtime's store, report to a recorder, and know the pods from a cache."""
        self._store = runtime.store
        self._has = runtime.has
        self._recorder = recorder
        self._pods = pods
        self._spared: set[str] = set()

    # -- towards running ---------------------------------------------------------------------------

    def sync(self, job: Obj, rule: rules.Rule) -> None:
        """Make what is missing, count the pods, and let a rule decide the phase."""
        if not rules.phase_of(job):
            job = self._begin(job)
        try:
            plugins = plugins_of(job, self._has)
        except UnknownPluginError as error:
            text = f"Execute plugin when job add failed, err: failed to get plugin {error}"
            self._recorder.event(job, "Warning", "PluginError", text)
            return
        for plugin in plugins:
            plugin.on_job(job, self._store)
        group = self._ensure_podgroup(job)
        self._report_pending(job, group)
        status = clone(job.get("status") or {})
        if (group.get("status") or {}).get("phase") in (None, "", "Pending"):
            # Volcano makes no pods and counts none until the gang has passed enqueue.
            self._write(job, status, rule)
            return
        self._make_pods(job, plugins).write(status)
        status["minAvailable"] = rules.minimum_of(job)
        listed = sorted(job["spec"].get("plugins") or {})
        if listed:
            status["controlledResources"] = {f"plugin-{name}": name for name in listed}
        self._write(job, status, rule)

    def _begin(self, job: Obj) -> Obj:
        status: Obj = {"minAvailable": rules.minimum_of(job)}
        rules.set_phase(status, rules.PENDING, self._store.now())
        return self._store.update(names.JOB, {**job, "status": status}, subresource="status")

    def _ensure_podgroup(self, job: Obj) -> Obj:
        found = self._store.find(names.POD_GROUP, namespace_of(job), podgroup_name(job))
        wanted = new_podgroup(job, short_by=self._short_by(job, found))
        if found is None:
            return self._store.create(names.POD_GROUP, wanted)
        spec = {**found["spec"], **wanted["spec"]}
        if spec == found["spec"]:
            return found
        return self._store.update(names.POD_GROUP, {**found, "spec": spec})

    def _short_by(self, job: Obj, found: Obj | None) -> int:
        """Return how many members the planted defect leaves out of a PodGroup.

        Only of the first gang of a namespace: what two short gangs make of the same room depends on whose pods the
        scheduler sees first, and a planted defect must do the same each time.
        """
        if not self._has("gang.min-member-short"):
            return 0
        if found is not None:
            return int(rules.minimum_of(job)) - int(found["spec"]["minMember"])
        return 0 if self._store.list(names.POD_GROUP, namespace_of(job)) else 1

    def _report_pending(self, job: Obj, group: Obj) -> None:
        condition = rules.newest((group.get("status") or {}).get("conditions") or [])
        if condition is None or condition.get("type") != "Unschedulable":
            return
        text = (
            f"PodGroup {namespace_of(job)}:{name_of(job)} unschedulable, reason: {condition.get('message')}"
        )
        self._recorder.event(job, "Warning", "PodGroupPending", text)

    def _make_pods(self, job: Obj, plugins: list[Plugin]) -> rules.Count:
        """Create missing pods and delete surplus ones; return the count of all."""
        count = rules.Count()
        present = {name_of(pod): pod for pod in self._pods.of(job)}
        for name, task, index in wanted_pods(job):
            pod = present.pop(name, None)
            if pod is None:
                pod = self._create_pod(job, task, index, plugins)
            if pod is not None:
                count.add(pod)
        for surplus in present.values():
            if not is_deleting(surplus):
                self._delete_pod(surplus)
            count.bump("terminating")
        return count

    def _create_pod(self, job: Obj, task: Obj, index: int, plugins: list[Plugin]) -> Obj | None:
        try:
            made = new_pod(job, task, index, plugins)
            if self._has("plugins.no-index-label"):
                del made["metadata"]["labels"][names.TASK_INDEX]
            pod = self._store.create("Pod", made)
        except ApiError as error:
            # A pod of that name which is not ours may still be ending; its deletion is our next cue.
            if error.reason != "AlreadyExists":
                self._recorder.event(job, "Warning", "FailedCreate", f"Error creating pods: {error}")
            return None
        self._pods.note("ADDED", pod, uid_of(job))
        return pod

    # -- towards an end ----------------------------------------------------------------------------

    def end(self, job: Obj, phase: str) -> None:
        """Begin to end a Job: its live pods are deleted, ended ones stay."""
        if phase == rules.COMPLETING and self._has("lifecycle.complete-job-keeps-workers"):
            self._spared.add(uid_of(job))
            phase = rules.COMPLETED
        self.kill(job, rules.always(phase))

    def kill(
        self,
        job: Obj,
        rule: rules.Rule,
        *,
        keeps_ended: bool = True,
        counts_retry: bool = False,
    ) -> None:
        """Delete a Job's pods, PodGroup and plugin objects, and write its status.

        Only pods that are deleted here are counted, so that a finished Job loses its numbers, as in
        Volcano (issue 4616).

        Args:
            job: The Job, as stored.
            rule: What decides the phase from the new counters.
            keeps_ended: Leave pods that have ended.
            counts_retry: One more attempt was made.
        """
        count = rules.Count()
        for pod in self._pods.of(job):
            ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            if uid_of(job) in self._spared or (ended and keeps_ended and not is_deleting(pod)):
                continue
            self._delete_pod(pod)
            count.bump("terminating")
        status = clone(job.get("status") or {})
        status["version"] = int(status.get("version") or 0) + 1
        status["runningDuration"] = rules.running_duration(job, self._store.now())
        status.pop("controlledResources", None)
        self._close(job, status, count, rule, counts_retry=counts_retry)

    def kill_target(self, job: Obj, task: str, pod_name: str | None) -> None:
        """Delete the pods of a task, or one of them, and restart."""
        count = rules.Count()
        for pod in self._pods.of(job):
            if task_of(pod) == task and pod_name in (None, name_of(pod)):
                self._delete_pod(pod)
                count.bump("terminating")
            else:
                count.add(pod)
        status = clone(job.get("status") or {})
        self._close(job, status, count, rules.always(rules.RESTARTING), counts_retry=True)

    def _close(
        self, job: Obj, status: Obj, count: rules.Count, rule: rules.Rule, *, counts_retry: bool
    ) -> None:
        count.write(status)
        if counts_retry:
            status["retryCount"] = int(status.get("retryCount") or 0) + 1
        try:
            plugins = plugins_of(job, self._has)
        except UnknownPluginError:
            plugins = []
        for plugin in plugins:
            plugin.on_end(job, self._store)
        self._write(job, status, rule)
        self._store.delete(names.POD_GROUP, namespace_of(job), podgroup_name(job))

    def _delete_pod(self, pod: Obj) -> None:
        def mark(obj: Obj) -> None:
            annotations = obj["metadata"].setdefault("annotations", {})
            annotations[names.OUT_OF_SYNC_MARK] = "true"

        place = ("Pod", namespace_of(pod), name_of(pod))
        present = self._store.peek(*place)
        if present is None or uid_of(present) != uid_of(pod) or is_deleting(present):
            return
        self._store.mutate(*place, mark)
        self._store.delete(*place, uid=uid_of(pod))

    def _write(self, job: Obj, status: Obj, rule: rules.Rule) -> None:
        """Write a status where anything but its times has changed."""
        before = job.get("status") or {}
        now = rules.phase_of(job)
        phase = rule(job, status) or now
        if phase != now or _numbers(status) != _numbers(before):
            rules.set_phase(status, phase, self._store.now())
        elif status == before:
            return
        self._store.mutate(
            names.JOB,
            namespace_of(job),
            name_of(job),
            lambda obj: obj.__setitem__("status", status),
            subresource="status",
        )


def _numbers(status: Obj) -> Obj:
    return {k: v for k, v in status.items() if k in rules.COUNTERS or k == "taskStatusCount"}
