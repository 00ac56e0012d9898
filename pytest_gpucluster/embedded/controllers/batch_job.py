"""The controller of batch Jobs: Indexed and not, suspended, failing, completing."""

import asyncio
from collections.abc import Callable, Iterable

from pytest_gpucluster.embedded.controllers.job_pods import TRACKING as _TRACKING
from pytest_gpucluster.embedded.controllers.job_pods import (
    Tally,
    format_indexes,
    index_of,
    is_indexed,
    is_tracked,
    make_pod,
    parse_indexes,
    phase_of,
    restarts_of,
    succeeds_early,
    tally,
)
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.events import SPAM_BURST, Recorder
from pytest_gpucluster.embedded.feed import DELETED
from pytest_gpucluster.embedded.kinds.jobs import BACKOFF_LIMIT
from pytest_gpucluster.embedded.native.job_groups import JobGroups
from pytest_gpucluster.embedded.objects import (
    Key,
    Obj,
    controller_of,
    get_condition,
    is_deleting,
    name_of,
    namespace_of,
    set_condition,
    uid_of,
)
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.worklist import Worklist
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.plain.times import parse_time

NAME = "job-controller"
BACKOFF_SECONDS = 1.0
"""First delay before a failed pod is replaced; doubled with each failure. Kubernetes begins with 10 s."""
LONGEST_BACKOFF = 360.0
BATCH_SECONDS = 0.05
"""How long changes of pods are gathered before their Job is looked at; 1 s in Kubernetes."""

_REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")
_SUCCESS = ("SuccessPolicy", "Matched rules at index 0")
_BACKOFF = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")


REPLACES_NOBODY = "lifecycle.job-replaces-nobody"
IGNORES_LIMIT = "lifecycle.job-ignores-backoff-limit"


