"""What a controller has still to look at: each object once, however often it was named, in the order of naming."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pytest_gpucluster.embedded.objects import Key, Obj
from pytest_gpucluster.embedded.store import Store

if TYPE_CHECKING:
    from pytest_gpucluster.embedded.feed import Subscription


class Worklist:
    """Follows kinds, lets a controller note what each change concerns, and has it look at that."""

    def __init__(
        self,
        store: Store,
        kinds: Sequence[str],
        note: Callable[[str, str, Obj], None],
        look: Callable[[Key], None],
        *,
        all_at_once: bool = False,
    ) -> None:
        """Take what is followed and who does the work.

        Args:
            store: where changes come from.
            kinds: kind keys.
            note: takes the type of a change, the kind key and the object; calls `add` or `later`.
            look: looks at one object.
            all_at_once: look at everything that was named before others may react; otherwise they react to each step.
        """
        self._store = store
        self._kinds = kinds
        self._note = note
        self._look = look
        self._all_at_once = all_at_once
        self._named: dict[Key, None] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._changes: Subscription | None = None

    def add(self, key: Key) -> None:
        """Look at an object in this round."""
        self._named[key] = None

    def later(self, key: Key, seconds: float) -> None:
        """Look at an object after some time, unless it is to be looked at before that anyway."""
        loop = asyncio.get_running_loop()
        old = self._timers.pop(key, None)
        if old is not None:
            seconds = min(seconds, old.when() - loop.time())
            old.cancel()

        def ring() -> None:
            self._timers.pop(key, None)
            self.add(key)
            if self._changes is not None:
                self._changes.nudge()

        self._timers[key] = loop.call_later(max(seconds, 0.0), ring)

    async def run(self) -> None:
        """Follow and look until cancelled."""
        with self._store.subscribe(self._kinds) as changes:
            self._changes = changes
            while not changes.closed:
                if not self._named:
                    await changes.wait()
                for kind, key, obj in changes.pending():
                    self._note(kind, key, obj)
                while self._named:
                    now = next(iter(self._named))
                    del self._named[now]
                    self._look(now)
                    if not self._all_at_once:
                        break
                await asyncio.sleep(0)  # lets schedulers and nodes react between two steps
