"""Policies with a timeout: actions that happen later unless something comes between."""

import asyncio
from collections.abc import Callable

from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.jobs.policies import Happening


class Delays:
    """Delayed actions, at most one per pod."""

    def __init__(self, runtime: Runtime) -> None:
        """Run timers in a runtime."""
        self._runtime = runtime
        self._waiting: dict[tuple[str, str], tuple[str, asyncio.Task[None]]] = {}

    def start(self, job_uid: str, happened: Happening, seconds: float, act: Callable[[], None]) -> None:
        """Do something after a while, unless it is cancelled or already waits for this pod."""
        key = (job_uid, happened.pod)
        if key in self._waiting:
            return

        async def later() -> None:
            await asyncio.sleep(seconds)
            self._waiting.pop(key, None)
            act()

        task = self._runtime.spawn(later(), f"delayed action for {happened.pod or job_uid}")
        self._waiting[key] = (happened.event, task)

    def news(self, happened: Happening) -> None:
        """Cancel what a pod's later event makes void.

        A wait for a pending pod ends with any other news of it; one for a failed or evicted pod ends when
        the pod runs again.
        """
        key = (happened.job_uid, happened.pod)
        waiting = self._waiting.get(key)
        if waiting is None:
            return
        event = waiting[0]
        moved_on = event == names.POD_PENDING and happened.event not in (
            names.POD_PENDING,
            names.OUT_OF_SYNC,
        )
        healed = event in (names.POD_FAILED, names.POD_EVICTED) and (happened.event == names.POD_RUNNING)
        if moved_on or healed:
            self._waiting.pop(key)[1].cancel()

    def cancel(self, job_uid: str) -> None:
        """Cancel everything that waits for a Job."""
        for key in [k for k in self._waiting if k[0] == job_uid]:
            self._waiting.pop(key)[1].cancel()
