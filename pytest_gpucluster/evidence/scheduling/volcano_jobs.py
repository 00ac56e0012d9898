"""What a Volcano Job was told to do about events, and what it did: policies, failures, removals, retries."""

import dataclasses
from collections.abc import Iterable

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import containers, owners
from pytest_gpucluster.evidence.objects.owners import JobStory
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.plain import names

FINAL = frozenset({"Completed", "Failed", "Terminated"})
"""Phases that a Job never leaves."""

OVER = FINAL | {"Aborted", "Aborting", "Completing", "Terminating", "Restarting"}
"""Phases in which the controllers take pods away on their own."""

ENDS = {"AbortJob": "Aborted", "TerminateJob": "Terminated", "CompleteJob": "Completed"}
"""Actions that end a Job, and the phase in which it ends."""

RESTARTS = frozenset({"RestartJob", "RestartTask", "RestartPod", "RestartPartition"})

DEFAULT_MAX_RETRY = 3
"""Default of the schema, which admission also puts in for 0."""

ANY_EVENT = "*"
FAILED = "PodFailed"
EVICTED = "PodEvicted"

ANNOTATION_RETRY = "volcano.sh/job-retry-count"
ANNOTATION_REMOVED = "volcano.sh/controller-out-of-sync"
"""Mark that Volcano from v1.14 on puts onto a pod which its controller deletes."""

EXECUTED = "Start to execute action"


@dataclasses.dataclass(frozen=True)
class Policy:
    """One lifecycle policy: on an event or an exit code, do something, perhaps later."""

    events: frozenset[str]
    exit_code: int | None
    action: str
    delayed: bool

    @property
    def when(self) -> str:
        """Return what it waits for."""
        return f"exit code {self.exit_code}" if self.exit_code is not None else "/".join(sorted(self.events))

    def matches(self, event: str, exit_code: int | None) -> bool:
        """Report whether an event, with the exit code of a failure, sets it off."""
        if self.events & {event, ANY_EVENT}:
            return True
        return event == FAILED and self.exit_code is not None and self.exit_code == exit_code


def policies(holder: fields.Object) -> tuple[Policy, ...]:
    """Return the policies of a task or of a Job's spec, in order."""
    found = []
    for one in fields.items(holder, "policies"):
        stated = one.get("events")
        events = {str(e) for e in stated} if isinstance(stated, list | tuple) else set()
        if one.get("event"):
            events.add(str(one["event"]))
        found.append(
            Policy(
                frozenset(events),
                fields.number(one, "exitCode"),
                str(one.get("action") or ""),
                bool(one.get("timeout")),
            )
        )
    return tuple(found)


def all_policies(gang: Gang) -> tuple[Policy, ...]:
    """Return every policy of a Job: those of its tasks, then its own."""
    if gang.job is None:
        return ()
    of_tasks = [policy for task in gang.job.tasks for policy in policies(task)]
    return (*of_tasks, *policies(fields.sub(gang.job.last, "spec")))


def policy_for(gang: Gang, task: str, event: str, exit_code: int | None = None) -> Policy | None:
    """Return the policy that an event of a pod sets off: the first of its task that matches, else of the Job."""
    if gang.job is None:
        return None
    holders = [one for one in gang.job.tasks if task and one.get("name") == task]
    for holder in (*holders, fields.sub(gang.job.last, "spec")):
        for policy in policies(holder):
            if policy.matches(event, exit_code):
                return policy
    return None


def max_retry(job: JobStory) -> int:
    """Return how many attempts a Job has in all."""
    return fields.number(job.last, "spec", "maxRetry") or DEFAULT_MAX_RETRY


def retry_count(job: JobStory) -> int:
    """Return status.retryCount as last seen."""
    return fields.number(job.last, "status", "retryCount") or 0


