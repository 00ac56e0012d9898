"""The watches of a session: one per kind, from the first scenario that needs it to the end."""

import time
from collections.abc import Sequence

from pytest_gpucluster.kube import errors, kinds, objects, watch
from pytest_gpucluster.scenario import log as logs

SYNC_SECONDS = 20.0
"""Seconds in which watches must be in sync before a scenario begins."""
END_SECONDS = 3.0
"""Seconds in which all watches must have ended."""


class Watches:
    """The watches that run, by kind key."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._running: dict[str, watch.KindWatch] = {}

    def __contains__(self, key: str) -> bool:
        """Report whether a kind is watched."""
        return key in self._running

    def of(self, key: str) -> watch.KindWatch | None:
        """Return the watch of a kind, None where it is not watched."""
        return self._running.get(key)

    def follow(
        self, api: objects.Objects, log: logs.SessionLog, namespace: str, wanted: Sequence[kinds.KindInfo]
    ) -> None:
        """Start the watches that do not run yet and wait until all are in sync, or known not to be served.

        Raises:
            EnvironmentProblem: a watch that is not permitted, or not in sync in time.
        """
        keys = tuple(info.key for info in wanted)
        for info in wanted:
            if info.key not in self._running:
                target = watch.Target(info, namespace if info.namespaced else None)
                self._running[info.key] = watch.KindWatch(api, target, log, lean=logs.lean)
                log.expect(info.key)
                log.covers(info.key, self._running[info.key].coverage)
                self._running[info.key].start()
        if not log.until(lambda: log.in_sync_now(keys), SYNC_SECONDS):
            raise errors.EnvironmentProblem(f"watches are not in sync: {log.trouble(keys)}")
        for key in keys:
            problem = log.problems.get(key)
            if isinstance(problem, errors.EnvironmentProblem):
                raise problem

    def end(self) -> None:
        """Stop all watches and wait for their threads, at most `END_SECONDS` together."""
        for running in self._running.values():
            running.stop()
        end = time.monotonic() + END_SECONDS
        for running in self._running.values():
            running.join(max(0.1, end - time.monotonic()))
        self._running.clear()
