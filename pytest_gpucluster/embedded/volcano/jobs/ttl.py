"""Removal of finished Jobs after their `ttlSecondsAfterFinished`."""

import asyncio

from pytest_gpucluster.embedded.objects import Obj, name_of, namespace_of, uid_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.jobs.status import FINISHED, phase_of
from pytest_gpucluster.plain.times import parse_time


async def remove_finished(runtime: Runtime) -> None:
    """Delete Jobs that are Completed, Failed or Terminated once their time is up.

    The time counts from `status.state.lastTransitionTime`, which has whole seconds: removal may come up to
    a second early, as recorded.
    """
    waiting: set[str] = set()
    with runtime.store.subscribe([names.JOB]) as changes:
        async for kind, _, job in changes:
            limit = job["spec"].get("ttlSecondsAfterFinished")
            if kind == "DELETED" or limit is None or phase_of(job) not in FINISHED:
                continue
            if uid_of(job) in waiting or runtime.has("lifecycle.ttl-ignored"):
                continue
            waiting.add(uid_of(job))
            since = parse_time(job["status"]["state"]["lastTransitionTime"])
            left = int(limit) - (runtime.store.clock() - since).total_seconds()
            runtime.spawn(_remove_later(runtime, job, left), f"ttl of {name_of(job)}")


async def _remove_later(runtime: Runtime, job: Obj, seconds: float) -> None:
    await asyncio.sleep(max(seconds, 0.0))
    place = (names.JOB, namespace_of(job), name_of(job))
    present = runtime.store.peek(*place)
    if present is not None and uid_of(present) == uid_of(job):
        runtime.store.delete(*place, propagation="Foreground")