def retry_path(evidence: Evidence, job: JobStory) -> tuple[tuple[float, int, str], ...]:
    """Return how status.retryCount went: (t, count, key), one per change."""
    found: list[tuple[float, int, str]] = []
    for line in evidence.history(job.uid):
        count = fields.number(line.object, "status", "retryCount") or 0
        if (found[-1][1] if found else 0) != count:
            found.append((line.t, count, line.key))
    return tuple(found)


def executed(evidence: Evidence, job: JobStory) -> tuple[tuple[float, str, str], ...]:
    """Return the actions that the controllers said to execute: (t, action, key); each repetition counts."""
    said = owners.said_about(evidence, "Job", job.namespace, job.name, job.uid)
    return tuple(
        (one.t, one.message.removeprefix(EXECUTED).strip(), one.key)
        for one in said
        if one.reason == "ExecuteAction" and one.message.startswith(EXECUTED)
    )


def end_of_story(evidence: Evidence) -> float:
    """Return when the scenario came to its end: what comes later is our own cleaning up."""
    return max((note.t for note in evidence.notes("end")), default=evidence.end)


def left(pod: PodStory) -> float | None:
    """Return when a pod began to go away: its deletion was asked for, or it vanished."""
    return min((t for t in (pod.deleting, pod.deleted) if t is not None), default=None)


@dataclasses.dataclass(frozen=True)
class Failure:
    """A pod that turned Failed on its own, or while it was being removed from outside."""

    t: float
    pod: PodStory
    exit_code: int | None
    key: str


def failure_of(evidence: Evidence, pod: PodStory) -> Failure | None:
    """Return how a pod turned Failed, None where it did not."""
    for line in evidence.history(pod.uid):
        if fields.text(line.object, "status", "phase") == "Failed" and line.type != "DELETED":
            first = next(iter(fields.items(line.object, "status", "containerStatuses")), {})
            code = fields.number(first, "state", "terminated", "exitCode")
            return Failure(line.t, pod, code, line.key)
    return None


def first_failures(evidence: Evidence, gang: Gang) -> list[Failure]:
    """Return the first failure of each attempt that no action of the controllers came before.

    Later ones of an attempt are news of pods that the controllers are taking away already.
    """
    stop = end_of_story(evidence)
    outside = {pod.uid for pod in removals(evidence, gang)}
    found: dict[str, Failure] = {}
    for pod in gang.pods:
        failure = failure_of(evidence, pod)
        going = left(pod)
        if failure is None or failure.t > stop:
            continue
        if going is not None and going < failure.t and pod.uid not in outside:
            continue
        mark = attempt_of(gang, pod)
        if mark not in found or failure.t < found[mark].t:
            found[mark] = failure
    return sorted(found.values(), key=lambda failure: failure.t)


def attempt_of(gang: Gang, pod: PodStory) -> str:
    """Return which attempt a pod belongs to: as Volcano marks it, else by the generation of the gang."""
    mark = pod.annotations.get(ANNOTATION_RETRY)
    if mark is not None:
        return str(mark)
    members = ((gen.number, {one.uid for one in gen.members}) for gen in gang.generations)
    return next((f"#{number}" for number, uids in members if pod.uid in uids), "")


def attempts(gang: Gang) -> int:
    """Return in how many attempts pods were made."""
    return len({attempt_of(gang, pod) for pod in gang.pods})


def removals(evidence: Evidence, gang: Gang) -> tuple[PodStory, ...]:
    """Return the pods that somebody other than the Job's controller took away, by time.

    Where we noted whom we removed, these; else of each attempt the first pod that went before any other thing that
    makes the controller remove pods: an end, a failure with a policy, an action.
    """
    ours = {
        str(note.data.get("uid"))
        for word in ("deleted-by-us", "evicted-by-us")
        for note in evidence.notes(word)
        if note.data.get("kind") == "Pod"
    }
    noted = [pod for pod in gang.pods if pod.uid in ours]
    if noted or ours:
        return _by_leaving(noted)
    stop = end_of_story(evidence)
    found: dict[str, PodStory] = {}
    for pod in _by_leaving(gang.pods):
        going = left(pod)
        mark = attempt_of(gang, pod)
        if going is None or going > stop or mark in found or _controller_removed(evidence, gang, pod, going):
            continue
        found[mark] = pod
    return tuple(found.values())


