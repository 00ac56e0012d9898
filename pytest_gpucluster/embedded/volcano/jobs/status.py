"""A Job's status: counting pods, and the rules by which phases follow."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from pytest_gpucluster.embedded.objects import Obj, is_deleting
from pytest_gpucluster.embedded.volcano.admission import DEFAULT_MAX_RETRY, task_minimum
from pytest_gpucluster.embedded.volcano.jobs.pods import task_of
from pytest_gpucluster.plain.times import parse_time

PENDING: Final = "Pending"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
ABORTING: Final = "Aborting"
ABORTED: Final = "Aborted"
COMPLETING: Final = "Completing"
COMPLETED: Final = "Completed"
TERMINATING: Final = "Terminating"
TERMINATED: Final = "Terminated"
FAILED: Final = "Failed"
FINISHED: Final = frozenset({COMPLETED, FAILED, TERMINATED})
ENDS: Final = {ABORTING: ABORTED, COMPLETING: COMPLETED, TERMINATING: TERMINATED}
"""Phases that last until no pod is left, and what they become."""

COUNTERS: Final = ("pending", "running", "succeeded", "failed", "unknown", "terminating")
_BY_PHASE: Final = {
    "Pending": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed",
}  # fmt: skip

Rule = Callable[[Obj, Obj], str | None]
"""From the Job and its newly counted status to the next phase, None for no change."""


def always(phase: str) -> Rule:
    """Return the rule that leads to a phase whatever the counters say."""
    return lambda _job, _status: phase


@dataclass
class Count:
    """Pods of a Job by phase, and by task and phase."""

    totals: dict[str, int] = field(default_factory=dict)
    tasks: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, pod: Obj) -> None:
        """Count one pod; one that is being deleted counts as terminating only."""
        if is_deleting(pod):
            self.bump("terminating")
            return
        phase = (pod.get("status") or {}).get("phase") or "Pending"
        self.bump(_BY_PHASE.get(phase, "unknown"))
        by_phase = self.tasks.setdefault(task_of(pod), {})
        by_phase[phase] = by_phase.get(phase, 0) + 1

    def bump(self, counter: str, by: int = 1) -> None:
        """Raise one counter."""
        self.totals[counter] = self.totals.get(counter, 0) + by

    def write(self, status: Obj) -> None:
        """Put the numbers into a status; zero means absent."""
        for counter in COUNTERS:
            status.pop(counter, None)
            if self.totals.get(counter):
                status[counter] = self.totals[counter]
        status.pop("taskStatusCount", None)
        if self.tasks:
            status["taskStatusCount"] = {
                task: {"phase": dict(by_phase)} for task, by_phase in sorted(self.tasks.items())
            }


def phase_of(job: Obj) -> str:
    """Return a Job's phase, empty before the first sync."""
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "")


def replicas_of(job: Obj) -> int:
    """Return how many pods a Job asks for."""
    return sum(int(task.get("replicas") or 0) for task in job["spec"].get("tasks") or [])


def minimum_of(job: Obj) -> int:
    """Return a Job's minAvailable."""
    return int(job["spec"].get("minAvailable") or 0)


def max_retry_of(job: Obj) -> int:
    """Return how many attempts a Job has in all."""
    return int(job["spec"].get("maxRetry") or DEFAULT_MAX_RETRY)


def set_phase(status: Obj, phase: str, now: str) -> None:
    """Put a phase into a status; its condition becomes the newest and the only one of that phase."""
    status["state"] = {"phase": phase, "lastTransitionTime": now}
    kept = [c for c in status.get("conditions") or [] if c.get("status") != phase]
    status["conditions"] = [*kept, {"status": phase, "lastTransitionTime": now}]


def while_pending(job: Obj, status: Obj) -> str | None:
    """Running, once as many pods as the Job's minimum have started (a failed one counts)."""
    started = sum(int(status.get(c) or 0) for c in ("running", "succeeded", "failed"))
    return RUNNING if minimum_of(job) <= started else None


def while_running(job: Obj, status: Obj) -> str | None:
    """Completed or Failed when all pods ended or enough succeeded; Pending when too many wait."""
    succeeded, failed = int(status.get("succeeded") or 0), int(status.get("failed") or 0)
    enough = job["spec"].get("minSuccess")
    if enough is not None and succeeded >= int(enough):
        return COMPLETED
    replicas = replicas_of(job)
    if succeeded + failed == replicas:
        return _ended(job, status, succeeded, enough)
    if int(status.get("pending") or 0) > replicas - minimum_of(job):
        return PENDING
    return None


def _ended(job: Obj, status: Obj, succeeded: int, enough: int | None) -> str:
    tasks = job["spec"].get("tasks") or []
    if minimum_of(job) >= sum(task_minimum(task) for task in tasks):
        counts = status.get("taskStatusCount") or {}
        for task in tasks:
            by_phase = (counts.get(str(task.get("name"))) or {}).get("phase") or {}
            if int(by_phase.get("Succeeded") or 0) < task_minimum(task):
                return FAILED
    if enough is not None:
        return FAILED
    return COMPLETED if succeeded >= minimum_of(job) else FAILED


def while_restarting(job: Obj, status: Obj) -> str | None:
    """Failed when the attempts are used up; Pending when enough pods are out of the way."""
    if int(status.get("retryCount") or 0) >= max_retry_of(job):
        return FAILED
    there = replicas_of(job) - int(status.get("terminating") or 0)
    return PENDING if there >= minimum_of(job) else None


SYNC_RULES: Final[dict[str, Rule]] = {
    "": while_pending, PENDING: while_pending, RUNNING: while_running,
    RESTARTING: while_restarting,
}  # fmt: skip
"""By phase: the rule that a plain sync applies."""


def is_quiet(status: Obj) -> bool:
    """Report whether no pod of the Job lives or is being ended."""
    return not any(int(status.get(c) or 0) for c in ("terminating", "pending", "running"))


def by_terminating(job: Obj) -> str | None:
    """Return what follows a phase where Jobs that complete are terminated on the way (a defect)."""
    phase = phase_of(job)
    completes = any(c.get("status") == COMPLETING for c in (job.get("status") or {}).get("conditions") or [])
    if not completes:
        return ENDS.get(phase)
    return {COMPLETING: TERMINATING, TERMINATING: COMPLETED}.get(phase)


def running_duration(job: Obj, now: str) -> str:
    """Return the time since a Job was created as Go writes a duration, in whole seconds."""
    begun = parse_time(job["metadata"]["creationTimestamp"])
    seconds = int((parse_time(now) - begun).total_seconds())
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def newest(conditions: Iterable[Obj]) -> Obj | None:
    """Return the condition with the latest transition time; of several, the last one listed."""
    found: Obj | None = None
    for condition in conditions:
        when = condition.get("lastTransitionTime") or ""
        if found is None or when >= (found.get("lastTransitionTime") or ""):
            found = condition
    return found
