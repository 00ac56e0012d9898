"""Small Jobs that end each in its own way, or do not: failures, exit codes, minSuccess, time to live.

They run side by side and ask for no GPU: what is judged is what the controllers make of the ends of processes.
"""

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import job_ended, phase
from pytest_gpucluster.scenario.programs import image, speaking
from pytest_gpucluster.workload import GangSpec, Role

from .common import HOLD, begun, job_phase, past_enqueue, told

Manifest = dict[str, Any]

ATTEMPTS = 2
"""maxRetry of the Job that fails each time: attempts in all."""

GROUPS = ("PodGroup", "PodGroup.scheduling.k8s.io")
"""Kind keys of Volcano's and of Kubernetes' own."""

TTL = 2
"""ttlSecondsAfterFinished in seconds; its base has whole seconds, so removal may come up to one second early."""

EXIT_CODE = 3

FINAL = {"Completed", "Failed", "Terminated"}
"""Phases that a Job never leaves."""


def exits(code: int) -> tuple[str, ...]:
    """Return a program that works for a moment and ends with a code."""
    return ("sh", "-c", f"sleep 0.2; exit {code}")


CRASHES_ONCE = (
    "sh",
    "-c",
    # The volume of the pod outlives its container, so the second start knows that there was a first.
    "[ -e /again/mark ] || { touch /again/mark; exit 1; }; trap 'exit 0' TERM; sleep 3600 & wait",
)


@dataclasses.dataclass(frozen=True)
class Small:
    """One Job of two members.

    Attributes:
        first: what the first member runs.
        second: what the second runs; the empty tuple leaves it out.
        spec: fields of the Job's spec.
        change: a further change of the manifest.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    spec: Manifest
    change: Callable[[Manifest], None] | None = None


def _restart_in_place(job: Manifest) -> None:
    """Let the members restart inside their pods, which have a volume that outlives their containers."""
    for task in job["spec"]["tasks"]:
        pod = task["template"]["spec"]
        pod["restartPolicy"] = "OnFailure"
        pod["volumes"] = [*pod.get("volumes", ()), {"name": "again", "emptyDir": {}}]
        main = pod["containers"][0]
        main["volumeMounts"] = [*main.get("volumeMounts", ()), {"name": "again", "mountPath": "/again"}]


def _policy(action: str, **when: Any) -> list[Manifest]:
    return [{**(when or {"event": "PodFailed"}), "action": action}]


JOBS: dict[str, Small] = {
    "max-retry": Small(exits(7), HOLD, {"policies": _policy("RestartJob"), "maxRetry": ATTEMPTS}),
    "abort": Small(exits(1), HOLD, {"policies": _policy("AbortJob")}),
    "terminate": Small(exits(EXIT_CODE), HOLD, {"policies": _policy("TerminateJob", exitCode=EXIT_CODE)}),
    "in-place": Small(CRASHES_ONCE, HOLD, {"policies": _policy("AbortJob")}, _restart_in_place),
    "enough": Small(exits(0), HOLD, {"minSuccess": 1}),
    # minAvailable alone would call one success of two enough.
    "too-few": Small(exits(1), exits(0), {"minSuccess": 2, "minAvailable": 1}),
    "time-to-live": Small(exits(0), (), {"ttlSecondsAfterFinished": TTL}),
}
"""Role of the Job -> what it is."""


def written(stage: Stage, name: str, small: Small) -> Manifest:
    """Return the manifest of a small Job.

    Raises:
        WorkloadError: the declared scheduler cannot express it.
    """
    roles = [Role("first", 1, small.first)]
    if small.second:
        roles.append(Role("second", 1, small.second))
    spec = GangSpec(name, roles=tuple(roles), image=image(stage, "python"))
    job: Manifest = speaking(stage).write(spec)
    job["spec"].update(small.spec)
    if small.change is not None:
        small.change(job)
    return job


def ended(handle: Handle, phases: Collection[str] = FINAL) -> Callable[[Live], bool]:
    """Report whether a Job has come to an end and no pod of it lives."""

    def check(live: Live) -> bool:
        alive = [pod for pod in live.pods_of(handle) if phase(pod) in ("Pending", "Running")]
        return job_phase(live, handle) in phases and not alive

    return check


def _restarted(handle: Handle) -> Callable[[Live], bool]:
    def check(live: Live) -> bool:
        return any(
            status.get("restartCount") and "running" in (status.get("state") or {})
            for pod in live.pods_of(handle)
            for status in (pod.get("status") or {}).get("containerStatuses") or ()
        )

    return check


def _attempts_exceeded(handle: Handle) -> Callable[[Live], str]:
    def check(live: Live) -> str:
        status = (live.get(handle.kind, handle.name) or {}).get("status") or {}
        count = int(status.get("retryCount") or 0)
        return f"retryCount is {count} of {ATTEMPTS}" if count > ATTEMPTS else ""

    return check


def run(stage: Stage) -> None:
    """Submit all, wait for the end of each, and watch for a window that nothing moves afterwards."""
    told(stage)
    # A time to live every Job has; policies and numbers of successes only jobs of a scheduler's own API.
    jobs = {
        role: stage.submit(written(stage, f"{stage.name}-{role}", small), role=role)
        for role, small in JOBS.items()
        if stage.dialect.own_api or role == "time-to-live"
    }
    stage.wait("every Job has its pods", begun(job for job in jobs.values() if job.ok), budget="enqueue")
    taken = {role: job for role, job in jobs.items() if job.ok and past_enqueue(stage.live, job)}
    for role, job in taken.items():
        if role == "in-place":
            stage.wait(f"{job.name} has restarted in place", _restarted(job), budget="run")
        elif role != "time-to-live":
            unless = _attempts_exceeded(job) if role == "max-retry" else None
            done = ended(job, {"Aborted"} if role == "abort" else FINAL)
            stage.wait(f"{job.name} has ended", done, budget="run", unless=unless)
    short = taken.get("time-to-live")
    if short is not None and stage.wait(f"{short.name} has ended", _ended_or_gone(short), budget="run"):
        stage.wait(
            f"{short.name} is removed",
            lambda live: not live.exists(short) and not live.pods_of(short) and not _others(live, short),
            budget="finish",
        )
    stage.window("after the ends", last=True)


def _others(live: Live, handle: Handle) -> list[str]:
    """Return what else was made for a Job and is held for a while.

    PodGroups by Kubernetes until their pods are gone, Workloads by Kueue's own finalizer.
    """
    named = [str(group["metadata"]["name"]) for kind in GROUPS for group in live.objects(kind)]
    workloads = live.objects(names.KUEUE_WORKLOAD, owner_uid=handle.uid)
    return [name for name in named if name.startswith(f"{handle.name}-")] + [
        str(workload["metadata"]["name"]) for workload in workloads
    ]


def _ended_or_gone(handle: Handle) -> Callable[[Live], bool]:
    """Report whether a Job that was seen has ended, or is gone by now; one that was not told yet is neither."""
    over, seen = job_ended(handle), []

    def check(live: Live) -> bool:
        there = live.exists(handle)
        if there:
            seen.append(handle.uid)
        return over(live) if there else bool(seen)

    return check


endings = Scenario(
    name="endings",
    summary="seven small Jobs side by side that fail, succeed in part, restart in place or have a time to live",
    run=run,
    needs=Needs(seconds=4, pods_run=True),
    rests=(names.VC_JOB, names.BATCH_JOB),
)
