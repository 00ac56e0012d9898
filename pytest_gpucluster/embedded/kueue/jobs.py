"""The reconciler of batch Jobs: one Workload for each, and the Job started and stopped as its Workload says."""

import asyncio
from collections.abc import Callable

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.feed import DELETED
from pytest_gpucluster.embedded.kueue import conditions, names
from pytest_gpucluster.embedded.kueue import workloads as of
from pytest_gpucluster.embedded.kueue.podsets import merge, restore, running_info
from pytest_gpucluster.embedded.kueue.settings import Settings, takes_every_job
from pytest_gpucluster.embedded.objects import (
    Key,
    Obj,
    controller_of,
    get_condition,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.worklist import Worklist

NOTICE_SECONDS = 0.08
"""How long after its creation or change a Job that runs without a matching Workload is stopped; 0.07 to 0.14 s in the
recordings, in which the Job controller has begun to make its pods."""
LATE_SECONDS = 0.6
"""The same under the defect `kueue.starts-before-admission`: pods run by then."""

NOT_READY = "Not all pods are ready or succeeded"
RECOVERING = "At least one pod has failed, waiting for recovery"
READY = "All pods reached readiness and the workload is running"


class JobReconciler:
    """Looks at one Job at a time, whenever it or its Workload has changed."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        """Work on a runtime's store."""
        self._store = runtime.store
        self._settings = settings
        self._has = runtime.has
        self._events = Recorder(runtime.store, names.JOB_REPORTER, legacy=True)
        self._noticed: dict[str, float] = {}
        self._work = Worklist(self._store, [names.JOB, names.WORKLOAD], self._note, self._reconcile)

    async def run(self) -> None:
        """Follow Jobs and Workloads until cancelled."""
        await self._work.run()

    def _note(self, kind: str, key: str, obj: Obj) -> None:
        if key == names.JOB:
            self._work.add((namespace_of(obj), name_of(obj)))
            if kind == DELETED:
                self._noticed.pop(uid_of(obj), None)
            return
        owner = controller_of(obj)
        if owner is not None and owner["kind"] == "Job" and owner["apiVersion"] == "batch/v1":
            self._work.add((namespace_of(obj), owner["name"]))

    # -- one look at one Job -------------------------------------------------------------------------

    def _owned(self, key: Key) -> list[Obj]:
        def mine(workload: Obj) -> bool:
            owner = controller_of(workload) or {}
            return owner.get("kind") == "Job" and owner.get("name") == key[1]

        return self._store.list(names.WORKLOAD, key[0], mine)

    def _reconcile(self, key: Key) -> None:
        job = self._store.find(names.JOB, *key)
        if job is None or is_deleting(job):
            for each in self._owned(key):
                self._let_go(each)
            return
        if not self._is_managed(job):
            return
        workload = self._one_workload(job)
        if workload is _WAIT:
            return
        if workload is not None and conditions.is_true(workload, names.FINISHED):
            self._declare_finished(job, workload)
            self._let_go(workload)
            return
        if workload is not None and is_deleting(workload):
            self._stop(job, workload, "Workload is deleted")
            self._let_go(workload)
            return
        end = of.end_of(job)
        if end is not None:
            if workload is not None:
                self._write(
                    workload, lambda w: conditions.put(w, names.FINISHED, end, self._now(), status=True)
                )
                self._declare_finished(job, workload)
            return
        if workload is None:
            self._create(job)
            return
        if not self._follow_pods(job, workload):
            self._steer(job, workload)

    def _is_managed(self, job: Obj) -> bool:
        queue, place = of.queue_of(job), namespace_of(job)
        if not queue:
            return takes_every_job(self._settings, self._has) and place not in names.UNMANAGED
        unknown = self._store.peek(names.LOCAL_QUEUE, place, queue) is None
        return not (unknown and self._has("kueue.unknown-queue-runs"))

    def _one_workload(self, job: Obj) -> Obj | None:
        """Return the Workload of a Job as it is now; one that no longer fits is removed, and its Job stopped.

        Returns:
            `_WAIT` where this look has done what there is to do.
        """
        key = (namespace_of(job), name_of(job))
        owned = self._owned(key)
        match = next((w for w in owned if of.fits_job(w, job)), None)
        surplus = [w for w in owned if w is not match]
        if match is None and not of.is_suspended(job) and of.end_of(job) is None:
            if not self._may_stop(job, key):
                return _WAIT
            old = surplus[0] if len(surplus) == 1 else None
            text = (
                "Missing Workload; unable to restore pod templates"
                if old is None
                else "No matching Workload; restoring pod templates according to existent Workload"
            )
            job = self._stop(job, old, text) or job
        if match is None and surplus and of.is_suspended(job) and not _reserved(surplus[0]):
            self._renew(job, surplus[0])
            return _WAIT
        for each in surplus:
            self._let_go(each)
            self._store.delete(names.WORKLOAD, key[0], name_of(each))
            text = f"Deleted not matching Workload: {_place(each)}"
            self._events.event(job, "Normal", "DeletedWorkload", text)
        return _WAIT if surplus else match

    def _may_stop(self, job: Obj, key: Key) -> bool:
        """Report whether enough time has passed since a Job was first seen to run without a Workload."""
        clock = asyncio.get_running_loop().time()
        first = self._noticed.setdefault(uid_of(job), clock)
        late = self._has("kueue.starts-before-admission")
        left = first + (LATE_SECONDS if late else NOTICE_SECONDS) - clock
        if left > 1e-6:
            self._work.later(key, left)
            return False
        del self._noticed[uid_of(job)]
        return True

    def _renew(self, job: Obj, workload: Obj) -> None:
        spec = of.new_workload(job, self._priority(job))["spec"]
        self._store.mutate(
            names.WORKLOAD, namespace_of(workload), name_of(workload), lambda w: w.update(spec=spec)
        )
        text = f"Updated not matching Workload for suspended job: {_place(workload)}"
        self._events.event(job, "Normal", "UpdatedWorkload", text)

    def _create(self, job: Obj) -> None:
        if of.is_active(job):
            return  # its pods are still going
        try:
            workload = self._store.create(names.WORKLOAD, of.new_workload(job, self._priority(job)))
        except ApiError as error:
            if error.code not in (403, 404, 409):  # its namespace goes, or an older one is still there
                raise
            return
        self._events.event(job, "Normal", "CreatedWorkload", f"Created Workload: {_place(workload)}")

    def _priority(self, job: Obj) -> Obj:
        """Return the fields that say a Workload's priority: of Kueue's class, else of the pods' class."""
        named = labels_of(job).get(names.PRIORITY_LABEL)
        pods = job["spec"]["template"]["spec"].get("priorityClassName")
        wanted = (
            (names.GROUP, names.PRIORITY_CLASS, named)
            if named
            else ("scheduling.k8s.io", "PriorityClass", pods)
        )
        found = self._store.peek(wanted[1], None, wanted[2]) if wanted[2] else None
        if found is None:
            return {"priority": 0}
        reference = {"group": wanted[0], "kind": wanted[1], "name": wanted[2]}
        return {"priority": int(found.get("value") or 0), "priorityClassRef": reference}

    def _follow_pods(self, job: Obj, workload: Obj) -> bool:
        """Write what a Job's pods say to its Workload; True where that was the step of this look."""
        gone = of.reclaimable(job)
        if gone and gone != (workload.get("status") or {}).get("reclaimablePods"):
            self._write(workload, lambda w: w.setdefault("status", {}).update(reclaimablePods=gone))
            return True
        if self._settings.wait is None:
            return False
        status, why = self._readiness(job, workload)
        before = get_condition(workload, names.PODS_READY)
        if before is not None and (before["status"] == "True", before["reason"]) == (status, why[0]):
            return False
        self._write(workload, lambda w: conditions.put(w, names.PODS_READY, why, self._now(), status=status))
        return True

    def _readiness(self, job: Obj, workload: Obj) -> tuple[bool, tuple[str, str]]:
        before = get_condition(workload, names.PODS_READY) or {}
        if not conditions.is_true(workload, names.ADMITTED):
            return False, (names.WAIT_FOR_START, NOT_READY)
        recovering = before.get("reason") in (names.WAIT_FOR_RECOVERY, "Recovered")
        if of.pods_ready(job):
            return True, ("Recovered" if recovering else "Started", READY)
        if before.get("status") == "True" or before.get("reason") == names.WAIT_FOR_RECOVERY:
            return False, (names.WAIT_FOR_RECOVERY, RECOVERING)
        return False, (names.WAIT_FOR_START, NOT_READY)

    def _steer(self, job: Obj, workload: Obj) -> None:
        """Stop an evicted Job, start an admitted one, stop one that is not admitted."""
        evicted = get_condition(workload, names.EVICTED)
        if evicted is not None and evicted["status"] == "True":
            job = self._stop(job, workload, evicted["message"]) or job
            if _reserved(workload) and not of.is_active(job) and not self._has("kueue.keeps-evicted-quota"):
                self._release(workload, evicted)
        elif of.is_suspended(job):
            if conditions.is_true(workload, names.ADMITTED):
                self._start(job, workload)
            elif workload["spec"].get("queueName") != of.queue_of(job):
                queue = of.queue_of(job)
                place = (namespace_of(workload), name_of(workload))
                self._store.mutate(names.WORKLOAD, *place, lambda w: w["spec"].update(queueName=queue))
        elif not conditions.is_true(workload, names.ADMITTED):
            self._stop(job, workload, "Not admitted by cluster queue")

    def _release(self, workload: Obj, evicted: Obj) -> None:
        """Take the quota of an evicted Workload away; its Job has stopped."""
        reason, message = evicted["reason"], evicted["message"]
        again = reason == names.PREEMPTED

        def change(obj: Obj) -> None:
            now = self._now()
            conditions.requeue(obj, (reason, message), now, status=again)
            conditions.release(obj, (names.PENDING, message), now)

        self._write(workload, change)

    # -- starting and stopping -----------------------------------------------------------------------

    def _start(self, job: Obj, workload: Obj) -> None:
        info = running_info(self._store, workload)

        def change(obj: Obj) -> None:
            obj["spec"]["suspend"] = False
            if self._has("kueue.half-admits"):
                obj["spec"]["parallelism"] = info.count
            merge(obj["spec"]["template"], info)

        self._store.mutate(names.JOB, namespace_of(job), name_of(job), change)
        queue = workload["status"]["admission"]["clusterQueue"]
        self._events.event(job, "Normal", "Started", f"Admitted by clusterQueue {queue}")

    def _stop(self, job: Obj, workload: Obj | None, text: str) -> Obj | None:
        """Suspend a Job, clear its start, give its template back; return it as it is then."""
        place = (namespace_of(job), name_of(job))
        stopped = not of.is_suspended(job)
        if stopped:

            def suspend(obj: Obj) -> None:
                obj["spec"]["suspend"] = True
                obj["metadata"].setdefault("annotations", {})[names.STOPPING_ANNOTATION] = "true"

            self._store.mutate(names.JOB, *place, suspend)
        if (job.get("status") or {}).get("startTime"):
            self._store.mutate(
                names.JOB, *place, lambda obj: obj["status"].pop("startTime", None), subresource="status"
            )

        def give_back(obj: Obj) -> None:
            if workload is not None:
                restore(obj["spec"]["template"], workload)
            annotations = obj["metadata"].get("annotations") or {}
            annotations.pop(names.STOPPING_ANNOTATION, None)
            if not annotations:
                obj["metadata"].pop("annotations", None)

        out = self._store.mutate(names.JOB, *place, give_back)
        if stopped:
            self._events.event(job, "Normal", "Stopped", text)
        return out

    # -- small things --------------------------------------------------------------------------------

    def _declare_finished(self, job: Obj, workload: Obj) -> None:
        text = f"Workload '{_place(workload)}' is declared finished"
        self._events.event(job, "Normal", "FinishedWorkload", text)

    def _let_go(self, workload: Obj) -> None:
        """Remove Kueue's finalizer from a Workload."""
        if names.IN_USE not in (workload["metadata"].get("finalizers") or []):
            return

        def change(obj: Obj) -> None:
            kept = [f for f in obj["metadata"].get("finalizers") or [] if f != names.IN_USE]
            obj["metadata"]["finalizers"] = kept
            if not kept:
                del obj["metadata"]["finalizers"]

        self._store.mutate(names.WORKLOAD, namespace_of(workload), name_of(workload), change)

    def _write(self, workload: Obj, change: Callable[[Obj], object]) -> None:
        conditions.write(self._store, workload, change)

    def _now(self) -> str:
        return self._store.now()


_WAIT: Obj = {}
"""Stands for "nothing more in this look"; compared by identity."""


def _reserved(workload: Obj) -> bool:
    return conditions.is_true(workload, names.QUOTA_RESERVED)


def _place(workload: Obj) -> str:
    return f"{namespace_of(workload)}/{name_of(workload)}"
