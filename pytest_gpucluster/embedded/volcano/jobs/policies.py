"""Lifecycle policies: from what happened to what is done about it."""

from dataclasses import dataclass
from typing import Any

from pytest_gpucluster.embedded.objects import Obj, uid_of
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.plain.times import parse_duration


@dataclass(frozen=True)
class Happening:
    """Something that the Job controller reacts to.

    Attributes:
        event: One of the event names.
        job_uid: The Job that it concerns; empty when unknown.
        task: Task of the pod, empty when no pod is concerned.
        pod: Name of the pod.
        exit_code: Exit code of the pod's first container, where it failed.
        version: Version of the Job under which the pod was created; None when no pod is concerned.
        action: What a command asks for; empty otherwise.
    """

    event: str = names.OUT_OF_SYNC
    job_uid: str = ""
    task: str = ""
    pod: str = ""
    exit_code: int | None = None
    version: int | None = None
    action: str = ""


@dataclass(frozen=True)
class Decision:
    """What is done, and how many seconds later."""

    action: str = names.SYNC
    delay: float = 0.0


INTERNAL = frozenset({names.OUT_OF_SYNC, names.COMMAND_ISSUED, names.POD_RUNNING})


def decide(job: Obj, happened: Happening) -> Decision:
    """Return what a Job's policies say about something that happened.

    A command wins; internal events and news of an older attempt only lead to a sync. Then the first match
    among the policies of the pod's task counts, then the first among the Job's.
    """
    if happened.action:
        return Decision(happened.action)
    if happened.event in INTERNAL:
        return Decision()
    if happened.job_uid and happened.job_uid != uid_of(job):
        return Decision()
    now_at = int((job.get("status") or {}).get("version") or 0)
    if happened.version is not None and happened.version < now_at:
        return Decision()
    for holder in _holders(job, happened.task):
        for policy in holder.get("policies") or []:
            if _matches(policy, happened):
                return Decision(str(policy.get("action")), _delay(policy))
    return Decision()


def _holders(job: Obj, task: str) -> list[dict[str, Any]]:
    tasks = [t for t in job["spec"].get("tasks") or [] if task and t.get("name") == task]
    return [*tasks, job["spec"]]


def _matches(policy: Obj, happened: Happening) -> bool:
    events = {*(policy.get("events") or []), policy.get("event")} - {None}
    if events & {happened.event, names.ANY_EVENT}:
        return happened.event != names.POD_PENDING or bool(policy.get("timeout"))
    code = policy.get("exitCode")
    return (
        code is not None
        and happened.event == names.POD_FAILED
        and happened.exit_code not in (None, 0)
        and int(code) == happened.exit_code
    )


def _delay(policy: Obj) -> float:
    timeout = policy.get("timeout")
    return parse_duration(str(timeout)) if timeout else 0.0
