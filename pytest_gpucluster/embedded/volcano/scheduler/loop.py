"""The scheduler's loop: sessions while something changes, and one a second while nothing does."""

import asyncio

from pytest_gpucluster.embedded.binding import bind
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.scheduler.evicting import evict
from pytest_gpucluster.embedded.volcano.scheduler.grudges import Grudges
from pytest_gpucluster.embedded.volcano.scheduler.model import Task
from pytest_gpucluster.embedded.volcano.scheduler.session import Session
from pytest_gpucluster.embedded.volcano.scheduler.settings import Configuration

IDLE_PERIOD = 1.0
"""Seconds between sessions while nothing changes: Volcano's own period, so that a gang which is stuck says so
about once a second, as recorded, however short the configured period is."""

WATCHED = ("Pod", "Node", names.POD_GROUP, names.QUEUE)


async def run_scheduler(runtime: Runtime) -> None:
    """Hold sessions until cancelled, the runtime's period apart."""
    recorder = Recorder(runtime.store, names.SCHEDULER, legacy=True)
    grudges = Grudges(runtime.has)
    configuration = Configuration(runtime.store)
    with runtime.store.subscribe(WATCHED) as changes:
        while True:
            try:
                async with asyncio.timeout(max(IDLE_PERIOD, runtime.scheduler_period)):
                    await changes.batch()
            except TimeoutError:
                pass
            else:
                # The rest of the period lets changes that belong together arrive together.
                await asyncio.sleep(runtime.scheduler_period)
                changes.pending()
            session = Session(runtime.store, recorder, runtime.has, grudges, configuration.now())
            session.run()
            for task, _, why in session.evicted:
                evict(runtime.store, recorder, task.pod, why)
            for task, node in session.placed:
                _bind(runtime, recorder, task, node)
                await asyncio.sleep(0)


def _bind(runtime: Runtime, recorder: Recorder, task: Task, node: str) -> None:
    uid = task.pod["metadata"]["uid"]
    try:
        bound = bind(runtime.store, task.namespace, task.name, node, uid=uid)
    except ApiError as error:
        text = f"failed to bind to node {node}, reason: {error}"
        recorder.event(task.pod, "Warning", "FailedScheduling", text)
        return
    place = f"{task.namespace}/{task.name} to {node}"
    recorder.event(bound, "Normal", "Scheduled", f"Successfully assigned {place}")
