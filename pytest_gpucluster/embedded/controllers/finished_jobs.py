"""Removal of finished batch Jobs after their `ttlSecondsAfterFinished`."""

import asyncio

from pytest_gpucluster.embedded.objects import Obj, get_condition, name_of, namespace_of, uid_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.plain.times import parse_time

NAME = "ttl-after-finished-controller"


def _finished_at(job: Obj) -> str | None:
    """Return when a Job became Complete or Failed, None while it is neither."""
    for kind in ("Complete", "Failed"):
        condition = get_condition(job, kind)
        if condition is not None and condition["status"] == "True":
            return str(condition["lastTransitionTime"])
    return None


async def remove_finished(runtime: Runtime) -> None:
    """Delete Jobs once their time is up; it counts from a time stamp of whole seconds."""
    waiting: set[str] = set()
    with runtime.store.subscribe(["Job.batch"]) as changes:
        async for kind, _, job in changes:
            limit, since = job["spec"].get("ttlSecondsAfterFinished"), _finished_at(job)
            if kind == "DELETED" or limit is None or since is None or uid_of(job) in waiting:
                continue
            waiting.add(uid_of(job))
            left = int(limit) - (runtime.store.clock() - parse_time(since)).total_seconds()
            runtime.spawn(_remove_later(runtime, job, left), f"ttl of {name_of(job)}")


async def _remove_later(runtime: Runtime, job: Obj, seconds: float) -> None:
    await asyncio.sleep(max(seconds, 0.0))
    place = ("Job.batch", namespace_of(job), name_of(job))
    present = runtime.store.peek(*place)
    if present is not None and uid_of(present) == uid_of(job):
        runtime.store.delete(*place, propagation="Foreground")


def start(runtime: Runtime) -> None:
    """Run the controller."""
    runtime.spawn(remove_finished(runtime), NAME)
