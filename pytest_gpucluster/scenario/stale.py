"""Stale slots: those of scenarios that are over. They go with the next change of their node, or with the session.

Each scenario has a slot resource of its own, which nobody else asks for: what is left of it takes no room from anybody.
"""

import threading


class Stale:
    """Which slot resources are still on which nodes although nobody needs them any more."""

    def __init__(self) -> None:
        """Know of none."""
        self._lock = threading.Lock()
        self._on: dict[str, set[str]] = {}

    def add(self, node: str, resource: str) -> None:
        """Let slots go with the next change of their node."""
        with self._lock:
            self._on.setdefault(node, set()).add(resource)

    def on(self, node: str) -> list[str]:
        """Return what is to go from a node."""
        with self._lock:
            return sorted(self._on.get(node, ()))

    def gone(self, node: str, resources: list[str]) -> None:
        """Note that some are gone."""
        with self._lock:
            left = self._on.pop(node, set()) - set(resources)
            if left:
                self._on[node] = left

    def everything(self) -> list[tuple[str, list[str]]]:
        """Return what is to go, by node."""
        with self._lock:
            return [(node, sorted(found)) for node, found in sorted(self._on.items())]
