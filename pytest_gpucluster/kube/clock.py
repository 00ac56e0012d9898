"""Time: one Clock for everything that waits, so that tests replace it and never sleep."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """What waiting needs of time."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        """Wait on a held condition for a notification, at most `timeout` seconds; False when time ran out."""

    def pause(self, stop: threading.Event, seconds: float) -> bool:
        """Let `seconds` pass unless `stop` is set before; report whether it is set."""


class RealClock:
    """The machine's monotonic clock."""

    def monotonic(self) -> float:
        """Return seconds on the machine's monotonic clock."""
        return time.monotonic()

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        """Wait on the condition itself."""
        return condition.wait(timeout)

    def pause(self, stop: threading.Event, seconds: float) -> bool:
        """Wait on the event."""
        return stop.wait(seconds)


class FakeClock:
    """A clock that moves only when somebody waits, and runs what was planned on the way.

    For single-threaded tests: `at(t, action)` plans an action; a wait moves time to the next planned action within
    its timeout, runs it and returns as if it had been notified; without one it moves to the end of the timeout.
    """

    def __init__(self, start: float = 0.0) -> None:
        """Start at `start` seconds."""
        self._now = start
        self._order = itertools.count()
        self._planned: list[tuple[float, int, Callable[[], object]]] = []

    def at(self, t: float, action: Callable[[], object]) -> None:
        """Plan an action for time `t`, in seconds."""
        heapq.heappush(self._planned, (t, next(self._order), action))

    def monotonic(self) -> float:
        """Return the present time in seconds."""
        return self._now

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:  # noqa: ARG002
        """Run the next planned action if it is due within `timeout`, else let the time run out.

        Raises:
            RuntimeError: when the wait has no end and nothing is planned: it would never return.
        """
        if self._planned and (timeout is None or self._planned[0][0] <= self._now + timeout):
            t, _, action = heapq.heappop(self._planned)
            self._now = max(self._now, t)
            action()
            return True
        if timeout is None:
            raise RuntimeError("waiting without a timeout, and nothing is planned")
        self._now += max(0.0, timeout)
        return False

    def pause(self, stop: threading.Event, seconds: float) -> bool:
        """Let the time pass at once."""
        self._now += seconds
        return stop.is_set()
