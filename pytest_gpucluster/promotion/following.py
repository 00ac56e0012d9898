"""One object, followed by a watch: its state is seen, never waited for by sleeping."""

import threading
from collections.abc import Callable
from typing import Any, Self

from pytest_gpucluster.kube import errors, kinds, objects, watch

Obj = dict[str, Any]


class Following:
    """Follows one object (`kube.watch.Sink`), in a `with` block.

    Attributes:
        obj: the object as last told, None while it is not there.
        gone: whether it is known not to be there.
    """

    def __init__(
        self, api: objects.Objects, info: kinds.KindInfo, name: str, namespace: str | None = None
    ) -> None:
        """Follow the object of a name."""
        self.obj: Obj | None = None
        self.gone = False
        self._clock = api.connection.clock
        self._changed = threading.Condition()
        self._error: errors.GpuClusterError | None = None
        target = watch.Target(info, namespace, fields=f"metadata.name={name}")
        self._watch = watch.KindWatch(api, target, self)

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the watch."""
        self._watch.stop()
        self._watch.join()

    def until(self, check: Callable[[Obj], bool], seconds: float) -> bool:
        """Wait until the object is as asked, it is gone, or the time is over; report whether it is as asked.

        Raises:
            EnvironmentProblem: it may not be watched.
        """
        end = self._clock.monotonic() + seconds
        with self._changed:
            while not self.gone:
                if self.obj is not None and check(self.obj):
                    return True
                if self._error is not None:
                    raise self._error
                left = end - self._clock.monotonic()
                if left <= 0:
                    return False
                self._clock.wait(self._changed, left)
        return False

    def line(self, change: str, kind: str, obj: Obj, t: float) -> None:  # noqa: ARG002
        """Take a change."""
        with self._changed:
            self.gone = change == "DELETED"
            self.obj = None if self.gone else obj
            self._changed.notify_all()

    def in_sync(self, kind: str, t: float, how: str) -> None:  # noqa: ARG002
        """After the list it is known whether it is there at all."""
        with self._changed:
            if self.obj is None:
                self.gone = True
                self._changed.notify_all()

    def out_of_sync(self, kind: str, t: float, why: str) -> None:
        """A watch that resumes tells what was missed."""

    def ended(self, kind: str, error: errors.GpuClusterError) -> None:  # noqa: ARG002
        """It may not be watched."""
        with self._changed:
            self._error = error
            self._changed.notify_all()
