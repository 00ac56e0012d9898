"""An asyncio loop whose clock jumps to the next timer, so that a minute of a cluster takes milliseconds."""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
EPOCH = datetime(2040, 1, 1, tzinfo=UTC)


class DeadlockError(RuntimeError):
    """Nothing is ready and no timer is set."""


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for no time at all: it moves the clock instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise DeadlockError
            self.now += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._jumping.now

    def wall(self) -> datetime:
        """Return the virtual time of day."""
        return EPOCH + timedelta(seconds=self._jumping.now)


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def wall() -> datetime:
    """Return the virtual time of day of the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.wall()
