"""Receipts: when a watch told its last changes, so that what another one tells can be held against it."""

import collections
import threading

from pytest_gpucluster.kube import changes

REMEMBERED = 1024
"""Changes of which it is known when they were told; older ones are forgotten."""


class Receipts:
    """What one watch told last; every thread may ask."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._lock = threading.Lock()
        self._told: collections.deque[tuple[str, float]] = collections.deque(maxlen=REMEMBERED)
        self._list: tuple[str, float] | None = None

    def told(self, version: str, t: float) -> None:
        """Note that the change that made a version was told."""
        with self._lock:
            self._told.append((version, t))

    def listed(self, version: str, t: float) -> None:
        """Note that a list told what all changes up to a version led to."""
        with self._lock:
            self._list = version, t

    def when(self, version: str) -> float | None:
        """Return when a change was told, or a list that has what it led to; None where neither is known."""
        with self._lock:
            found = next((t for told, t in self._told if told == version), None)
            if found is None and self._list is not None and changes.reaches(self._list[0], version):
                return self._list[1]
            return found