def _by_leaving(pods: Iterable[PodStory]) -> tuple[PodStory, ...]:
    going = [(t, pod) for pod in pods if (t := left(pod)) is not None]
    return tuple(pod for _, pod in sorted(going, key=lambda one: one[0]))


def _controller_removed(evidence: Evidence, gang: Gang, pod: PodStory, t: float) -> bool:
    """Report whether a pod that went at a time was taken away by the controller, or with its Job."""
    if pod.annotations.get(ANNOTATION_REMOVED) or gang.job is None:
        return True
    job = gang.job
    gone = [line.t for line in evidence.history(job.uid) if _going(line.object) or line.type == "DELETED"]
    if gone and gone[0] <= t:
        return True
    phase = next((name for when, name, _ in reversed(job.phases) if when <= t), "")
    if phase in OVER or fields.sub(job.last, "spec").get("suspend"):
        return True
    if job.kind != names.VC_JOB:
        return False
    mine = attempt_of(gang, pod)
    start = min(p.created for p in gang.pods if attempt_of(gang, p) == mine)
    if any(start <= when <= t for when, _, _ in executed(evidence, job)):
        return True
    for other in gang.pods:
        failed = (
            failure_of(evidence, other) if other.uid != pod.uid and attempt_of(gang, other) == mine else None
        )
        if failed is not None and failed.t <= t and policy_for(gang, other.task, FAILED, failed.exit_code):
            return True
    return False


def _going(obj: fields.Object) -> bool:
    return bool(fields.sub(obj, "metadata").get("deletionTimestamp"))


@dataclasses.dataclass(frozen=True)
class InPlace:
    """Containers that were restarted inside their pod."""

    pod: PodStory
    restarts: int
    exit_code: int | None
    policy: str
    key: str


def in_place(evidence: Evidence, gang: Gang) -> tuple[InPlace, ...]:
    """Return the pods of a gang whose containers were restarted in place, the most often restarted first."""
    found = []
    for pod in gang.pods:
        best: InPlace | None = None
        asked = containers.own_names(pod.last)
        for line in evidence.history(pod.uid):
            for status in fields.items(line.object, "status", "containerStatuses"):
                if asked and str(status.get("name")) not in asked:
                    continue
                count = fields.number(status, "restartCount") or 0
                if count and (best is None or count > best.restarts):
                    ended = fields.sub(status, "lastState", "terminated") or fields.sub(
                        status, "state", "terminated"
                    )
                    code = fields.number(ended, "exitCode")
                    best = InPlace(pod, count, code, fields.text(pod.last, "spec", "restartPolicy"), line.key)
        if best is not None:
            found.append(best)
    return tuple(sorted(found, key=lambda one: -one.restarts))


@dataclasses.dataclass(frozen=True)
class Commands:
    """When a Job was suspended and resumed; None: not seen."""

    suspend: float | None
    resume: float | None


def commands(evidence: Evidence, gang: Gang) -> Commands:
    """Return when a Job was commanded: by our notes, else by what the controllers said they do."""
    found: dict[str, float] = {}
    for note in evidence.notes("commanded"):
        if note.data.get("uid") == gang.uid:
            found.setdefault(str(note.data.get("action")), note.t)
    if not found and gang.job is not None:
        for said in owners.said_about(evidence, "Job", gang.namespace, gang.name, gang.uid):
            if said.reason == "CommandIssued":
                action = next((a for a in ("AbortJob", "ResumeJob") if a in said.message), "")
                found.setdefault(action, said.t)
    return Commands(found.get("AbortJob"), found.get("ResumeJob"))
