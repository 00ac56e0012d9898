"""What controllers share: the store, the configuration, and the tasks they run in."""

import asyncio
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from pytest_gpucluster.embedded.admission import AdmissionHook
from pytest_gpucluster.embedded.defects import AT_START
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.plain.planted import Planted

SCHEDULER_PERIOD = 0.05
"""Seconds between two cycles of a scheduler that works in cycles; Volcano's own default is 1 s."""


class Runtime:
    """The running control plane."""

    def __init__(
        self,
        store: Store,
        config: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the store and the configuration of the process.

        Args:
            store: The store.
            config: What was read from standard input; unknown keys are the business of `__main__`.
            clock: Seconds that only grow, for durations.
        """
        self.store = store
        self.config = config
        self.clock = clock
        self.defects = Planted(config.get("defects") or (), at_start=AT_START)
        self.scheduler_period = float(config.get("scheduler_period") or SCHEDULER_PERIOD)
        self.crashed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def admission(self) -> list[AdmissionHook[Store]]:
        """The admission hooks, in the order in which they run."""
        return self.store.admission

    def has(self, defect: str) -> bool:
        """Report whether a named defect is in force now; asked at each use, since it may be switched meanwhile."""
        return defect in self.defects

    def spawn(self, coro: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a controller; when it ends with an error, the process ends with the reason on stderr."""
        task = asyncio.create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None and not self._stopping:
            sys.stderr.write(f"controller {task.get_name()} crashed\n")
            traceback.print_exception(failure, file=sys.stderr)
            self.crashed.set()

    async def stop(self) -> None:
        """Cancel every controller and wait until all have ended."""
        self._stopping = True
        pending = set(self._tasks)
        # Asked again until it is heard: `asyncio.wait_for` of Python 3.11 loses a cancellation that arrives in the
        # moment in which what it waits for is done.
        while pending:
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=0.2)
