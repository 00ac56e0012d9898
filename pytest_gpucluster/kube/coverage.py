"""Coverage: for which time a watch is known to have told everything.

A stream that is silent says nothing of whether it is current: it may be held back anywhere on its way. So what a watch
covers ends with its last *proof*: something that was written after all that matters, and came back through this very
watch. Events of one kind arrive in the order of their versions, so that all that happened before came before it.

What was told late is a gap, although nothing is missing: the times of receipt are then not those of what happened.
"""

import dataclasses
import threading

LATE = 1.5
"""Seconds from the answer to a write until it comes back, above which a stream counts as held back. A healthy one
brings it in milliseconds, one of a busy control plane within a second."""


@dataclasses.dataclass(frozen=True)
class Stretch:
    """A span in which everything was told in time, in seconds on the clock of the watch."""

    start: float
    end: float
    how: str


@dataclasses.dataclass
class _Chain:
    """From one list to the next: resumed streams miss nothing, a new list may.

    Attributes:
        proof: to when it is proven, None for never.
        down: since when the stream is down, None while it is up.
        late: parts in which it was held back.
    """

    start: float
    how: str
    proof: float | None = None
    down: float | None = None
    late: list[tuple[float, float]] = dataclasses.field(default_factory=list)

    def stretches(self) -> list[Stretch]:
        """Return what is proven of it, without what was late."""
        if self.proof is None:
            return []
        found: list[Stretch] = []
        at, how = self.start, self.how
        for begin, end in sorted(self.late):
            if begin > at:
                found.append(Stretch(at, min(begin, self.proof), how))
            if end > at:
                at, how = end, f"{self.how}; held back until then"
        found.append(Stretch(at, self.proof, how))
        return [one for one in found if one.end > one.start]


class Coverage:
    """What one watch covers. Its own thread tells it what became of the stream, others when it was proven."""

    def __init__(self) -> None:
        """Cover nothing yet."""
        self._lock = threading.Lock()
        self._chains: list[_Chain] = []
        self._open: _Chain | None = None
        self._doubt: float | None = None

    @property
    def up(self) -> bool:
        """Report whether the stream is followed now."""
        with self._lock:
            return self._open is not None and self._open.down is None

    def listed(self, t: float, how: str) -> None:
        """Begin anew: what happened between the last stream and this list may be missing."""
        with self._lock:
            self._break(t)
            self._open = _Chain(t, how)
            self._chains.append(self._open)

    def resumed(self) -> None:
        """Go on where the stream ended: nothing was missed."""
        with self._lock:
            if self._open is not None:
                self._open.down = None

    def lost(self, t: float) -> None:
        """Note that the stream is down, last heard at `t`."""
        with self._lock:
            if self._open is not None and self._open.down is None:
                self._open.down = t

    def broken(self, t: float) -> None:
        """Note that the stream cannot be resumed, or is not to be trusted: what was not proven until now never is."""
        with self._lock:
            self._break(t)

    def late(self, start: float, end: float) -> None:
        """Note that what happened at `start` was told at `end`."""
        with self._lock:
            if self._open is not None and end > start:
                self._open.late.append((start, end))

    def doubted(self, since: float) -> None:
        """Note that a proof did not come back: silence since then says nothing, even if a later proof does."""
        with self._lock:
            self._doubt = since if self._doubt is None else min(self._doubt, since)

    def proven(self, back: float, to: float) -> bool:
        """Note a proof that came back at `back`; what is covered goes on to `to`, soon after.

        Returns:
            Whether it counts: not where the stream is down.
        """
        with self._lock:
            if self._open is None or self._open.down is not None:
                return False
            if self._doubt is not None:
                self._open.late.append((self._doubt, back))
                self._doubt = None
            self._open.proof = max(to, self._open.proof or to)
            return True

    def stretches(self) -> list[Stretch]:
        """Return what is covered, in order; nothing without a proof."""
        with self._lock:
            return [one for chain in self._chains for one in chain.stretches()]

    def _break(self, t: float) -> None:
        chain, self._open = self._open, None
        if chain is not None and chain.proof is not None:
            chain.proof = min(chain.proof, t if chain.down is None else chain.down)