class JobController:
    """Brings Jobs towards what they ask for, one step per Job in turn.

    Pods are made in batches that double, as kube-controller-manager makes them, and other Jobs have their
    turn between two batches: so two Jobs created together mix in the scheduler's queue.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Control the Jobs of a runtime's store."""
        self._store = runtime.store
        self._events = Recorder(runtime.store, NAME, legacy=True, burst=SPAM_BURST)
        self._groups = JobGroups(runtime, self._events)
        self._has = runtime.has
        self._backoff = float(runtime.config.get("job_backoff_seconds") or BACKOFF_SECONDS)
        self._batch: dict[str, int] = {}
        self._complete: set[str] = set()
        self._failed_at: dict[str, tuple[int, float]] = {}
        self._work = Worklist(self._store, ["Job.batch", "Pod"], self._note, self._sync)

    async def run(self) -> None:
        """Follow Jobs and pods until cancelled."""
        await self._work.run()

    def _note(self, kind: str, key: str, obj: Obj) -> None:
        if key == "Job.batch":
            self._work.add((namespace_of(obj), name_of(obj)))
            return
        owner = controller_of(obj)
        if owner is None or owner["kind"] != "Job" or not owner["apiVersion"].startswith("batch/"):
            return
        self._work.later((namespace_of(obj), owner["name"]), BATCH_SECONDS)
        if kind != DELETED and is_tracked(obj):
            job = self._store.peek("Job.batch", namespace_of(obj), owner["name"])
            if job is None or uid_of(job) != owner["uid"]:
                self._untrack([obj])  # nobody will count it any more

    # -- one step of one Job -------------------------------------------------------------------------

    def _sync(self, key: Key) -> None:
        job = self._store.find("Job.batch", *key)
        if job is None:
            return
        if job["spec"].get("managedBy") not in (None, "kubernetes.io/job-controller"):
            return
        uid = uid_of(job)
        pods = self._store.peek_all("Pod", key[0], lambda p: (controller_of(p) or {}).get("uid") == uid)
        if is_deleting(job):
            self._untrack(p for p in pods if is_tracked(p))  # foreground deletion waits for them
            return
        counts = tally(job, pods)
        if _finished(job):
            self._untrack(p for p in pods if is_tracked(p) and p not in counts.active)
            return
        if not self._groups.ensure(job, pods):
            self._work.later(key, self._backoff)
            return
        status = clone(job.get("status") or {})
        status["uncountedTerminatedPods"] = {}
        if self._has("lifecycle.job-forgets-finished") and is_indexed(job):
            _recall(status, pods)
        counted = self._count(job, status, counts)
        told: list[tuple[str, str, str]] = []
        more = self._steer(job, status, counts, told)
        self._fill(status, counts)
        written = bool(counted) or not more
        if written and status != job.get("status"):
            self._store.mutate("Job.batch", *key, _set(status), subresource="status")
        self._untrack(counted)
        for event_type, reason, text in told if written else ():  # what is not written yet is told with it
            self._events.event(job, event_type, reason, text)
        if more or counted:
            self._work.add(key)

    def _count(self, job: Obj, status: Obj, counts: Tally) -> list[Obj]:
        """Add newly ended pods to the status and return them."""
        done = parse_indexes(status.get("completedIndexes") or "")
        for pod in counts.succeeded:
            index = index_of(pod)
            if not is_indexed(job):
                status["succeeded"] = int(status.get("succeeded") or 0) + 1
            elif index is not None and index < int(job["spec"]["completions"]):
                done.add(index)
        if is_indexed(job) and done:
            status["completedIndexes"] = format_indexes(done)
            status["succeeded"] = len(done)
        if counts.failed:
            status["failed"] = int(status.get("failed") or 0) + len(counts.failed)
            self._failed_at[uid_of(job)] = (status["failed"], asyncio.get_running_loop().time())
        return [*counts.succeeded, *counts.failed]

    def _steer(self, job: Obj, status: Obj, counts: Tally, told: list[tuple[str, str, str]]) -> bool:
        """Decide what is next for a Job; True when another step must follow at once."""
        spec = job["spec"]
        conditions: list[Obj] = status.setdefault("conditions", [])
        now = self._store.now()
        if get_condition(job, "FailureTarget") or get_condition(job, "SuccessCriteriaMet"):
            self._finish(status, counts, told)
            return False
        if spec.get("suspend"):
            if _condition(conditions, "Suspended", "True", ("JobSuspended", "Job suspended"), now):
                told.append(("Normal", "Suspended", "Job suspended"))
            self._remove(job, counts, counts.active)
            return False
        suspended = get_condition(job, "Suspended")
        if suspended and suspended["status"] == "True":
            _condition(conditions, "Suspended", "False", ("JobResumed", "Job resumed"), now)
            told.append(("Normal", "Resumed", "Job resumed"))
            status["startTime"] = now
        status.setdefault("startTime", now)
        failure = self._failure(job, status, counts)
        if failure is not None:
            _condition(conditions, "FailureTarget", "True", failure, now)
            self._remove(job, counts, counts.active)
            return False
        if succeeds_early(job, status):
            _condition(conditions, "SuccessCriteriaMet", "True", _SUCCESS, now)
            self._remove(job, counts, counts.active)
            return False
        if _complete(job, status, counts):
            _condition(conditions, "SuccessCriteriaMet", "True", _REACHED, now)
            self._remove(job, counts, counts.active)
            return False
        return self._manage(job, status, counts)

    def _finish(self, status: Obj, counts: Tally, told: list[tuple[str, str, str]]) -> None:
        """Give a Job whose end is decided its last condition once no pod is left running."""
        if counts.active or counts.terminating:
            return
        now = self._store.now()
        for condition in list(status["conditions"]):
            why = (condition.get("reason", ""), condition.get("message", ""))
            if condition["type"] == "SuccessCriteriaMet":
                _condition(status["conditions"], "Complete", "True", why, now)
                status["completionTime"] = now
                told.append(("Normal", "Completed", "Job completed"))
            elif condition["type"] == "FailureTarget":
                _condition(status["conditions"], "Failed", "True", why, now)
                told.append(("Warning", *why))

    def _failure(self, job: Obj, status: Obj, counts: Tally) -> tuple[str, str] | None:
        spec = job["spec"]
        limit = spec.get("backoffLimit")
        limit = BACKOFF_LIMIT if limit is None else int(limit)
        restarts = 0
        if spec["template"]["spec"].get("restartPolicy") == "OnFailure":
            restarts = restarts_of(counts.active)
            if restarts and restarts >= limit:
                return _BACKOFF
        if int(status.get("failed") or 0) > limit and not self._has(IGNORES_LIMIT):
            return _BACKOFF
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is not None:
            age = (self._store.clock() - parse_time(status["startTime"])).total_seconds()
            if age >= int(deadline):
                return _DEADLINE
            self._work.later((namespace_of(job), name_of(job)), int(deadline) - age + 0.05)
        return None

    def _manage(self, job: Obj, status: Obj, counts: Tally) -> bool:
        """Create or delete pods towards the wanted parallelism; True when more are to be made."""
        spec = job["spec"]
        wanted = int(spec.get("parallelism") or 0)
        done = int(status.get("succeeded") or 0)
        if spec.get("completions") is not None:
            wanted = min(wanted, int(spec["completions"]) - done)
        elif done:
            wanted = len(counts.active)  # a work queue whose first pod has succeeded gets no new ones
        if spec.get("podReplacementPolicy") == "Failed":
            wanted -= len(counts.terminating)
        have = len(counts.active)
        if have > wanted:
            by_index = sorted(counts.active, key=lambda p: (p["spec"].get("nodeName") is not None, _order(p)))
            self._remove(job, counts, by_index[: have - wanted])
            return False
        if have == wanted:
            self._complete.add(uid_of(job))
        replaces = not (self._has(REPLACES_NOBODY) and uid_of(job) in self._complete)
        if have == wanted or self._delayed(job) or not replaces:
            self._batch.pop(uid_of(job), None)
            return False
        size = min(self._batch.get(uid_of(job), 1), wanted - have)
        self._batch[uid_of(job)] = size * 2
        return all(self._create(job, counts, i) for i in self._next_indexes(job, status, counts, size))

    def _delayed(self, job: Obj) -> bool:
        """Report whether the replacement of a failed pod has to wait; sets the timer for it."""
        failed, at = self._failed_at.get(uid_of(job), (0, 0.0))
        if not failed or self._has(IGNORES_LIMIT):
            return False
        wait = min(self._backoff * 2 ** (failed - 1), LONGEST_BACKOFF)
        left = at + wait - asyncio.get_running_loop().time()
        if left <= 0:
            return False
        self._work.later((namespace_of(job), name_of(job)), left)
        return True

    def _next_indexes(self, job: Obj, status: Obj, counts: Tally, size: int) -> list[int | None]:
        if not is_indexed(job):
            return [None] * size
        taken = parse_indexes(status.get("completedIndexes") or "")
        taken |= {i for i in (index_of(p) for p in counts.active) if i is not None}
        free = [i for i in range(int(job["spec"]["completions"])) if i not in taken]
        return [*free[:size]]

    def _create(self, job: Obj, counts: Tally, index: int | None) -> bool:
        try:
            new = make_pod(job, index)
            self._groups.join(job, new)
            pod = self._store.create("Pod", new)
        except ApiError as error:
            self._events.event(job, "Warning", "FailedCreate", f"Error creating: {error.message}")
            return False
        counts.active.append(pod)
        self._events.event(job, "Normal", "SuccessfulCreate", f"Created pod: {name_of(pod)}")
        return True

    def _remove(self, job: Obj, counts: Tally, pods: list[Obj]) -> None:
        """Delete pods that are no longer wanted; they count neither as succeeded nor as failed."""
        for pod in list(pods):
            self._untrack([pod])
            last = self._store.delete("Pod", namespace_of(pod), name_of(pod), uid=uid_of(pod))
            counts.active.remove(pod)
            self._events.event(job, "Normal", "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")
            if last is not None and self._store.peek("Pod", namespace_of(pod), name_of(pod)) is not None:
                counts.terminating.append(last)

    def _untrack(self, pods: Iterable[Obj]) -> None:
        def change(pod: Obj) -> None:
            kept = [f for f in pod["metadata"].get("finalizers") or [] if f != _TRACKING]
            pod["metadata"]["finalizers"] = kept
            if not kept:
                del pod["metadata"]["finalizers"]

        for pod in list(pods):
            self._store.mutate("Pod", namespace_of(pod), name_of(pod), change)

    def _fill(self, status: Obj, counts: Tally) -> None:
        status["ready"] = min(counts.ready, len(counts.active))
        status["terminating"] = len(counts.terminating)
        if counts.active:
            status["active"] = len(counts.active)
        else:
            status.pop("active", None)
        if not status.get("conditions"):
            status.pop("conditions", None)


