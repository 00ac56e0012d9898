"""The Job controller: what happens to a Job, its pods and its PodGroup, and what it does about it."""

from collections.abc import Callable
from dataclasses import replace

from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.objects import (
    Obj,
    annotations_of,
    controller_of,
    name_of,
    namespace_of,
    uid_of,
)
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.jobs import status as rules
from pytest_gpucluster.embedded.volcano.jobs.delays import Delays
from pytest_gpucluster.embedded.volcano.jobs.pods import PodCache, task_of
from pytest_gpucluster.embedded.volcano.jobs.policies import Decision, Happening, decide
from pytest_gpucluster.embedded.volcano.jobs.work import JobWork

Handler = Callable[[str, Obj], None]
"""Takes the type of a change and the object."""

END_PHASE = {
    names.ABORT: rules.ABORTING, names.COMPLETE: rules.COMPLETING,
    names.TERMINATE: rules.TERMINATING,
}  # fmt: skip
"""Actions that end a Job, and the phase that they begin."""


class JobController:
    """Reacts to Jobs, pods, PodGroups and commands, one change at a time."""

    def __init__(self, runtime: Runtime) -> None:
        """Work on the runtime's store."""
        self._store = runtime.store
        self._recorder = Recorder(runtime.store, names.CONTROLLER, legacy=True)
        self._pods = PodCache()
        self._work = JobWork(runtime, self._recorder, self._pods)
        self._delays = Delays(runtime)
        self._has = runtime.has
        self._phases: dict[str, str] = {}
        self._generations: dict[str, int] = {}

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        handlers: dict[str, Handler] = {
            names.JOB: self._on_job,
            "Pod": self._on_pod,
            names.POD_GROUP: self._on_podgroup,
            names.COMMAND: self._on_command,
        }
        with self._store.subscribe(handlers) as changes:
            async for kind, key, obj in changes:
                handlers[key](kind, obj)

    # -- what happened -----------------------------------------------------------------------------

    def _on_job(self, kind: str, job: Obj) -> None:
        uid, phase = uid_of(job), rules.phase_of(job)
        generation = int(job["metadata"].get("generation") or 0)
        if kind == "DELETED":
            self._phases.pop(uid, None)
            self._generations.pop(uid, None)
            self._delays.cancel(uid)
            return
        same = self._phases.get(uid) == phase and self._generations.get(uid) == generation
        self._phases[uid], self._generations[uid] = phase, generation
        if kind == "ADDED" or not same:
            self._react(namespace_of(job), name_of(job), Happening(job_uid=uid))

    def _on_pod(self, kind: str, pod: Obj) -> None:
        owner = controller_of(pod)
        if owner is None or owner["kind"] != "Job" or owner["apiVersion"] != names.JOB_API:
            return
        uid = uid_of(pod)
        self._pods.note(kind, pod, owner["uid"])
        before = self._phases.get(uid)
        phase = str((pod.get("status") or {}).get("phase") or "Pending")
        if kind == "DELETED":
            self._phases.pop(uid, None)
            marked = names.OUT_OF_SYNC_MARK in annotations_of(pod)
            event = names.OUT_OF_SYNC if marked else names.POD_EVICTED
        else:
            self._phases[uid] = phase
            event = self._pod_event(pod, owner, before, phase)
        version = annotations_of(pod).get(names.JOB_VERSION)
        happened = Happening(
            event=event,
            job_uid=owner["uid"],
            task=task_of(pod),
            pod=name_of(pod),
            exit_code=_exit_code(pod) if event == names.POD_FAILED else None,
            version=int(version) if version is not None else None,
        )
        self._delays.news(happened)
        if kind == "DELETED":
            self._make_way(namespace_of(pod), owner)
        self._react(namespace_of(pod), owner["name"], happened)

    def _make_way(self, namespace: str, owner: Obj) -> None:
        """Let a Job whose pods could not be made beside those of an earlier one of its name try again."""
        job = self._store.find(names.JOB, namespace, owner["name"])
        if job is not None and uid_of(job) != owner["uid"]:
            self._react(namespace, owner["name"], Happening(job_uid=uid_of(job)))

    def _pod_event(self, pod: Obj, owner: Obj, before: str | None, phase: str) -> str:
        if before == phase:
            return self._restart_event(pod, owner, phase)
        match phase:
            case "Failed":
                return names.POD_FAILED
            case "Running":
                return names.POD_RUNNING
            case "Succeeded":
                done = self._task_is_done(pod, owner)
                return names.TASK_COMPLETED if done else names.OUT_OF_SYNC
        return names.POD_PENDING

    def _siblings(self, pod: Obj, owner: Obj) -> tuple[Obj | None, list[Obj]]:
        job = self._store.peek(names.JOB, namespace_of(pod), owner["name"])
        if job is None or uid_of(job) != owner["uid"]:
            return None, []
        task = next((t for t in job["spec"].get("tasks") or [] if t.get("name") == task_of(pod)), None)
        return task, [p for p in self._pods.of(job) if task_of(p) == task_of(pod)]

    def _task_is_done(self, pod: Obj, owner: Obj) -> bool:
        task, siblings = self._siblings(pod, owner)
        done = [p for p in siblings if (p.get("status") or {}).get("phase") == "Succeeded"]
        return task is not None and len(done) >= int(task.get("replicas") or 0)

    def _restart_event(self, pod: Obj, owner: Obj, phase: str) -> str:
        """TaskFailed once the containers of a task have restarted as often as its maxRetry."""
        if phase not in ("Running", "Pending") or not _restarts(pod):
            return names.OUT_OF_SYNC
        task, siblings = self._siblings(pod, owner)
        if task is None or sum(map(_restarts, siblings)) < rules.max_retry_of({"spec": task}):
            return names.OUT_OF_SYNC
        return names.TASK_FAILED

    def _on_podgroup(self, kind: str, group: Obj) -> None:
        owner = controller_of(group)
        if owner is None or owner["apiVersion"] != names.JOB_API:
            return
        uid, phase = uid_of(group), str((group.get("status") or {}).get("phase") or "")
        if kind == "DELETED":
            self._phases.pop(uid, None)
            return
        before = self._phases.get(uid)
        self._phases[uid] = phase
        if before == phase:
            return
        event = names.UNKNOWN_EVENT if phase == "Unknown" else names.OUT_OF_SYNC
        happened = Happening(event=event, job_uid=owner["uid"])
        self._react(namespace_of(group), owner["name"], happened)

    def _on_command(self, kind: str, command: Obj) -> None:
        target = command.get("target") or {}
        if kind != "ADDED" or target.get("kind") != "Job":
            return
        namespace, action = namespace_of(command), str(command.get("action") or "")
        self._store.delete(names.COMMAND, namespace, name_of(command), uid=uid_of(command))
        job = self._store.find(names.JOB, namespace, str(target.get("name")))
        if job is None:
            return
        text = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
        self._recorder.event(job, "Normal", names.COMMAND_ISSUED, text)
        self._react(namespace, name_of(job), Happening(names.COMMAND_ISSUED, action=action))

    # -- what is done ------------------------------------------------------------------------------

    def _react(self, namespace: str, name: str, happened: Happening) -> None:
        job = self._store.find(names.JOB, namespace, name)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return
        if happened.job_uid and happened.job_uid != uid_of(job):
            return
        decision = self._decide(job, happened)
        if decision.delay:

            def act() -> None:
                present = self._store.find(names.JOB, namespace, name)
                if present is not None and uid_of(present) == uid_of(job):
                    self._execute(present, decision.action, happened)

            self._delays.start(uid_of(job), happened, decision.delay, act)
            self._execute(job, names.SYNC, happened)
            return
        if decision.action != names.SYNC and happened.event != names.COMMAND_ISSUED:
            self._delays.cancel(uid_of(job))
        self._execute(job, decision.action, happened)

    def _decide(self, job: Obj, happened: Happening) -> Decision:
        """Return what is done about something, planted defects included."""
        if self._has("lifecycle.exit-code-ignored"):
            happened = replace(happened, exit_code=None)
        ignored = {
            "lifecycle.eviction-ignored": happened.event == names.POD_EVICTED,
            "lifecycle.resume-ignored": happened.action == names.RESUME,
        }
        if any(self._has(defect) for defect, here in ignored.items() if here):
            return Decision()
        decision = decide(job, happened)
        unasked = decision.action == names.SYNC and self._has("lifecycle.completes-without-policy")
        return Decision(names.COMPLETE) if unasked and _first_is_done(job, happened) else decision

    def _rule(self, phase: str) -> rules.Rule:
        """Return the rule of a phase, planted defects included."""
        rule = rules.SYNC_RULES[phase]
        if phase == rules.RESTARTING and self._has("lifecycle.restarts-without-end"):
            return lambda job, status: rule(job, {**status, "retryCount": 0})
        if phase == rules.RUNNING and self._has("lifecycle.min-success-ignored"):
            return lambda job, status: rule({**job, "spec": {**job["spec"], "minSuccess": None}}, status)
        return rule

    def _execute(self, job: Obj, action: str, happened: Happening) -> None:
        if action != names.SYNC:
            text = f"Start to execute action {action} "
            self._recorder.event(job, "Normal", "ExecuteAction", text)
        phase = rules.phase_of(job)
        if phase in rules.SYNC_RULES:
            if phase == rules.RESTARTING or not self._act(job, action, happened):
                self._work.sync(job, self._rule(phase))
            return
        if action == names.RESUME and phase in (rules.ABORTING, rules.ABORTED):
            self._work.kill(job, rules.always(rules.RESTARTING), counts_retry=True)
            return
        self._work.kill(job, self._end_when_quiet)

    def _end_when_quiet(self, job: Obj, status: Obj) -> str | None:
        """Return what a Job becomes whose pods are gone, planted defects included; None as long as some are there."""
        if not rules.is_quiet(status):
            return None
        if self._has("lifecycle.completes-by-terminating"):
            return rules.by_terminating(job)
        return rules.ENDS.get(rules.phase_of(job))

    def _act(self, job: Obj, action: str, happened: Happening) -> bool:
        """Carry out an action on a Job that is pending or running; False when there is none."""
        if action == names.RESTART:
            retries = int((job.get("status") or {}).get("retryCount") or 0)
            endless = self._has("lifecycle.restarts-without-end")
            last = not endless and retries >= rules.max_retry_of(job) - 1
            self._work.kill(job, rules.always(rules.RESTARTING), keeps_ended=last, counts_retry=True)
        elif action in names.TARGET_ACTIONS and happened.task:
            pod = happened.pod if action == names.RESTART_POD else None
            self._work.kill_target(job, happened.task, pod)
        elif action in END_PHASE:
            self._work.end(job, END_PHASE[action])
        else:
            return False
        return True


def _first_is_done(job: Obj, happened: Happening) -> bool:
    tasks = job["spec"].get("tasks") or []
    return (
        happened.event == names.TASK_COMPLETED
        and len(tasks) > 1
        and happened.task == tasks[0].get("name")
        and rules.phase_of(job) in (rules.PENDING, rules.RUNNING)
    )


def _exit_code(pod: Obj) -> int | None:
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        ended = (container.get("state") or {}).get("terminated") or {}
        return int(ended["exitCode"]) if "exitCode" in ended else None
    return None


def _restarts(pod: Obj) -> int:
    status = pod.get("status") or {}
    both = [
        *(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])
    ]  # fmt: skip
    return sum(int(container.get("restartCount") or 0) for container in both)