def _recall(status: Obj, pods: Iterable[Obj]) -> None:
    """Let a status know of the finished indexes only what pods show (a defect)."""
    shown = {index_of(pod) for pod in pods if phase_of(pod) == "Succeeded" and not is_tracked(pod)}
    status["completedIndexes"] = format_indexes(index for index in shown if index is not None)
    status["succeeded"] = len(shown)


def _set(status: Obj) -> Callable[[Obj], None]:
    def change(job: Obj) -> None:
        job["status"] = status

    return change


def _order(pod: Obj) -> tuple[int, str]:
    index = index_of(pod)
    return -(index if index is not None else 0), name_of(pod)


def _condition(conditions: list[Obj], kind: str, status: str, why: tuple[str, str], now: str) -> bool:
    known = next((c for c in conditions if c["type"] == kind and c["status"] == status), None)
    if known is not None:
        return False
    condition: Obj = {
        "type": kind,
        "status": status,
        "reason": why[0],
        "message": why[1],
        "lastProbeTime": now,
    }
    return set_condition(conditions, condition, now)


def _finished(job: Obj) -> bool:
    return any((get_condition(job, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed"))


def _complete(job: Obj, status: Obj, counts: Tally) -> bool:
    done = int(status.get("succeeded") or 0)
    completions = job["spec"].get("completions")
    if completions is not None:
        return done >= int(completions)
    return done > 0 and not counts.active


def start(runtime: Runtime) -> None:
    """Run the controller of batch Jobs."""
    runtime.spawn(JobController(runtime).run(), NAME)
